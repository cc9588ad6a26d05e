//! From a line to a method and back.

use std::cell::RefCell;
use std::rc::Rc;

use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;
use serde_json::Value;

use super::answers::{essence, once};
use super::state::{Anchor, internal};
use super::subscribe::Subscription;
use crate::rpc::{self, Guard, Method, Refusal, RefusalKind, Request, schema, with_methods};

/// One call: at which anchor, by whom, on which connection.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) anchor: Rc<Anchor>,
    /// Who connected; none where the system does not say.
    pub(super) caller: Option<ProcessId>,
    /// What the connection follows.
    pub(super) seat: Rc<RefCell<Option<Subscription>>>,
}

/// What the anchor does for a method.
pub(super) trait Handle: Method {
    /// Whose call it is, where its `request_id` counts.
    fn guarded(_anchor: &Anchor, _params: &Self::Params) -> Result<Option<(AgentId, Guard)>, Refusal> {
        Ok(None)
    }

    /// Does it.
    async fn handle(call: &Call, params: Self::Params) -> Result<Self::Answer, Refusal>;
}

/// Reads a line.
///
/// # Errors
/// It is no request; with the `id` to answer under, null where it has none.
pub(super) fn parse(line: &[u8]) -> Result<Request, (Value, Refusal)> {
    let read: Value = serde_json::from_slice(line).map_err(|e| {
        let message = format!("the line is not JSON: {e}");
        (Value::Null, Refusal::new(RefusalKind::Malformed, message))
    })?;
    // A number that is read as another one would be answered under that.
    let is_id = |id: &Value| match id {
        Value::Number(number) => !number.is_f64(),
        id => matches!(id, Value::String(_) | Value::Null),
    };
    let id = read.get("id").filter(|id| is_id(id)).cloned().unwrap_or_default();
    let invalid = |why: &str| {
        let message = format!("the line is not a request of JSON-RPC 2.0: {why}");
        (id.clone(), Refusal::new(RefusalKind::InvalidRequest, message))
    };
    let Value::Object(mut fields) = read else {
        let why = if read.is_array() { "a batch is not taken, send one request a line" } else { "no object" };
        return Err(invalid(why));
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` is not \"2.0\""));
    }
    if fields.get("id").is_some_and(|id| !is_id(id)) {
        return Err(invalid("`id` is neither text nor an integer of 64 bits"));
    }
    let Some(Value::String(method)) = fields.remove("method") else {
        return Err(invalid("`method` is no text"));
    };
    let params = fields.remove("params").unwrap_or_default();
    Ok(Request { jsonrpc: "2.0".to_owned(), id: fields.remove("id"), method, params })
}

macro_rules! dispatch {
    ($($(#[doc = $doc:literal])+ $method:ty, $name:literal, $effect:ident, $params:ty => $answer:ty;)*) => {
        /// Does what a request asks.
        pub(super) async fn answer(call: &Call, request: Request) -> Result<Value, Refusal> {
            let Request { method, params, .. } = request;
            match method.as_str() {
                $($name => one::<$method>(call, params).await,)*
                _ => Err(unknown(&method)),
            }
        }
    };
}
with_methods!(dispatch);

async fn one<M: Handle>(call: &Call, params: Value) -> Result<Value, Refusal> {
    let params = params_of::<M>(params)?;
    let guarded = M::guarded(&call.anchor, &params)?;
    let asked = essence(&params)?;
    let work = async { serde_json::to_value(M::handle(call, params).await?).map_err(internal) };
    match guarded {
        Some((session, guard)) => once(&call.anchor, M::NAME, &session, &guard, asked, work).await,
        None => work.await,
    }
}

fn unknown(method: &str) -> Refusal {
    Refusal::new(RefusalKind::UnknownMethod, format!("no method {}", shown(method)))
}

/// Somebody else's text comes back cut and without controls.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// The parameters of a method; none at all are the empty object.
fn params_of<M: Method>(params: Value) -> Result<M::Params, Refusal> {
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    let bad = |why: String| Refusal::new(RefusalKind::BadParams, format!("parameters of {}: {why}", M::NAME));
    if params.is_array() {
        return Err(bad("they are taken by name, as an object, and not by position".to_owned()));
    }
    if let Some(name) = schema::unknown_parameter(M::NAME, &params) {
        let version = env!("CARGO_PKG_VERSION");
        return Err(bad(format!("unknown parameter `{}` to this anchor, version {version}", shown(&name))));
    }
    serde_json::from_value(params).map_err(|e| bad(e.to_string()))
}
