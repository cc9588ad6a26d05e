//! The demo with a real agent program in every slot: each clone answers with a word, agent0 is killed in the middle of an
//! answer, comes back, and goes on in the same conversation.
//!
//! Promise: the model is the user's own, by the program's own login or keys, and that this is paid for is said before anything
//! starts. The programs are given no tools, so that all they can do is talk, in a folder of the demo.
//!
//! Leaves to others: what else the demo shows, which is the same with every program ([`super::script`], [`super::verdict`]).

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use netsky_disk::clock;
use netsky_model::id::AgentId;
use netsky_runtime::driver::Doing;
use netsky_runtime::drivers::Book;

use crate::demo::narrate::Line;
use crate::demo::script::{Moment, Show};
use crate::error::{Error, Kind};
use crate::palette::Tone;

/// The line that says what it costs; also who reads no narration is told.
pub(crate) const PRICE: &str = "price";
/// How many clones there are: enough to see that nobody else is touched, few enough to cost little.
pub(crate) const CLONES: u32 = 2;
/// What each clone is asked.
const WORD: &str = "This is a demonstration. Answer with the one word READY, and use no tools.";
/// What agent0 is asked first, so that there is a conversation to go on with.
const BEGIN: &str = "This is a demonstration. Answer with the one word BEGUN, and use no tools.";
/// What agent0 is killed over: an answer that takes its seconds.
const COUNT: &str =
    "This is a demonstration. Count from 1 to 200 in words, one number a line, and use no tools.";

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Runtime {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
}

impl Runtime {
    /// As a slot's runtime is called, and the program too.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Runtime::Claude => "claude",
            Runtime::Codex => "codex",
        }
    }

    /// Where it is installed; none if it is not.
    fn found(self) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| {
            path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        let path = netsky_disk::env::text("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(self.word())).find(is_program)
    }

    /// The words it is started with: it has no tools, asks nobody, and starts no servers of its user's.
    pub(super) fn argv(self) -> Result<Vec<String>, Error> {
        let word = self.word();
        let Some(program) = self.found() else {
            let what = format!("{word} is not installed: no program of that name is in PATH");
            let hint = format!(
                "the demo would use `{word}` with its own login; `netsky demo` alone needs no such program"
            );
            return Err(Error::new(Kind::NotFound, what).hint(hint));
        };
        let own: &[&str] = match self {
            Runtime::Claude => &["--tools", "", "--strict-mcp-config"],
            Runtime::Codex => &["-c", "approval_policy=\"never\"", "-c", "sandbox_mode=\"read-only\""],
        };
        let own = own.iter().map(|word| (*word).to_owned());
        Ok([program.display().to_string()].into_iter().chain(own).collect())
    }

    /// What it costs, in one line.
    pub(super) fn price(self) -> String {
        format!(
            "this asks the model of your own `{}` for about six short answers, which its account may be charged for, and \
             leaves three conversations among your own",
            self.word()
        )
    }
}

/// What `--runtime` would use here.
pub(super) fn offers() -> String {
    let offer = |runtime: Runtime| match runtime.found() {
        Some(path) => path.display().to_string(),
        None => format!("{}, which is not in PATH", runtime.word()),
    };
    let (claude, codex) = (offer(Runtime::Claude), offer(Runtime::Codex));
    format!(
        "small programs of netsky's own; `--runtime claude` would use {claude}; `--runtime codex` {codex}"
    )
}

impl Show<'_> {
    /// The story with a real program.
    pub(super) fn act_driven(&mut self) -> Result<(), Error> {
        for n in 1..=CLONES {
            self.send(&AgentId::numbered(n), "word", WORD)?;
        }
        self.order("begin", BEGIN)?;
        self.until_answered("not every first answer came")?;
        let before = self.conversation()?;
        self.order("count", COUNT)?;
        self.strike(Moment::Answer(1))?;
        self.settle("the restart was not verified")?;
        self.until_answered("not every message was finished")?;
        let after = self.conversation()?;
        let (tone, text) = match before == after {
            true => (Tone::Good, format!("agent0 goes on with {after}")),
            false => (Tone::Bad, format!("agent0 was in {before} and is in {after}")),
        };
        self.tell(Line::new(clock::wall(), "resumed", tone, text));
        self.conversations = Some((before, after));
        Ok(())
    }

    /// Waits for the end of every message; a turn that failed will not get better by waiting.
    fn until_answered(&mut self, missing: &str) -> Result<(), Error> {
        self.until(missing, |show| {
            for agent in (0..=CLONES).map(AgentId::numbered) {
                let Some(book) = show.book(&agent)? else { continue };
                if let Some(why) = gives_up(&book) {
                    let hint = format!("talk to `{}` in a terminal of its own first", book.runtime);
                    return Err(
                        Error::new(Kind::Failed, format!("{agent} does not answer: {why}")).hint(hint)
                    );
                }
            }
            show.all_finished()
        })
    }

    fn conversation(&self) -> Result<String, Error> {
        let book = self.book(&AgentId::root())?;
        let id = book.and_then(|book| book.conversation).map(|conversation| conversation.id);
        id.ok_or_else(|| Error::new(Kind::Failed, "agent0 has no conversation"))
    }

    /// What netsky-drivers knows of an agent.
    pub(super) fn book(&self, agent: &AgentId) -> Result<Option<Book>, Error> {
        Ok(Book::read(&self.place.layout(), agent)?)
    }
}

/// Why an agent will answer nothing more, as far as it is known.
fn gives_up(book: &Book) -> Option<String> {
    match (&book.waits, &book.doing) {
        (Some(waits), _) => Some(waits.why.clone()),
        (None, Doing::FailedAuth { why }) => Some(why.clone()),
        (None, Doing::Blocked { on }) => Some(format!("it asks: {on}")),
        (None, _) => None,
    }
}
