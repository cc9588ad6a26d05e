//! Mail that nobody reads although its agent runs: how old the oldest may be. A hang is about an agent, this about its mail: whoever
//! prints all day and reads nothing hangs in no way.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::fs::Dir;
use netsky_kernel::rpc::SessionView;
use netsky_model::desired::Want;
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::name::Name;
use netsky_runtime::driver::Doing;
use netsky_runtime::drivers::Book;

use crate::context::Context;
use crate::decide::runs;
use crate::error::Result;
use crate::observe::Observed;
use crate::quiet::Quiet;
use crate::standing::Found;
use crate::tick::Ticked;

/// The kind of the condition; behind it stands the agent.
pub(crate) const BACKLOG: &str = "backlog";
/// Mail that waits for longer is told, once it was watched waiting: nobody reads while the machine sleeps.
const OLD: Duration = Duration::from_secs(60 * 60);
const WATCHED: Duration = Duration::from_secs(10 * 60);
/// Mail that waits for longer is a page.
const TOO_OLD: Duration = Duration::from_secs(4 * 60 * 60);

/// What a look sees of the mail of an agent that is wanted and runs.
#[derive(Debug, Clone)]
struct Seen {
    agent: AgentId,
    /// How many wait.
    count: usize,
    /// When the oldest of them was sent.
    oldest: Timestamp,
    /// Whether something is known that it waits for.
    is_excused: bool,
}

/// Whose mail is too old.
pub(crate) fn found(
    cx: &Context<'_>,
    (seen, quiet): (&Observed, &BTreeMap<AgentId, Quiet>),
    ticked: &mut Ticked,
) -> Vec<Found> {
    let wanted = seen.desired.iter().filter(|wish| wish.want == Want::Up && wish.agent.number().is_some());
    let running = wanted.filter_map(|wish| seen.sessions.get(&wish.agent)).filter(|session| runs(session));
    let mut found = Vec::new();
    for session in running {
        let agent = &session.name;
        match look(cx, seen, session, quiet.contains_key(agent)) {
            Ok(looked) => found.extend(looked.and_then(|looked| judge(&looked, seen.now.wall))),
            Err(error) => ticked.problems.push(format!("the age of the mail of {agent}: {error}")),
        }
    }
    found
}

fn look(cx: &Context<'_>, seen: &Observed, session: &SessionView, is_quiet: bool) -> Result<Option<Seen>> {
    let agent = &session.name;
    let names = match Dir::open(cx.layout.folder(agent, State::Written)) {
        Err(error) if error.is_not_found() => Vec::new(),
        opened => opened?.names()?,
    };
    let sent = names.iter().filter_map(|name| Name::parse(name)).map(|name| name.key.hlc.millis());
    let Some(oldest) =
        sent.min().and_then(|millis| Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok())
    else {
        return Ok(None);
    };
    let book = Book::read(cx.layout, agent)?.filter(|book| book.generation == session.generation);
    let waits = book.is_some_and(|book| {
        matches!(book.doing, Doing::Throttled { .. } | Doing::Blocked { .. } | Doing::FailedAuth { .. })
    });
    let is_busy = session.progress.phase_until.as_ref().is_some_and(|until| !until.is_over(&seen.now));
    let is_excused = is_quiet || waits || is_busy;
    Ok(Some(Seen { agent: agent.clone(), count: names.len(), oldest, is_excused }))
}

fn judge(seen: &Seen, now: Timestamp) -> Option<Found> {
    let Seen { agent, count, oldest, is_excused } = seen;
    let age = Duration::try_from(now.duration_since(*oldest)).unwrap_or_default();
    (age >= OLD && !is_excused).then(|| Found {
        condition: format!("{BACKLOG}.{agent}"),
        of: String::new(),
        reason: format!(
            "mail of {agent}: {count} wait and are not read, the oldest since {oldest:.0}; it runs"
        ),
        tell: Some(WATCHED),
        // Watched for the rest: mail of before a clock was set right is no older for that.
        page: Some(TOO_OLD - OLD),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{in_a_home, observed};
    use crate::quiet::{begin_quiet, quiet_windows};

    #[test]
    fn the_oldest_that_waits_counts_and_a_quiet_window_excuses_it() {
        in_a_home(|cx| {
            let agent = AgentId::numbered(1);
            cx.bus.create(&agent).expect("a channel");
            let millis = |hours: i64| {
                let sent = netsky_disk::clock::wall() - jiff::SignedDuration::from_hours(hours);
                u64::try_from(sent.as_millisecond()).expect("after 1970")
            };
            for hours in [0, 2] {
                let name = format!("{:020}-old-{hours}.json", millis(hours) << 16);
                std::fs::write(cx.layout.folder(&agent, State::Written).join(name), "{}").expect("written");
            }
            let look = |state| {
                let mut ticked = Ticked::default();
                let seen = observed(&agent, state);
                let all = found(cx, (&seen, &quiet_windows(cx.layout, &seen.now)), &mut ticked);
                assert!(ticked.problems.is_empty(), "{ticked:?}");
                all
            };
            let all = look("active");
            assert!(all.len() == 1 && all[0].reason.starts_with("mail of agent1: 2 wait"), "{all:?}");
            assert_eq!(look("exited"), [], "who is down is another's business");
            begin_quiet(cx.layout, &agent, OLD, "let it be").expect("begun");
            assert_eq!(look("active"), []);
        });
    }

    #[test]
    fn mail_that_waits_for_an_hour_is_told_for_four_a_page_and_excused_neither() {
        let oldest = Timestamp::from_second(1_790_000_000).expect("in range");
        let seen = Seen { agent: AgentId::root(), count: 2, oldest, is_excused: false };
        let judged = |age: Duration, seen: &Seen| {
            let now = oldest + jiff::SignedDuration::try_from(age).expect("in range");
            judge(seen, now).map(|found| (found.tell, found.page))
        };
        let second = Duration::from_secs(1);
        for (age, is) in [
            (OLD - second, None),
            (OLD, Some((Some(WATCHED), Some(TOO_OLD - OLD)))),
            // A clock that was set right: watched it was not.
            (9 * TOO_OLD, Some((Some(WATCHED), Some(TOO_OLD - OLD)))),
        ] {
            assert_eq!(judged(age, &seen), is, "{age:?}");
            assert_eq!(judged(age, &Seen { is_excused: true, ..seen.clone() }), None);
        }
        assert!(
            judge(&seen, oldest - jiff::SignedDuration::from_hours(9)).is_none(),
            "the wall clock stepped back"
        );
    }
}
