//! A dispatch: one task in the hands of one clone, from the choice of the clone to the verdict.
//!
//! Promise: a dispatch that is over stays over, and what an earlier incarnation says of it moves nothing: it follows its
//! clone through deaths, and belongs to the newest incarnation alone.
//! Leaves to others: what a task is (`task`), starting anybody, and telling anybody.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EnvelopeId, Generation, Sender, TaskId};
use crate::stamp::Stamp;

/// Version that this program writes.
pub const VERSION: u64 = 1;

/// `state/dispatches/<task>.json`, there as long as it is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Format version.
    pub v: u64,
    /// Its own name: a task may be dispatched more than once.
    pub id: String,
    /// Which task.
    pub task: TaskId,
    /// To whom.
    pub agent: AgentId,
    /// Who handed it out, and is told what came of it.
    pub by: Sender,
    /// When it was decided.
    pub since: Stamp,
    /// How many reports of it there were: what is said once more, after something else, is another one.
    #[serde(default, skip_serializing_if = "is_none")]
    pub reports: u64,
    /// How far it is.
    pub state: State,
}

fn is_none(reports: &u64) -> bool {
    *reports == 0
}

/// How far a dispatch is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum State {
    /// The clone is chosen, and may have to be started; nobody was told.
    Chosen,
    /// It has the brief, and the claim of the task.
    Briefed {
        /// Whose claim it is.
        generation: Generation,
    },
    /// It waits for somebody's word, with the claim.
    Blocked {
        /// Whose claim it is.
        generation: Generation,
        /// What it waits for.
        text: String,
        /// Whether everybody who has to hear of that is told.
        told: bool,
    },
    /// It is over; who has to hear of it is told, and then the file goes.
    Over(End),
}

/// How a dispatch ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How.
    pub verdict: Verdict,
    /// In whose words.
    pub text: String,
    /// Whose claim it was, and whose words they are where it was reported.
    pub generation: Generation,
}

/// What became of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The clone says that it is done.
    Done,
    /// The clone cannot go on without somebody's word; an end only of what nobody handed out.
    Blocked,
    /// The clone says that it failed.
    Failed,
    /// The clone, or the task, was stopped on purpose.
    Stopped,
    /// The clone ended for good, and nobody meant that.
    Died,
}

impl Verdict {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Done => "done",
            Verdict::Blocked => "blocked",
            Verdict::Failed => "failed",
            Verdict::Stopped => "stopped",
            Verdict::Died => "died",
        }
    }

    /// Whether the clone itself says it.
    pub fn is_reported(self) -> bool {
        matches!(self, Verdict::Done | Verdict::Blocked | Verdict::Failed)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What happens to a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The claim is made and the brief is sent.
    Briefed(Generation),
    /// The clone came back as this incarnation, as it was.
    Followed(Generation),
    /// This incarnation says what came of it.
    Reported(End),
    /// What it waited for has come.
    Answered,
    /// It is over without a word of the clone's.
    Ended(Verdict, String),
}

/// Why an event moves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// An incarnation speaks that is not the holder any more.
    #[error(
        "task {task} is with generation {holder} of {agent}, and generation {by} has no say in it any more"
    )]
    Late {
        /// Of which task.
        task: TaskId,
        /// Who has it.
        agent: AgentId,
        /// In which incarnation.
        holder: Generation,
        /// Who spoke.
        by: Generation,
    },
    /// Nobody has it yet.
    #[error("task {0} was not briefed yet")]
    NotBriefed(TaskId),
    /// It was briefed before.
    #[error("task {0} was briefed before")]
    Again(TaskId),
    /// It is over, otherwise.
    #[error("task {0} was reported {1} before")]
    Over(TaskId, Verdict),
}

impl Dispatch {
    /// A clone is chosen.
    pub fn new(id: String, task: TaskId, agent: AgentId, by: Sender, since: Stamp) -> Dispatch {
        Dispatch { v: VERSION, id, task, agent, by, since, reports: 0, state: State::Chosen }
    }

    /// What its facts are about.
    pub fn key(&self) -> String {
        format!("{}/{}", self.task, self.id)
    }

    /// The id of its brief, however often it is sent.
    pub fn brief(&self) -> EnvelopeId {
        EnvelopeId::derived(&["brief", self.task.as_str(), &self.id])
    }

    /// The id of the newest report of it, however often it is told.
    pub fn report(&self, end: &End) -> EnvelopeId {
        let (task, number) = (self.task.as_str(), self.reports.to_string());
        EnvelopeId::derived(&["report", task, &self.id, &number, end.verdict.word(), &end.text])
    }

    /// What it is blocked on, where that is told.
    pub fn blocked(&self) -> Option<End> {
        match &self.state {
            State::Blocked { generation, text, told: true } => {
                Some(End { verdict: Verdict::Blocked, text: text.clone(), generation: *generation })
            }
            _ => None,
        }
    }

    /// Who has the claim; none before it is briefed, and none of one that is over.
    pub fn holder(&self) -> Option<Generation> {
        match self.state {
            State::Briefed { generation } | State::Blocked { generation, .. } => Some(generation),
            State::Chosen | State::Over(_) => None,
        }
    }

    /// The dispatch after an event; what was said before is no other one.
    ///
    /// # Errors
    /// The event moves nothing.
    pub fn after(&self, event: Event) -> Result<Dispatch, Illegal> {
        let mut reports = self.reports;
        let state = match (&self.state, event) {
            (State::Chosen, Event::Briefed(generation)) => State::Briefed { generation },
            (_, Event::Briefed(_)) => return Err(Illegal::Again(self.task.clone())),
            (State::Over(end), Event::Reported(said)) => {
                match end.verdict == said.verdict && end.text == said.text {
                    true => State::Over(end.clone()),
                    false => return Err(Illegal::Over(self.task.clone(), end.verdict)),
                }
            }
            (State::Over(end), _) => return Err(Illegal::Over(self.task.clone(), end.verdict)),
            (State::Chosen, Event::Reported(_) | Event::Followed(_) | Event::Answered) => {
                return Err(Illegal::NotBriefed(self.task.clone()));
            }
            (State::Briefed { generation }, Event::Followed(new)) => {
                State::Briefed { generation: self.newest(*generation, new)? }
            }
            (State::Blocked { generation, text, told }, Event::Followed(new)) => {
                let generation = self.newest(*generation, new)?;
                State::Blocked { generation, text: text.clone(), told: *told }
            }
            (
                State::Briefed { generation: holder } | State::Blocked { generation: holder, .. },
                Event::Reported(said),
            ) => {
                let generation = self.newest(*holder, said.generation)?;
                let is_before = |is_told: bool| match &self.state {
                    State::Blocked { text, told, .. } => *text == said.text && (*told || !is_told),
                    _ => false,
                };
                match said.verdict {
                    Verdict::Blocked => {
                        reports += u64::from(!is_before(false));
                        State::Blocked { generation, told: is_before(true), text: said.text }
                    }
                    _ => {
                        reports += 1;
                        State::Over(End { generation, ..said })
                    }
                }
            }
            // What is not told yet has no answer.
            (State::Blocked { generation, told: true, .. }, Event::Answered) => {
                State::Briefed { generation: *generation }
            }
            (state, Event::Answered) => state.clone(),
            (state, Event::Ended(verdict, text)) => {
                let generation = match state {
                    State::Briefed { generation } | State::Blocked { generation, .. } => *generation,
                    State::Chosen | State::Over(_) => Generation::NONE,
                };
                State::Over(End { verdict, text, generation })
            }
        };
        Ok(Dispatch { state, reports, ..self.clone() })
    }

    /// Who speaks now, if that is the holder or who came after it.
    fn newest(&self, holder: Generation, by: Generation) -> Result<Generation, Illegal> {
        let late = || Illegal::Late { task: self.task.clone(), agent: self.agent.clone(), holder, by };
        if by < holder { Err(late()) } else { Ok(by) }
    }
}

/// One clone, as a dispatch looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub agent: AgentId,
    /// It should run: whoever ends it, it comes back.
    pub is_wanted: bool,
    /// It was stopped on purpose.
    pub is_stopped: bool,
    /// Its newest incarnation.
    pub generation: Generation,
    /// That may live.
    pub lives: bool,
    /// It has proved that it is up.
    pub is_up: bool,
    /// Mail that waits for it or is not finished.
    pub mail: usize,
    /// Which sort of program it is.
    pub runtime: Option<String>,
}

/// What is asked of the clone that gets a task.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// It is this one.
    pub agent: Option<&'a AgentId>,
    /// It is of this sort.
    pub runtime: Option<&'a str>,
    /// Most clones that run or are about to.
    pub most: usize,
    /// Highest number of a clone.
    pub highest: u32,
}

/// Why nobody gets a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoClone {
    /// Not one of those who get tasks.
    #[error("{0} is no clone: those are agent1, agent2 and so on")]
    NoSlot(AgentId),
    /// It runs something else.
    #[error("{agent} runs {runtime}")]
    OtherRuntime {
        /// Who.
        agent: AgentId,
        /// What.
        runtime: String,
    },
    /// So many run, and nobody is free.
    #[error("{running} clones run or are about to, of at most {most}, and none of them is idle")]
    Full {
        /// How many there are.
        running: usize,
        /// How many there may be.
        most: usize,
    },
}

/// Who gets a task: who is named, else an idle one, else the lowest that has nothing and would be started.
///
/// # Errors
/// Nobody does.
pub fn choose(ask: &Ask<'_>, seen: &[Seen], is_busy: impl Fn(&AgentId) -> bool) -> Result<AgentId, NoClone> {
    let is_clone = |agent: &AgentId| agent.number().is_some_and(|number| number > 0 && number <= ask.highest);
    let fits = |seen: &Seen| ask.runtime.is_none_or(|asked| seen.runtime.as_deref() == Some(asked));
    let runs = |seen: &&Seen| seen.lives || seen.is_wanted || is_busy(&seen.agent);
    let clones = || seen.iter().filter(|seen| is_clone(&seen.agent));
    let running = clones().filter(runs).count();
    let room = || if running < ask.most { Ok(()) } else { Err(NoClone::Full { running, most: ask.most }) };
    if let Some(agent) = ask.agent {
        if !is_clone(agent) {
            return Err(NoClone::NoSlot(agent.clone()));
        }
        return match clones().find(|seen| seen.agent == *agent) {
            Some(seen) if seen.lives && !fits(seen) => {
                let runtime = seen.runtime.clone().unwrap_or_default();
                Err(NoClone::OtherRuntime { agent: agent.clone(), runtime })
            }
            Some(seen) if runs(&seen) => Ok(agent.clone()),
            _ => room().map(|()| agent.clone()),
        };
    }
    let is_idle =
        |seen: &&Seen| seen.lives && seen.is_up && seen.mail == 0 && fits(seen) && !is_busy(&seen.agent);
    if let Some(idle) = clones().filter(is_idle).min_by_key(|seen| seen.agent.number()) {
        return Ok(idle.agent.clone());
    }
    room()?;
    // Whose mail waits would be given that first.
    let is_taken =
        |agent: &AgentId| clones().any(|seen| seen.agent == *agent && (runs(&seen) || seen.mail > 0));
    let free = (1..=ask.highest).map(AgentId::numbered).find(|agent| !is_taken(agent) && !is_busy(agent));
    free.ok_or(NoClone::Full { running, most: ask.most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dispatch(state: State) -> Dispatch {
        let since = Stamp {
            wall: "2026-04-19T19:00:00Z".parse().expect("an instant"),
            boot_ms: 1,
            boot_id: "0a1b2c3d".to_owned(),
        };
        let (task, by) = ("7".parse().expect("an id"), Sender::owner());
        Dispatch { state, ..Dispatch::new("one".to_owned(), task, AgentId::numbered(3), by, since) }
    }

    fn briefed(generation: u64) -> State {
        State::Briefed { generation: Generation(generation) }
    }

    fn said(verdict: Verdict, text: &str, generation: u64) -> End {
        End { verdict, text: text.to_owned(), generation: Generation(generation) }
    }

    #[test]
    fn a_dispatch_is_briefed_once_and_over_once() {
        let chosen = dispatch(State::Chosen);
        let had = chosen.after(Event::Briefed(Generation(2))).expect("told");
        assert_eq!(had.holder(), Some(Generation(2)));
        assert_eq!(had.after(Event::Briefed(Generation(3))), Err(Illegal::Again(had.task.clone())));
        let done = had.after(Event::Reported(said(Verdict::Done, "it is", 2))).expect("over");
        let over = State::Over(said(Verdict::Done, "it is", 2));
        assert_eq!((done.holder(), &done.state, done.reports), (None, &over, 1));
        let again = done.after(Event::Reported(said(Verdict::Done, "it is", 2)));
        assert_eq!(again.as_ref(), Ok(&done), "the same words are one report");
        for other in [
            Event::Reported(said(Verdict::Failed, "it is", 2)),
            Event::Reported(said(Verdict::Done, "it is too", 2)),
            Event::Followed(Generation(3)),
            Event::Answered,
            Event::Ended(Verdict::Died, String::new()),
        ] {
            assert_eq!(done.after(other), Err(Illegal::Over(done.task.clone(), Verdict::Done)));
        }
        for early in [Event::Followed(Generation(1)), Event::Reported(said(Verdict::Done, "", 1))] {
            assert_eq!(chosen.after(early), Err(Illegal::NotBriefed(chosen.task.clone())));
        }
        let gone = chosen.after(Event::Ended(Verdict::Stopped, "by hand".to_owned())).expect("over");
        assert_eq!(gone.state, State::Over(said(Verdict::Stopped, "by hand", 0)));
    }

    #[test]
    fn a_late_word_of_an_earlier_incarnation_moves_nothing_and_a_successor_takes_over() {
        let blocked = State::Blocked { generation: Generation(3), text: "which one?".to_owned(), told: true };
        for state in [briefed(3), blocked] {
            let held = dispatch(state);
            for late in [Event::Reported(said(Verdict::Done, "", 2)), Event::Followed(Generation(2))] {
                assert!(matches!(held.after(late), Err(Illegal::Late { by: Generation(2), .. })));
            }
            let next = held.after(Event::Followed(Generation(4))).expect("it came back");
            assert_eq!(next.holder(), Some(Generation(4)));
            let done = held.after(Event::Reported(said(Verdict::Done, "", 4))).expect("the successor's word");
            assert_eq!(done.state, State::Over(said(Verdict::Done, "", 4)));
        }
    }

    #[test]
    fn one_that_is_blocked_holds_on_and_goes_on() {
        let held = dispatch(briefed(3));
        let blocked = held.after(Event::Reported(said(Verdict::Blocked, "which?", 3))).expect("told");
        assert_eq!(blocked.holder(), Some(Generation(3)));
        assert!(matches!(blocked.state, State::Blocked { told: false, .. }));
        let told = State::Blocked { generation: Generation(3), text: "which?".to_owned(), told: true };
        for (words, is_told) in [("which?", true), ("and which?", false)] {
            let again = dispatch(told.clone()).after(Event::Reported(said(Verdict::Blocked, words, 3)));
            assert!(matches!(again.expect("told").state, State::Blocked { told, .. } if told == is_told));
        }
        let done = blocked.after(Event::Reported(said(Verdict::Done, "that one", 3))).expect("over");
        assert_eq!(done.holder(), None);
        assert_ne!(
            held.report(&said(Verdict::Blocked, "a", 3)),
            held.report(&said(Verdict::Blocked, "b", 3))
        );
        assert_eq!(held.brief(), blocked.brief());
    }

    #[test]
    fn the_same_words_are_one_report_until_others_or_an_answer_came_between() {
        let told = |had: &Dispatch| match had.state.clone() {
            State::Blocked { generation, text, .. } => {
                Dispatch { state: State::Blocked { generation, text, told: true }, ..had.clone() }
            }
            _ => had.clone(),
        };
        let blocked = |had: &Dispatch, text| {
            had.after(Event::Reported(said(Verdict::Blocked, text, 3))).expect("it is the holder")
        };
        let first = blocked(&dispatch(briefed(3)), "which?");
        assert_eq!(blocked(&first, "which?"), first, "it was not told yet");
        assert_eq!(first.after(Event::Answered).as_ref(), Ok(&first), "and so has no answer");
        let first = told(&first);
        assert_eq!(blocked(&first, "which?"), first);
        let answered = first.after(Event::Answered).expect("it goes on");
        assert_eq!((&answered.state, answered.reports), (&briefed(3), 1));
        assert_eq!(answered.after(Event::Answered).as_ref(), Ok(&answered));
        let again = blocked(&told(&blocked(&first, "and now?")), "which?");
        let ids = [&first, &blocked(&answered, "which?"), &again].map(|had| {
            let end = told(had).blocked().expect("it is");
            (had.reports, had.report(&end))
        });
        assert_eq!(ids.clone().map(|(reports, _)| reports), [1, 2, 3]);
        assert!(ids[0].1 != ids[1].1 && ids[1].1 != ids[2].1 && ids[0].1 != ids[2].1);
        assert_eq!(first.after(Event::Followed(Generation(4))).map(|had| had.reports), Ok(1));
    }

    fn seen(number: u32) -> Seen {
        Seen {
            agent: AgentId::numbered(number),
            is_wanted: true,
            is_stopped: false,
            generation: Generation(1),
            lives: true,
            is_up: true,
            mail: 0,
            runtime: Some("command".to_owned()),
        }
    }

    const ASK: Ask<'_> = Ask { agent: None, runtime: None, most: 4, highest: 9 };

    fn chosen(ask: &Ask<'_>, seen: &[Seen]) -> Result<u32, NoClone> {
        choose(ask, seen, |agent| agent.number() == Some(2)).map(|agent| agent.number().expect("a clone"))
    }

    #[test]
    fn an_idle_clone_is_used_before_another_is_started() {
        // agent0 has no task, 2 has one, 3 has mail, 4 has not said that it is up.
        let crowd = [seen(0), seen(2), Seen { mail: 1, ..seen(3) }, Seen { is_up: false, ..seen(4) }];
        assert_eq!(chosen(&ASK, &crowd), Ok(1), "nobody is idle, and the lowest is free");
        let stopped = Seen { is_wanted: false, lives: false, is_stopped: true, mail: 2, ..seen(1) };
        let with = |more: Seen| crowd.iter().cloned().chain([more]).collect::<Vec<_>>();
        assert_eq!(chosen(&ASK, &with(stopped)), Ok(5), "whose mail waits would be given that first");
        assert_eq!(chosen(&ASK, &with(seen(7))), Ok(7));
        let of = |runtime| Ask { runtime: Some(runtime), ..ASK };
        assert_eq!(
            chosen(&of("claude"), &with(Seen { runtime: Some("claude".to_owned()), ..seen(7) })),
            Ok(7)
        );
        assert_eq!(chosen(&of("claude"), &crowd), Ok(1), "it is started as one");
        let dying = Seen { lives: false, ..seen(1) };
        assert_eq!(chosen(&ASK, &with(dying)), Err(NoClone::Full { running: 4, most: 4 }));
    }

    #[test]
    fn a12_no_more_clones_are_started_than_the_owner_allows() {
        let crowd: Vec<Seen> = (0..=4).map(|number| Seen { mail: 1, ..seen(number) }).collect();
        assert_eq!(chosen(&ASK, &crowd), Err(NoClone::Full { running: 4, most: 4 }));
        assert_eq!(chosen(&Ask { most: 5, ..ASK }, &crowd), Ok(5));
        let six = AgentId::numbered(6);
        let named = Ask { agent: Some(&six), ..ASK };
        assert_eq!(chosen(&named, &crowd), Err(NoClone::Full { running: 4, most: 4 }), "by name neither");
        let three = AgentId::numbered(3);
        assert_eq!(chosen(&Ask { agent: Some(&three), ..ASK }, &crowd), Ok(3), "it runs");
        let many: Vec<Seen> = (1..=9).map(|number| Seen { mail: 1, ..seen(number) }).collect();
        assert!(chosen(&Ask { most: 99, ..ASK }, &many).is_err());
    }

    #[test]
    fn who_is_no_clone_or_runs_something_else_is_refused() {
        for (name, why) in [("agent0", true), ("agentinfinity", true), ("agent10", true), ("agent9", false)] {
            let agent: AgentId = name.parse().expect("an id");
            let got = chosen(&Ask { agent: Some(&agent), ..ASK }, &[]);
            assert_eq!(got == Err(NoClone::NoSlot(agent)), why, "{name}");
        }
        let one = AgentId::numbered(1);
        let ask = Ask { agent: Some(&one), runtime: Some("claude"), ..ASK };
        assert!(matches!(chosen(&ask, &[seen(1)]), Err(NoClone::OtherRuntime { .. })));
        assert_eq!(chosen(&ask, &[Seen { lives: false, ..seen(1) }]), Ok(1), "it is started as one");
    }
}
