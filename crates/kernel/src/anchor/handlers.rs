//! Which function of the anchor does what a method of the list asks.

use super::dispatch::{Call, Handle};
use super::{
    act, attach, hello, kill, lineage, list, owners, ps, reap, rename, report, show, shutdown, spawn, whoami,
};
use crate::rpc::{self, Method, Refusal};

/// `method: |call, params| work`, and for a call whose `request_id` counts `of |anchor, params| session`.
macro_rules! handle {
    ($method:ty: |$call:ident, $params:pat_param| $work:expr) => {
        impl Handle for $method {
            async fn handle(
                $call: &Call,
                $params: <$method as Method>::Params,
            ) -> Result<<$method as Method>::Answer, Refusal> {
                $work
            }
        }
    };
    ($method:ty: of |$anchor:ident, $asked:ident| $session:expr, |$call:ident, $params:ident| $work:expr) => {
        impl Handle for $method {
            fn guarded(
                $anchor: &super::state::Anchor,
                $asked: &Self::Params,
            ) -> Result<Option<(netsky_model::id::AgentId, rpc::Guard)>, Refusal> {
                Ok(Some(($session, $asked.guard.clone())))
            }

            async fn handle($call: &Call, $params: Self::Params) -> Result<Self::Answer, Refusal> {
                $work
            }
        }
    };
}

handle!(rpc::hello::Hello: |call, _| Ok(hello::hello(&call.anchor)));
handle!(rpc::whoami::Whoami: |call, _| Ok(whoami::whoami(&call.anchor, call.caller.as_ref())));
handle!(rpc::ps::Ps: |call, params| Ok(ps::ps(&call.anchor, &params)));
handle!(rpc::reap::Reap: |call, _| reap::reap(&call.anchor));
handle!(rpc::shutdown::Shutdown: |call, params| {
    owners::may_stop(call)?;
    shutdown::shutdown(&call.anchor, params).await
});
handle!(rpc::list::List: |call, params| Ok(list::list(&call.anchor, &params)));
handle!(rpc::show::Show: |call, params| show::show(&call.anchor, &params));
// A report keeps its `request_id` where the report is kept.
handle!(rpc::report::SessionReport: |call, params| report::report(&call.anchor, &params));
handle!(rpc::attach::Attach: |call, params| {
    // Who has a terminal types into it.
    if params.mode == rpc::attach::Mode::Terminal {
        owners::may(call, "the terminal of", &params.session)?;
    }
    attach::attach(call, params)
});
handle!(rpc::detach::Detach: |call, _| Ok(attach::detach(call)));
handle!(rpc::subscribe::Subscribe: |call, params| attach::subscribe(call, params));
handle!(rpc::lineage::list::List: |call, params| Ok(lineage::list(&call.anchor, &params)));
handle!(rpc::lineage::show::Show: |call, params| lineage::show(&call.anchor, &params));

handle!(rpc::spawn::Spawn: of |_anchor, asked| asked.spec.name.clone(),
    |call, params| spawn::spawn(&call.anchor, params).await);
handle!(rpc::kill::Kill: of |_anchor, asked| asked.session.clone(),
|call, params| {
    owners::may(call, "the end of", &params.session)?;
    kill::kill(&call.anchor, params).await
});
handle!(rpc::rename::Rename: of |_anchor, asked| asked.session.clone(),
    |call, params| rename::rename(&call.anchor, params));
handle!(rpc::input::Input: of |_anchor, asked| asked.session.clone(),
|call, params| {
    owners::may(call, "typing into", &params.session)?;
    act::input(&call.anchor, params).await
});
handle!(rpc::prompt::Prompt: of |_anchor, asked| asked.session.clone(),
|call, params| {
    owners::may(call, "a prompt for", &params.session)?;
    act::prompt(&call.anchor, params).await
});
handle!(rpc::resize::Resize: of |_anchor, asked| asked.session.clone(),
|call, params| {
    owners::may(call, "another size for", &params.session)?;
    act::resize(&call.anchor, params).await
});
handle!(rpc::signal::SendSignal: of |_anchor, asked| asked.session.clone(),
|call, params| {
    owners::may(call, "a signal for", &params.session)?;
    act::signal(&call.anchor, params).await
});
handle!(rpc::lineage::resolve::Resolve: of |anchor, asked| lineage::carrier(anchor, &asked.id)?,
    |call, params| lineage::resolve(&call.anchor, params).await);
