//! `kernel/shutdown`: stop the anchor; workers live on unless everything is to end.

use std::rc::Rc;

use super::kill;
use super::state::{Anchor, about};
use super::table::Life;
use crate::log::say;
use crate::rpc::kill::DEFAULT_GRACE_MS;
use crate::rpc::shutdown::{Answer, Params};
use crate::rpc::{EventKind, Guard, event_data};
use crate::session::{Keeper, Phase};

/// Ends what is to be ended; the caller stops the anchor once the answer is on its way.
pub(super) async fn shutdown(anchor: &Rc<Anchor>, params: Params) -> Answer {
    anchor.begin_stop();
    let live = anchor
        .names()
        .into_iter()
        .filter(|name| anchor.entry(name, |entry| !matches!(entry.life, Life::Gone)).unwrap_or(false));
    let mut answer = Answer { ended: Vec::new(), left: live.collect() };
    if params.all {
        stay_down(anchor);
        let grace_ms = params.grace_ms.unwrap_or(DEFAULT_GRACE_MS);
        let kills: Vec<_> = std::mem::take(&mut answer.left)
            .into_iter()
            .map(|session| {
                let anchor = Rc::clone(anchor);
                tokio::task::spawn_local(async move {
                    let params =
                        crate::rpc::kill::Params { session: session.clone(), grace_ms, guard: Guard::none() };
                    (session, kill::kill(&anchor, params).await)
                })
            })
            .collect();
        for kill in kills {
            match kill.await {
                Ok((session, Ok(_))) => answer.ended.push(session),
                Ok((session, Err(refusal))) => {
                    say!("{refusal}");
                    answer.left.push(session);
                }
                Err(error) => say!("{error}"),
            }
        }
    }
    let Answer { ended, left } = answer.clone();
    let data = event_data::AnchorStopped { all: params.all, ended, left };
    anchor.observe(EventKind::AnchorStopped, None, data);
    anchor.journal(|journal| journal.keep_head(false));
    answer
}

/// What this anchor keeps is part of everything, also what dies just now or waits for its revival: the next anchor leaves
/// it down.
fn stay_down(anchor: &Anchor) {
    for name in anchor.names() {
        let kept = anchor.entry(&name, |entry| {
            let over = matches!(entry.meta.phase, Phase::Inactive { .. });
            (entry.meta.spec.keeper == Keeper::Anchor && !over).then(|| about(&entry.meta))
        });
        let Some(about) = kept.flatten().filter(|about| !kill::asked_before(anchor, about)) else { continue };
        let data = event_data::Kill { grace_ms: None, request_id: None };
        if let Err(error) = anchor.commit(EventKind::Kill, Some(about), data) {
            say!("{name} may come back: {error}");
        }
    }
}
