//! `netsky agent`: one slot, and what its agent asks.

use netsky_disk::layout::KernelLayout;
use netsky_disk::lock::Lock;
use netsky_disk::{clock, process};
use netsky_kernel::rpc::Guard;
use netsky_model::id::AgentId;
use netsky_model::life::State;
use netsky_model::process::Life;
use netsky_model::render::{line, plain};
use netsky_runtime::driver::{Answer, Ask, AskKind, BETWEEN, Doing, SeveralFit};
use netsky_runtime::drivers::Book;
use netsky_watchdog::{Which, Wish, stop};

use super::up::{Program, bring_up};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;
use crate::transcript::described;

/// Bring up one agent, or answer what it asks
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    /// Which agent: 3 or agent3
    #[arg(required = true, value_parser = AgentId::from_shorthand)]
    agent: Option<AgentId>,
    #[command(flatten)]
    kind: Program,
    /// A conversation of that program from before, to be gone on with
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// Its program and arguments [default: from config.toml, or the program of its kind]
    #[arg(last = true)]
    argv: Vec<String>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// What the owner does with an agent that runs.
#[derive(clap::Subcommand)]
enum Verb {
    /// Allow what it asks for, or answer its question
    Allow(Said),
    /// Refuse what it asks for
    Deny(Said),
    /// Stop its turn: what it was told is over with that
    Interrupt {
        /// Which agent
        #[arg(value_parser = AgentId::from_shorthand)]
        agent: AgentId,
    },
    /// Stop the agent of one slot: it stays down until `netsky agent N` or `netsky up` wants it again, and its mail waits
    Stop {
        /// Which agent; all of them, agent0 among them, are stopped by `netsky down`
        #[arg(value_parser = AgentId::from_shorthand)]
        agent: AgentId,
    },
    /// Have the mail tried now that waits because a turn failed: its key, its model or its provider is mended
    Retry {
        /// Which agent
        #[arg(value_parser = AgentId::from_shorthand)]
        agent: AgentId,
    },
    /// Show what it does, what it asks, and what it has used
    Show {
        /// Which agent
        #[arg(value_parser = AgentId::from_shorthand)]
        agent: AgentId,
    },
}

/// An answer.
#[derive(clap::Args)]
struct Said {
    /// Which agent
    #[arg(value_parser = AgentId::from_shorthand)]
    agent: AgentId,
    /// Words for it: the answer to a question, or why not
    text: Option<String>,
    /// Which question: the beginning of its id, as `netsky status` and `agent show` print it
    #[arg(long, value_name = "ID")]
    ask: String,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        match (self.verb, self.agent) {
            (Some(Verb::Allow(said)), _) => say_answer(cx, said, true),
            (Some(Verb::Deny(said)), _) => say_answer(cx, said, false),
            (Some(Verb::Interrupt { agent }), _) => interrupt(cx, &agent),
            (Some(Verb::Stop { agent }), _) => stop_one(cx, &agent),
            (Some(Verb::Retry { agent }), _) => retry(cx, &agent),
            (Some(Verb::Show { agent }), _) => show(cx, &agent),
            (None, Some(agent)) => {
                let which = Which::One(agent);
                bring_up(cx, &Wish { which, argv: self.argv, resume: self.resume, ..self.kind.wish()? })
            }
            (None, None) => unreachable!("clap asks for an agent where there is no verb"),
        }
    }
}

/// What is known of the program that runs: what is said to one that is gone nobody hears.
fn book_of_who_runs(cx: &Context, agent: &AgentId) -> Result<Book, Error> {
    let book = book(cx, agent)?;
    if !is_held(cx, agent)? || has_ended(cx, agent)? {
        return Err(gone(format!("{agent} does not run")));
    }
    match is_of_now(cx, &book)? {
        true => Ok(book),
        false => {
            Err(Error::new(Kind::Busy, format!("netsky-drivers has not come to {agent} as it runs now"))
                .hint("nothing was done, repeat; `netsky status` shows who drives"))
        }
    }
}

fn gone(what: String) -> Error {
    Error::new(Kind::NotFound, what)
        .hint("what it still wants to know it asks again, and unfinished mail is told again")
}

/// Whether netsky-drivers lives, which tells agents what is left for them.
fn is_driven_now(cx: &Context) -> Result<bool, Error> {
    Ok(Lock::is_held(cx.home()?.keeper_lock(&AgentId::drivers()))?)
}

fn is_told(cx: &Context) -> Result<&'static str, Error> {
    Ok(if is_driven_now(cx)? { "is told" } else { "is told as soon as netsky-drivers is back" })
}

fn is_held(cx: &Context, agent: &AgentId) -> Result<bool, Error> {
    Ok(Lock::is_held(KernelLayout::new(cx.home()?.kernel_root()).worker_lock(agent))?)
}

/// Whether its program is dead, though its worker may have yet to see that.
fn has_ended(cx: &Context, agent: &AgentId) -> Result<bool, Error> {
    let meta = described(&KernelLayout::new(cx.home()?.kernel_root()), agent);
    Ok(meta.and_then(|meta| meta.program).is_some_and(|program| process::probe(&program) == Life::Dead))
}

/// Whether a book is about the program that its session runs now.
fn is_of_now(cx: &Context, book: &Book) -> Result<bool, Error> {
    let meta = described(&KernelLayout::new(cx.home()?.kernel_root()), &book.agent);
    Ok(meta.is_none_or(|meta| meta.generation == book.generation && meta.spec.runtime == book.runtime))
}

fn book(cx: &Context, agent: &AgentId) -> Result<Book, Error> {
    Book::read(cx.home()?, agent)?.ok_or_else(|| {
        Error::new(Kind::NotFound, format!("{agent} is driven by nobody"))
            .hint("`netsky status` shows who there is; a slot of the kind `command` speaks for itself")
    })
}

fn say_answer(cx: &Context, said: Said, allow: bool) -> Result<(), Error> {
    let Said { agent, text, ask } = said;
    let asked = answer(cx, &agent, &ask, allow, text.clone())?;
    if cx.json {
        return output::json(&Answer { ask: asked.id, allow, text });
    }
    let verb = if allow { "allow" } else { "deny" };
    output::say(&format!("{agent} {}: {verb} {}", is_told(cx)?, asked.text))
}

/// Leaves an answer for what an agent asks; what that was.
pub(crate) fn answer(
    cx: &Context,
    agent: &AgentId,
    ask: &str,
    allow: bool,
    text: Option<String>,
) -> Result<Ask, Error> {
    let verb = if allow { "allow" } else { "deny" };
    cx.owner_only(&format!("agent {verb}"))?;
    let book = book_of_who_runs(cx, agent)?;
    let asked = find(&book, ask)?;
    if allow && asked.kind == AskKind::Question && text.is_none() {
        let what = format!("{agent} asks: {}", asked.text);
        let how = format!("netsky agent allow {agent} --ask {} \"ANSWER\"", line(&asked.id));
        return Err(Error::new(Kind::Usage, what).hint(how));
    }
    let parts = text.as_ref().map_or(0, |text| text.split(BETWEEN).count());
    if allow && asked.questions() > 1 && parts != asked.questions() {
        let what = format!("{agent} asks {} things at once: {}", asked.questions(), asked.text);
        let how = format!("answer each, in their order, with {BETWEEN:?} between the answers");
        return Err(Error::new(Kind::Usage, what).hint(how));
    }
    let answer = Answer { ask: asked.id.clone(), allow, text };
    if !netsky_runtime::leave_answer(cx.home()?, agent, book.generation, &answer)? {
        let what = format!("{agent} was answered that already");
        return Err(Error::new(Kind::NotFound, what).hint(format!("see `netsky agent show {agent}`")));
    }
    // It may have died since we looked: then nobody hears the answer.
    if has_ended(cx, agent)? {
        return Err(gone(format!("{agent} ended before it was told")));
    }
    Ok(asked.clone())
}

fn interrupt(cx: &Context, agent: &AgentId) -> Result<(), Error> {
    cx.owner_only("agent interrupt")?;
    let book = book_of_who_runs(cx, agent)?;
    // Keys that do not hold may be met in the middle of a turn, which goes on.
    if !book.doing.is_busy() && !matches!(book.doing, Doing::FailedAuth { .. }) {
        let what = format!("{agent} is {}: there is no turn to stop", book.doing.word());
        return Err(Error::new(Kind::NotFound, what).hint("nothing was done"));
    }
    if !is_driven_now(cx)? {
        let what = format!("netsky-drivers is down: what {agent} does now is not known, and nobody stops it");
        return Err(Error::new(Kind::Busy, what).hint("nothing was done, repeat; the anchor starts it again"));
    }
    // Only told: what cannot be counted keeps no turn from being stopped.
    let messages = cx.constellation()?.bus.count(agent, State::Delivered).unwrap_or_default();
    netsky_runtime::interrupt(cx.home()?, agent, book.generation, book.turns)?;
    match cx.json {
        true => {
            output::json(&serde_json::json!({ "agent": agent, "turn": book.turns + 1, "messages": messages }))
        }
        false => output::say(&format!(
            "{agent} is told to stop its turn; of the {messages} messages in its hands those that it has read are over with it, the others come again"
        )),
    }
}

fn stop_one(cx: &Context, agent: &AgentId) -> Result<(), Error> {
    if *agent == AgentId::root() {
        let what = "agent0 is stopped with all others, by `netsky down`";
        return Err(Error::new(Kind::Usage, what).hint("nothing was changed"));
    }
    let ran = stop(&cx.constellation()?, &cx.caller(), agent, None, &Guard::none())?;
    if cx.json {
        return output::json(&serde_json::json!({ "agent": agent, "ended": ran }));
    }
    let ended = if ran { "was ended" } else { "did not run" };
    let number = agent.number().unwrap_or_default();
    output::say(&format!(
        "{agent} {ended} and stays down; its mail waits, `netsky agent {number}` brings it back"
    ))
}

fn retry(cx: &Context, agent: &AgentId) -> Result<(), Error> {
    cx.owner_only("agent retry")?;
    let book = book_of_who_runs(cx, agent)?;
    let Some(waits) = book.waits.filter(|waits| waits.until > clock::wall()) else {
        let what = format!("no mail of {agent} waits because a turn failed");
        return Err(Error::new(Kind::NotFound, what).hint("nothing was done"));
    };
    netsky_runtime::retry(cx.home()?, agent, waits.until)?;
    match cx.json {
        true => output::json(&serde_json::json!({ "agent": agent, "waited_until": waits.until })),
        false => output::say(&format!(
            "{agent} {} to try its mail now; it waited for: {}",
            is_told(cx)?,
            waits.why
        )),
    }
}

/// The question that is meant: between a look and an answer one may go and another come.
fn find<'a>(book: &'a Book, id: &str) -> Result<&'a Ask, Error> {
    let agent = &book.agent;
    match Ask::find(&book.asks, id) {
        Ok(Some(ask)) => Ok(ask),
        Ok(None) => Err(Error::new(Kind::NotFound, format!("{agent} asks nothing of the id {id:?}"))
            .hint(format!("see `netsky agent show {agent}`"))),
        Err(SeveralFit) => {
            Err(Error::new(Kind::Usage, format!("{agent} asks several things that begin with {id:?}"))
                .hint(format!("`netsky agent show {agent}` has the whole ids")))
        }
    }
}

fn show(cx: &Context, agent: &AgentId) -> Result<(), Error> {
    let mut book = book(cx, agent)?;
    if !is_held(cx, agent)? || !is_of_now(cx, &book)? {
        // Whoever would write it down may have ended first.
        (book.doing, book.asks) = (Doing::Down, Vec::new());
    }
    if cx.json {
        // What a driver keeps for itself has no form that anybody may rely on.
        book.memory = serde_json::Value::Null;
        return output::json(&book);
    }
    let none = || "-".to_owned();
    let context = book.context_pct.map_or_else(none, |pct| format!("{pct} %"));
    let conversation = book.conversation.map_or_else(none, |conversation| conversation.id);
    output::say(&format!("{agent} ({}), generation {}: {}", book.runtime, book.generation, book.doing))?;
    let lifecycle = book.lifecycle;
    output::say(&format!(
        "conversation {conversation}, context {context} ({lifecycle}), {} turns",
        book.turns
    ))?;
    if let Some(waits) = book.waits.as_ref().filter(|waits| waits.until > clock::wall()) {
        output::say(&format!("mail waits until {:.0}: {}", waits.until, waits.why))?;
    }
    let usage = &book.usage;
    output::say(&format!(
        "tokens: {} in, {} out, {} read from the cache, {} written to it",
        usage.input, usage.output, usage.cache_read, usage.cache_write
    ))?;
    for ask in &book.asks {
        output::say(&format!("asks ({}): {}", line(&ask.id), ask.text))?;
        // All of it: what stands above is cut to a line.
        output::say(&plain(&serde_json::to_string_pretty(&ask.detail).unwrap_or_default()))?;
    }
    Ok(())
}
