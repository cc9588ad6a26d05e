//! From a line to a method and back.

use std::cell::RefCell;
use std::rc::Rc;

use netsky_model::id::AgentId;
use netsky_model::process::ProcessId;
use serde_json::Value;

use super::answers::once;
use super::state::{Anchor, internal};
use super::subscribe::Subscription;
use crate::rpc::{self, Guard, Method, Refusal, RefusalKind, Request, with_methods};

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
pub(super) fn parse(line: &[u8]) -> Result<Request, Refusal> {
    let malformed = |why: String| Refusal::new(RefusalKind::Malformed, why);
    let request: Request =
        serde_json::from_slice(line).map_err(|e| malformed(format!("the line is not a request: {e}")))?;
    if request.jsonrpc != "2.0" {
        return Err(malformed("the line is not JSON-RPC 2.0".to_owned()));
    }
    Ok(request)
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
    let work = async { serde_json::to_value(M::handle(call, params).await?).map_err(internal) };
    match guarded {
        Some((session, guard)) => once(&call.anchor, M::NAME, &session, &guard, work).await,
        None => work.await,
    }
}

fn unknown(method: &str) -> Refusal {
    // Somebody else's text comes back cut and without controls.
    let shown: String = method.chars().filter(|c| !c.is_control()).take(64).collect();
    Refusal::new(RefusalKind::UnknownMethod, format!("no method {shown}"))
}

/// The parameters of a method; none at all are the empty object.
fn params_of<M: Method>(params: Value) -> Result<M::Params, Refusal> {
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    serde_json::from_value(params)
        .map_err(|e| Refusal::new(RefusalKind::BadParams, format!("parameters of {}: {e}", M::NAME)))
}
