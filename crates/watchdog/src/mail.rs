//! Tending the mail, as part of the tick: replies are carried, overdue acks asked for again, dead letters paged for, and
//! what was kept long enough goes. Each of them bounded, and none of them in the way of the others.

use std::path::Path;

use netsky_disk::fs::Dir;
use netsky_disk::state;
use netsky_runtime::{Config, carry_all};
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::Result;
use crate::tick::Ticked;
use crate::{overdue, pages, pass_on, reserve, retention};

/// Tends the mail. What fails is a problem of the tick, and the rest goes on.
pub(crate) fn tend(cx: &Context<'_>, ticked: &mut Ticked) {
    let terms = Config::last_good(cx.layout).mail;
    let mut paged = pages::Paged::default();
    for tended in [
        blocked(cx, ticked),
        carry(cx, ticked),
        pass_on(cx, ticked),
        overdue::give_back(cx, &terms, ticked),
        pages::page(cx, &mut paged, ticked),
        retention::clean(cx, &terms, &paged, ticked),
        reserve::keep_for_retention(cx),
        netsky_owner::prepare(cx.layout).map_err(Into::into),
    ] {
        if let Err(error) = tended {
            ticked.problems.push(format!("mail: {error}"));
        }
    }
}

/// Whose mailbox is none: nothing is sent there or read from it until somebody moves away what stands in its place.
fn blocked(cx: &Context<'_>, ticked: &mut Ticked) -> Result<()> {
    for agent in cx.layout.blocked_agents()? {
        if let Err(error) = Dir::open(cx.layout.channel(&agent)) {
            ticked.problems.push(format!("mail of {agent}: {}", crate::error::Error::from(error)));
        }
    }
    Ok(())
}

/// What agentinfinity is asked and did not pass on itself.
fn pass_on(cx: &Context<'_>, ticked: &mut Ticked) -> Result<()> {
    let pass_on::Passed { count: passed, troubles } = pass_on::prompts(cx)?;
    ticked.problems.extend(troubles.into_iter().map(|trouble| format!("mail: {trouble}")));
    ticked
        .done
        .extend((passed > 0).then(|| format!("{passed} of agentinfinity's messages passed on to agent0")));
    Ok(())
}

/// Replies that no event told of.
fn carry(cx: &Context<'_>, ticked: &mut Ticked) -> Result<()> {
    for (agent, carried) in carry_all(&cx.bus)? {
        if let Ok(carried) = &carried
            && let Some(first) = carried.stuck.first()
        {
            let more = match carried.stuck.count() {
                1 => String::new(),
                count => format!("; {} more wait too", count - 1),
            };
            ticked.problems.push(format!("replies of {agent}: {first}{more}"));
        }
        match carried {
            Ok(carried) if carried.sent.count() > 0 => {
                ticked.done.push(format!("{agent}: {} replies carried", carried.sent.count()));
            }
            Ok(_) => {}
            Err(error) => ticked.problems.push(format!("replies of {agent}: {error}")),
        }
    }
    Ok(())
}

/// A file of ours; one that is damaged is put aside, and everything in it begins anew.
pub(crate) fn read_or_aside<T: DeserializeOwned>(path: &Path, ticked: &mut Ticked) -> Result<Option<T>> {
    match state::read_json(path) {
        Err(error) if error.is_damage() => {
            ticked.problems.push(error.to_string());
            state::set_aside(path)?;
            Ok(None)
        }
        read => Ok(read?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use netsky_disk::clock;
    use netsky_ledger::{facts, poison_key};
    use netsky_model::id::AgentId;
    use netsky_model::life::State;

    use super::*;
    use crate::context::in_a_home;

    #[test]
    fn fm_owner_page_no_dead_letter_goes_before_its_page_is_recorded() {
        in_a_home(|cx| {
            let agent = AgentId::root();
            cx.bus.create(&agent).expect("made");
            fs::write(cx.layout.config(), "[mail]\nkeep_poison = \"1ms\"\n").expect("written");
            // From here on the clock is steady.
            tend(cx, &mut Ticked::default());
            let poison = cx.layout.folder(&agent, State::Poisoned);
            // More than one tick pages for.
            let files: Vec<String> = (0..25).map(|number| format!("old-{number}")).collect();
            for file in &files {
                fs::write(poison.join(file), "x").expect("written");
            }
            let written = clock::wall().as_second();
            while clock::wall().as_second() <= written + 1 {
                clock::pause(Duration::from_millis(20));
            }
            let left = || files.iter().filter(|file| poison.join(file).exists()).count();
            let away = cx.layout.home().join("away");
            fs::rename(cx.layout.record(), &away).expect("moved");
            fs::write(cx.layout.record(), "x").expect("a file takes its place");
            tend(cx, &mut Ticked::default());
            assert_eq!(left(), 25, "nothing can be recorded");
            fs::remove_file(cx.layout.record()).expect("ours");
            fs::rename(away, cx.layout.record()).expect("moved back");
            for (paged, stay) in [(20, 5), (25, 0)] {
                tend(cx, &mut Ticked::default());
                let keys: Vec<String> =
                    facts(cx.layout).expect("they read").into_iter().map(|fact| fact.key).collect();
                let told = files.iter().filter(|file| keys.contains(&poison_key("agent0", file))).count();
                assert_eq!((told, left()), (paged, stay));
            }
        });
    }
}
