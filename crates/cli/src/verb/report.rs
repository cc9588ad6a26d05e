//! `netsky report`: an agent says what became of the task in its hands.

use netsky_disk::env::Caller;
use netsky_model::dispatch::Verdict;
use netsky_model::id::{AgentId, TaskId};
use netsky_watchdog::clones;
use netsky_work::dispatch::{MAX_REPORT, Speaker};
use serde_json::json;

use super::clone::dispatches;
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Say what became of the task in hand: run by the agent that was handed it or has claimed it
///
/// Whoever handed it out or made it is told, and so is the owner. The same words again are the same report. Work that did not land, by a
/// conflict or by its gate, is reported anew once it is mended.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("verdict").required(true).args(["done", "blocked", "failed"]))]
pub(crate) struct Args {
    /// It is done: what is there, and what was seen to work; - for standard input
    #[arg(long, value_name = "TEXT")]
    done: Option<String>,
    /// It cannot go on without somebody's word: whose, and about what
    #[arg(long, value_name = "TEXT")]
    blocked: Option<String>,
    /// It cannot be done: why
    #[arg(long, value_name = "TEXT")]
    failed: Option<String>,
    /// Which task [default: the one in hand; one that it has reported is named]
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// For whom, outside every session: 3 or agent3 [default inside a session: its own agent]
    #[arg(long, value_parser = AgentId::from_shorthand)]
    agent: Option<AgentId>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let caller = cx.caller();
        let constellation = cx.constellation()?;
        let speaker = self.speaker(cx, &caller)?;
        let said =
            [(Verdict::Done, self.done), (Verdict::Blocked, self.blocked), (Verdict::Failed, self.failed)];
        let said = said.into_iter().find_map(|(verdict, text)| Some((verdict, text?)));
        let (verdict, text) = said.expect("clap asks for one of them");
        let text = crate::ostk::reach::text(text, MAX_REPORT)?;
        let seen = clones(&constellation)?.0;
        let newest = seen.into_iter().find(|seen| seen.agent == speaker.agent).map(|seen| seen.generation);
        let speaker = Speaker { newest, ..speaker };
        let board = cx.board()?;
        let taken =
            dispatches(&constellation, &board).report(&speaker, self.task.as_ref(), verdict, text.trim())?;
        if cx.json {
            return output::json(&json!({
                "id": taken.dispatch, "task": taken.task, "agent": speaker.agent, "verdict": verdict,
                "duplicate": taken.again,
            }));
        }
        let before = if taken.again { " before" } else { "" };
        output::say(&format!("task {} is reported {verdict}{before}", taken.task))
    }
}

impl Args {
    /// Who speaks.
    fn speaker(&self, cx: &Context, caller: &Caller) -> Result<Speaker, Error> {
        let refused = |what: String| Err(Error::new(Kind::Refused, what).hint("nothing was reported"));
        let (agent, generation) = match (caller, &self.agent) {
            (Caller::Inside { agent: Some(me), .. }, Some(named)) if me != named => {
                return refused(format!("a report for {named} is refused: this session is {me}"));
            }
            (Caller::Inside { agent: Some(me), generation }, _) => (me.clone(), Some(*generation)),
            (Caller::Inside { agent: None, .. }, _) => {
                return refused("this session bears no agent's name".to_owned());
            }
            (Caller::Outside, Some(named)) => (named.clone(), None),
            (Caller::Outside, None) => {
                return refused("outside every session a report says for whom it is: --agent N".to_owned());
            }
        };
        let is_proved = generation.is_some() && cx.is_proved();
        Ok(Speaker { agent, generation, newest: None, is_proved })
    }
}
