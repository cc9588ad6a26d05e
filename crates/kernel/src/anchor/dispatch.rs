//! From a line to a method and back.

use std::rc::Rc;

use serde_json::Value;

use super::answers::once;
use super::state::{Anchor, internal};
use super::{act, hello, kill, lineage, list, ps, reap, report, show, shutdown, spawn};
use crate::rpc::{self, Method, Refusal, RefusalKind, Request};

/// What this anchor answers, in the order of `formats.md`.
pub(super) const METHODS: &[&str] = &[
    rpc::hello::Hello::NAME,
    rpc::whoami::Whoami::NAME,
    rpc::ps::Ps::NAME,
    rpc::reap::Reap::NAME,
    rpc::shutdown::Shutdown::NAME,
    rpc::spawn::Spawn::NAME,
    rpc::list::List::NAME,
    rpc::show::Show::NAME,
    rpc::input::Input::NAME,
    rpc::prompt::Prompt::NAME,
    rpc::resize::Resize::NAME,
    rpc::signal::SendSignal::NAME,
    rpc::kill::Kill::NAME,
    rpc::report::SessionReport::NAME,
    rpc::subscribe::Subscribe::NAME,
    rpc::lineage::list::List::NAME,
    rpc::lineage::show::Show::NAME,
    rpc::lineage::resolve::Resolve::NAME,
];

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

/// Does what a request asks. `client/subscribe` and `kernel/whoami` are the connection's own and do not come here.
pub(super) async fn answer(anchor: &Rc<Anchor>, request: Request) -> Result<Value, Refusal> {
    let Request { method, params, .. } = request;
    match method.as_str() {
        rpc::hello::Hello::NAME => {
            params_of::<rpc::hello::Hello>(params)?;
            result_of::<rpc::hello::Hello>(&hello::hello(anchor))
        }
        rpc::ps::Ps::NAME => {
            params_of::<rpc::ps::Ps>(params)?;
            result_of::<rpc::ps::Ps>(&ps::ps(anchor))
        }
        rpc::list::List::NAME => {
            params_of::<rpc::list::List>(params)?;
            result_of::<rpc::list::List>(&list::list(anchor))
        }
        rpc::lineage::list::List::NAME => {
            params_of::<rpc::lineage::list::List>(params)?;
            result_of::<rpc::lineage::list::List>(&lineage::list(anchor))
        }
        rpc::lineage::show::Show::NAME => {
            let params = params_of::<rpc::lineage::show::Show>(params)?;
            result_of::<rpc::lineage::show::Show>(&lineage::show(anchor, &params)?)
        }
        rpc::lineage::resolve::Resolve::NAME => {
            let params = params_of::<rpc::lineage::resolve::Resolve>(params)?;
            let (name, guard) = (lineage::carrier(anchor, &params.id)?, params.guard.clone());
            once(anchor, rpc::lineage::resolve::Resolve::NAME, &name, &guard, async {
                result_of::<rpc::lineage::resolve::Resolve>(&lineage::resolve(anchor, params).await?)
            })
            .await
        }
        rpc::show::Show::NAME => {
            let params = params_of::<rpc::show::Show>(params)?;
            result_of::<rpc::show::Show>(&show::show(anchor, &params)?)
        }
        rpc::reap::Reap::NAME => {
            params_of::<rpc::reap::Reap>(params)?;
            result_of::<rpc::reap::Reap>(&reap::reap(anchor)?)
        }
        rpc::shutdown::Shutdown::NAME => {
            let params = params_of::<rpc::shutdown::Shutdown>(params)?;
            result_of::<rpc::shutdown::Shutdown>(&shutdown::shutdown(anchor, params).await)
        }
        rpc::spawn::Spawn::NAME => {
            let params = params_of::<rpc::spawn::Spawn>(params)?;
            let (session, guard) = (params.spec.name.clone(), params.guard.clone());
            once(anchor, rpc::spawn::Spawn::NAME, &session, &guard, async {
                result_of::<rpc::spawn::Spawn>(&spawn::spawn(anchor, params).await?)
            })
            .await
        }
        rpc::kill::Kill::NAME => {
            let params = params_of::<rpc::kill::Kill>(params)?;
            let (session, guard) = (params.session.clone(), params.guard.clone());
            once(anchor, rpc::kill::Kill::NAME, &session, &guard, async {
                result_of::<rpc::kill::Kill>(&kill::kill(anchor, params).await?)
            })
            .await
        }
        rpc::input::Input::NAME => {
            let params = params_of::<rpc::input::Input>(params)?;
            let (session, guard) = (params.session.clone(), params.guard.clone());
            once(anchor, rpc::input::Input::NAME, &session, &guard, async {
                result_of::<rpc::input::Input>(&act::input(anchor, params).await?)
            })
            .await
        }
        rpc::prompt::Prompt::NAME => {
            let params = params_of::<rpc::prompt::Prompt>(params)?;
            let (session, guard) = (params.session.clone(), params.guard.clone());
            once(anchor, rpc::prompt::Prompt::NAME, &session, &guard, async {
                result_of::<rpc::prompt::Prompt>(&act::prompt(anchor, params).await?)
            })
            .await
        }
        rpc::resize::Resize::NAME => {
            let params = params_of::<rpc::resize::Resize>(params)?;
            let (session, guard) = (params.session.clone(), params.guard.clone());
            once(anchor, rpc::resize::Resize::NAME, &session, &guard, async {
                result_of::<rpc::resize::Resize>(&act::resize(anchor, params).await?)
            })
            .await
        }
        rpc::signal::SendSignal::NAME => {
            let params = params_of::<rpc::signal::SendSignal>(params)?;
            let (session, guard) = (params.session.clone(), params.guard.clone());
            once(anchor, rpc::signal::SendSignal::NAME, &session, &guard, async {
                result_of::<rpc::signal::SendSignal>(&act::signal(anchor, params).await?)
            })
            .await
        }
        rpc::report::SessionReport::NAME => {
            let params = params_of::<rpc::report::SessionReport>(params)?;
            result_of::<rpc::report::SessionReport>(&report::report(anchor, &params)?)
        }
        _ => {
            // Somebody else's text comes back cut and without controls.
            let shown: String = method.chars().filter(|c| !c.is_control()).take(64).collect();
            Err(Refusal::new(RefusalKind::UnknownMethod, format!("no method {shown}")))
        }
    }
}

/// The parameters of a method; none at all are the empty object.
pub(super) fn params_of<M: Method>(params: Value) -> Result<M::Params, Refusal> {
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    serde_json::from_value(params)
        .map_err(|e| Refusal::new(RefusalKind::BadParams, format!("parameters of {}: {e}", M::NAME)))
}

pub(super) fn result_of<M: Method>(answer: &M::Answer) -> Result<Value, Refusal> {
    serde_json::to_value(answer).map_err(internal)
}
