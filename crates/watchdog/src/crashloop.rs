//! Who keeps dying, as the owner hears of it: a page for each crashloop, tried by every tick until it is a fact, and the marker
//! that says that it lasts. Neither stands for who is not wanted any more.

use netsky_disk::{clock, state};
use netsky_model::backoff::Attempts;
use netsky_model::desired::{Desired, Want};
use netsky_model::id::AgentId;
use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::event;
use crate::held::Held;
use crate::observe::Observed;
use crate::page::{Raised, page, since};
use crate::reach::CRASHLOOP;
use crate::tick::Ticked;

/// What the marker says.
const WHY: &str = "it keeps dying; one try an hour until it stays up";

/// Looks at everybody, and pages.
pub(crate) fn tend(cx: &Context<'_>, seen: &Observed, held: &mut Held, ticked: &mut Ticked) -> Result<()> {
    // Whoever had made no attempt when this tick looked has made one at most, which is no loop.
    let is_due = |wish: &&Desired| {
        wish.want != Want::Up || seen.markers.may_have(&cx.layout.marker(&wish.agent, "restart-attempts"))
    };
    for wish in seen.desired.iter().filter(is_due) {
        // Each may wait for the record.
        held.got_on()?;
        let tended = match wish.want {
            Want::Up => tell(cx, &wish.agent, ticked),
            Want::Stopped => {
                seen.markers.remove(&cx.layout.marker(&wish.agent, "crashloop-suspected")).map(drop)
            }
        };
        if let Err(error) = tended {
            ticked.problems.push(format!("whether {} keeps dying is not known: {error}", wish.agent));
        }
    }
    Ok(())
}

fn tell(cx: &Context<'_>, agent: &AgentId, ticked: &mut Ticked) -> Result<()> {
    let path = cx.layout.marker(agent, "restart-attempts");
    // As it is now: this tick may have made an attempt.
    let Some(mut attempts) = state::read_json::<Attempts>(&path)?.filter(|attempts| attempts.crashloop)
    else {
        return Ok(());
    };
    mark(cx, agent)?;
    if attempts.paged {
        return Ok(());
    }
    // One of an earlier version does not say since when.
    let first = attempts.since.clone().or_else(|| attempts.at.first().cloned()).unwrap_or_else(clock::stamp);
    // Whom the anchor keeps it starts by its own pauses.
    let then = if agent.number().is_some() { "from now on one try an hour" } else { "its anchor tries on" };
    let reason = format!("{agent} keeps dying since {:.0}: {then}", first.wall);
    let data = json!({ "agent": agent, "since": first, "why": WHY });
    let is_event = event::event(cx, event::CRASHLOOP, &format!("{agent}.{}", since(&first)), &data);
    let raised = Raised {
        condition: format!("{CRASHLOOP}{agent}"),
        occurrence: since(&first),
        reason,
        data: json!({ "agent": agent, "since": first }),
    };
    if page(cx, &raised, ticked) && is_event {
        (attempts.since, attempts.paged) = (Some(first), true);
        state::write_json(path, &attempts)?;
    }
    Ok(())
}

/// Says that it lasts.
fn mark(cx: &Context<'_>, agent: &AgentId) -> Result<()> {
    let marker = cx.layout.marker(agent, "crashloop-suspected");
    if !state::exists(&marker)? {
        state::write_json(marker, &json!({ "v": 1, "at": clock::stamp(), "why": WHY }))?;
        cx.record.watchdog("crashloop", Some(agent), WHY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use netsky_disk::lock::Lock;
    use netsky_ledger::facts;

    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn i10_a_crashloop_that_the_record_refused_is_paged_for_by_a_later_tick_and_once() {
        in_a_home(|cx| {
            let agent = AgentId::numbered(1);
            let path = cx.layout.marker(&agent, "restart-attempts");
            let mut attempts = Attempts::default();
            let at = |secs: u64| netsky_model::stamp::Stamp { boot_ms: secs * 1000, ..clock::stamp() };
            (1..=5).for_each(|secs| attempts.add(&at(secs)));
            state::write_json(&path, &attempts).expect("written");
            let tick = || {
                let mut ticked = Ticked::default();
                tell(cx, &agent, &mut ticked).expect("it goes on");
                ticked
            };
            let held = Lock::try_take(cx.layout.record_lock()).expect("ours").expect("free");
            assert_eq!(tick().problems.len(), 1, "a problem of that tick");
            drop(held);
            assert_eq!(tick().done.len(), 1);
            // An attempt much later: the first ones have left the window. And a death between page and note.
            let mut later: Attempts = state::read_json(&path).expect("reads").expect("there");
            later.add(&at(4000));
            later.paged = false;
            state::write_json(&path, &later).expect("written");
            assert_eq!(tick(), Ticked::default());
            let mut keys: Vec<String> =
                facts(cx.layout).expect("they read").into_iter().map(|f| f.key).collect();
            keys.sort();
            let of = since(&at(5));
            assert_eq!(
                keys,
                [format!("agent1.{of}"), format!("crashloop.agent1.{of}")],
                "by what made it one"
            );
            assert!(state::exists(cx.layout.marker(&agent, "crashloop-suspected")).expect("looked"));
        });
    }
}
