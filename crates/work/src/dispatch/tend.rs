//! The dispatches of a tick: what a dead one left is finished, the claim follows its clone, and whose clone ended for good is over.

use std::time::Duration;

use netsky_disk::{clock, state};
use netsky_model::dispatch::{Dispatch, Event as Step, Seen, State, Verdict};
use netsky_model::id::{Generation, TaskId};
use netsky_model::task::{How, State as Stands};

use super::{Dispatches, Error, Result, all, point};

/// How long a clone that was decided on may take to be started before the decision is forgotten: a verb waits a minute for it.
const UNSTARTED: Duration = Duration::from_secs(10 * 60);

/// What a tick did about dispatches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tended {
    /// What it did, a sentence each.
    pub done: Vec<String>,
    /// What did not work, a sentence each.
    pub problems: Vec<String>,
}

/// Who there is, and whether the constellation is up.
pub type Look<E> = std::result::Result<(Vec<Seen>, bool), E>;

/// What is to be done about one.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    Brief(Generation),
    Forget(&'static str),
    Settle,
    Follow(Generation),
    End(Verdict, &'static str),
}

impl Dispatches<'_> {
    /// Look at every dispatch, and at who there is: in this order, as whoever is briefed meanwhile may not have been there before.
    /// While the constellation is not up nobody's end is for good.
    ///
    /// # Errors
    /// Who there is is not known, their folder cannot be read or is being changed for long; what fails for one is a problem of that
    /// one.
    pub fn tend<E: From<Error>>(&self, look: impl FnOnce() -> Look<E>) -> std::result::Result<Tended, E> {
        let _held = self.hold()?;
        let (open, unread) = all(self.layout).map_err(Error::from)?;
        let mut tended = Tended::default();
        for (task, error) in unread {
            tended.problems.push(format!("the dispatch of task {task}: {error}"));
            if error.is_damage() {
                state::set_aside(self.layout.dispatch(&task)).map_err(Error::from)?;
            }
        }
        if open.is_empty() {
            return Ok(tended);
        }
        let (seen, is_up) = look()?;
        for had in &open {
            match self.tend_one(had, &seen, is_up) {
                Ok(said) => tended.done.extend(said),
                Err(error) => tended.problems.push(format!("the dispatch of task {}: {error}", had.task)),
            }
        }
        Ok(tended)
    }

    /// The same of one task that was handed out, for whoever would hand it out again.
    ///
    /// # Errors
    /// It does not read, or what is left to do fails.
    pub fn refresh<E: From<Error>>(
        &self,
        task: &TaskId,
        look: impl FnOnce() -> Look<E>,
    ) -> std::result::Result<(), E> {
        let _held = self.hold()?;
        match self.read(task)? {
            Some(had) if had.state != State::Chosen => {
                let (seen, is_up) = look()?;
                self.tend_one(&had, &seen, is_up)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn tend_one(&self, had: &Dispatch, seen: &[Seen], is_up: bool) -> Result<Option<String>> {
        let clone = seen.iter().find(|seen| seen.agent == had.agent);
        let task = self.board.get(&had.task)?;
        let is_placed = task.as_ref().map_or(Ok(None), |task| self.place(task))?.is_some();
        let stands = task.map(|task| task.state);
        let age = (is_placed, clock::stamp().since(&had.since));
        let Dispatch { task, agent, .. } = had;
        Ok(Some(match due(had, stands.as_ref(), clone, is_up, age) {
            Due::Nothing => {
                let now = self.by_now(had.clone());
                let Some(generation) = now.holder().filter(|_| now != *had) else { return Ok(None) };
                self.claim(had, generation)?;
                point("work.dispatch.answered")?;
                self.write(&now)?;
                format!("task {task} goes on with {agent}, which has its answer")
            }
            Due::Brief(generation) => {
                self.brief_held(had, generation)?;
                format!("task {task} is with {agent}, generation {generation}")
            }
            Due::Forget(why) => {
                self.forget(had)?;
                format!("task {task} is not given to {agent}: {why}")
            }
            Due::Settle => {
                self.settle(had)?;
                format!("task {task}: what {agent} said of it is told")
            }
            Due::Follow(generation) => {
                self.claim(had, generation)?;
                point("work.dispatch.followed")?;
                let followed = had.after(Step::Followed(generation))?;
                // What it waits for it waits for still.
                if let Some(on) = followed.blocked() {
                    self.move_task(&followed, &on)?;
                }
                self.write(&followed)?;
                format!("task {task} goes on with {agent}, generation {generation}")
            }
            Due::End(verdict, why) => {
                if clone.is_some_and(|seen| seen.lives) {
                    self.tell_taken(had, why)?;
                }
                self.end_held(had, verdict, why)?;
                format!("task {task} is over for {agent}: {why}")
            }
        }))
    }
}

fn due(
    had: &Dispatch,
    stands: Option<&Stands>,
    clone: Option<&Seen>,
    is_up: bool,
    (is_placed, age): (bool, Duration),
) -> Due {
    let gone = clone.is_none_or(|seen| !seen.lives && !seen.is_wanted);
    let holder = match (&had.state, clone) {
        (State::Over(_) | State::Blocked { told: false, .. }, _) => return Due::Settle,
        (State::Chosen, _) if !is_left(stands, had) => {
            return Due::Forget("it is closed, gone, or somebody else's");
        }
        (State::Chosen, Some(seen)) if seen.lives && seen.is_up && is_placed => {
            return Due::Brief(seen.generation);
        }
        (State::Chosen, _) => {
            let is_late = is_up && age > UNSTARTED;
            return if is_late { Due::Forget("it never came up for it") } else { Due::Nothing };
        }
        (State::Briefed { generation } | State::Blocked { generation, .. }, _) => *generation,
    };
    match stands {
        None => return Due::End(Verdict::Stopped, "the task is gone"),
        Some(Stands::Closed { how: How::Dropped, .. }) => {
            return Due::End(Verdict::Stopped, "the task was dropped");
        }
        Some(Stands::Closed { .. }) => return Due::End(Verdict::Done, "the task was closed"),
        Some(Stands::Open) => return Due::End(Verdict::Stopped, "the task was released"),
        Some(held) if held.holder().is_some_and(|(by, _)| *by != had.agent) => {
            return Due::End(Verdict::Stopped, "the task is somebody else's");
        }
        Some(_) => {}
    }
    match clone {
        Some(seen) if seen.lives && seen.generation > holder => Due::Follow(seen.generation),
        Some(seen) if gone && is_up && seen.is_stopped => Due::End(Verdict::Stopped, "its clone was stopped"),
        _ if gone && is_up => Due::End(Verdict::Died, "its clone ended for good"),
        _ => Due::Nothing,
    }
}

/// Whether a task is still to be given to whom was chosen for it.
fn is_left(stands: Option<&Stands>, had: &Dispatch) -> bool {
    match stands {
        None | Some(Stands::Closed { .. }) => false,
        Some(Stands::Claimed { by, .. }) => *by == had.agent,
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use netsky_model::dispatch::End;
    use netsky_model::id::{AgentId, Sender};

    use super::*;

    const NOW: (bool, Duration) = (true, Duration::ZERO);

    fn had(state: State) -> Dispatch {
        let (task, agent) = ("7".parse().expect("an id"), AgentId::numbered(3));
        Dispatch { state, ..Dispatch::new("one".to_owned(), task, agent, Sender::owner(), clock::stamp()) }
    }

    fn briefed() -> Dispatch {
        had(State::Briefed { generation: Generation(2) })
    }

    fn claimed(generation: u64) -> Stands {
        Stands::Claimed { by: AgentId::numbered(3), generation: Generation(generation) }
    }

    fn seen(generation: u64) -> Seen {
        Seen {
            agent: AgentId::numbered(3),
            is_wanted: true,
            is_stopped: false,
            generation: Generation(generation),
            lives: true,
            is_up: true,
            mail: 0,
            runtime: None,
        }
    }

    #[test]
    fn what_was_decided_is_done_as_soon_as_it_can_be_and_forgotten_where_it_never_is() {
        let chosen = had(State::Chosen);
        let due = |clone: Option<&Seen>, age| due(&chosen, Some(&Stands::Open), clone, true, age);
        assert_eq!(due(Some(&seen(1)), NOW), Due::Brief(Generation(1)));
        assert_eq!(due(Some(&Seen { is_up: false, ..seen(1) }), NOW), Due::Nothing, "it begins");
        let late = UNSTARTED + Duration::from_secs(1);
        assert_eq!(due(Some(&seen(1)), (false, Duration::ZERO)), Due::Nothing, "its workspace is being made");
        let forgotten = Due::Forget("it never came up for it");
        assert_eq!(due(Some(&seen(1)), (false, late)), forgotten);
        assert_eq!(
            (due(None, NOW), due(None, (true, late))),
            (Due::Nothing, Due::Forget("it never came up for it"))
        );
        for dumb in [Seen { lives: false, ..seen(1) }, Seen { is_up: false, ..seen(1) }] {
            assert_eq!(due(Some(&dumb), (true, late)), forgotten, "wanted, and never up");
            let down = super::due(&chosen, Some(&Stands::Open), Some(&dumb), false, (true, late));
            assert_eq!(down, Due::Nothing, "all are down");
        }
    }

    #[test]
    fn what_was_decided_and_is_not_to_be_had_any_more_is_forgotten() {
        let chosen = had(State::Chosen);
        let other = Stands::Claimed { by: AgentId::numbered(4), generation: Generation(1) };
        for (stands, is_left) in [
            (None, false),
            (Some(other), false),
            (Some(Stands::Closed { how: How::Dropped, why: None }), false),
            (Some(claimed(1)), true),
            (Some(Stands::Open), true),
        ] {
            let is = due(&chosen, stands.as_ref(), Some(&seen(1)), true, NOW);
            assert_eq!(is == Due::Brief(Generation(1)), is_left, "{stands:?}");
            assert_eq!(matches!(is, Due::Forget(_)), !is_left, "{stands:?}");
        }
    }

    #[test]
    fn i7_the_claim_follows_and_ends_only_with_an_end_for_good() {
        let had = briefed();
        let due = |clone: Option<&Seen>, is_up| due(&had, Some(&claimed(2)), clone, is_up, NOW);
        assert_eq!(due(Some(&seen(2)), true), Due::Nothing);
        assert_eq!(due(Some(&seen(3)), true), Due::Follow(Generation(3)));
        let dead = Seen { lives: false, ..seen(2) };
        assert_eq!(due(Some(&dead), true), Due::Nothing, "it is brought back");
        let stopped = Seen { is_wanted: false, is_stopped: true, ..dead.clone() };
        assert_eq!(due(Some(&stopped), true), Due::End(Verdict::Stopped, "its clone was stopped"));
        let gone = Seen { is_wanted: false, ..dead };
        for gone in [Some(&gone), None] {
            assert_eq!(due(gone, true), Due::End(Verdict::Died, "its clone ended for good"));
            assert_eq!(due(gone, false), Due::Nothing, "all are down");
        }
        assert_eq!(due(Some(&Seen { lives: true, ..stopped }), true), Due::Nothing, "it is being ended");
    }

    #[test]
    fn a_task_that_is_taken_out_of_its_hands_is_so() {
        let had = briefed();
        let end = |stands: Option<&Stands>| match due(&had, stands, Some(&seen(2)), true, NOW) {
            Due::End(verdict, _) => Some(verdict),
            _ => None,
        };
        let other = Stands::Claimed { by: AgentId::numbered(4), generation: Generation(1) };
        for (stands, verdict) in [
            (None, Some(Verdict::Stopped)),
            (Some(Stands::Open), Some(Verdict::Stopped)),
            (Some(other), Some(Verdict::Stopped)),
            (Some(Stands::Closed { how: How::Dropped, why: None }), Some(Verdict::Stopped)),
            (Some(Stands::Closed { how: How::Done, why: None }), Some(Verdict::Done)),
            (Some(claimed(1)), None),
        ] {
            assert_eq!(end(stands.as_ref()), verdict, "{stands:?}");
        }
    }

    #[test]
    fn what_was_said_and_not_told_is_told_whatever_else_is_true() {
        let end = End { verdict: Verdict::Done, text: String::new(), generation: Generation(2) };
        let blocked = |told| State::Blocked { generation: Generation(2), text: String::new(), told };
        for (state, is) in [
            (State::Over(end), Due::Settle),
            (blocked(false), Due::Settle),
            (blocked(true), Due::End(Verdict::Died, "its clone ended for good")),
        ] {
            assert_eq!(due(&had(state), Some(&claimed(2)), None, true, NOW), is);
        }
    }
}
