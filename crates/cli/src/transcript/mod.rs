//! `attach` of a driven agent: what it and those around it said to each other, live, and a line by which the owner joins in.
//!
//! Promise: what is typed goes the ways that `netsky channel send --from owner` and `netsky agent allow|deny` go, and no
//! other; nothing reaches the program from here. Without a terminal on both sides nothing is typed.

mod markdown;
mod page;
mod prompt;
mod view;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::env::Caller;
use netsky_disk::layout::KernelLayout;
use netsky_disk::state;
use netsky_kernel::attach::Left;
use netsky_kernel::session::Meta;
use netsky_model::id::AgentId;
use netsky_runtime::transcript::Transcript;

use crate::attach::{How, left};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::palette::Palette;
use page::Page;
use prompt::Prompt;
use view::View;

/// How much of what was printed before is read: the programs print each word many times over, and this is some turns.
const TAIL: u64 = 4 << 20;
/// How long a successor is waited for: a handover and a revival take less.
const SUCCESSOR: Duration = Duration::from_secs(15);

/// Which kind of program a session runs, by its description. One that cannot be read says so to whoever attaches.
pub(crate) fn runtime_of(root: &Path, agent: &AgentId) -> Option<String> {
    Some(described(&KernelLayout::new(root), agent)?.spec.runtime)
}

/// What the kernel wrote down of an agent's newest session; none of what cannot be read.
pub(crate) fn described(layout: &KernelLayout, agent: &AgentId) -> Option<Meta> {
    Meta::parse(&state::read(layout.meta(agent)).ok()??).ok()
}

/// Shows it until the key, or its end. Of a person's the end is that of the agent: whoever succeeds it is shown as well.
pub(crate) fn attach(
    cx: &Context,
    root: PathBuf,
    agent: AgentId,
    runtime: &str,
    how: &How,
) -> Result<(), Error> {
    cx.no_json("attach shows a transcript")?;
    let options = how.options(root, agent.clone());
    let person = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let mut client = netsky_kernel::attach::connect(&options)?;
    let is_owner = cx.caller() == Caller::Outside;
    let types = person && is_owner && !options.read_only;
    if person {
        let leave = options.detach;
        output::say(&match (types, is_owner) {
            (true, _) => {
                format!("attached to {agent}; Enter sends as owner, ctrl-d or {leave} leaves it running")
            }
            (false, true) => format!("attached to {agent}, to read; {leave} leaves it running"),
            (false, false) => format!(
                "attached to {agent}, to read: only the owner, outside every session, writes here; {leave} leaves it running"
            ),
        })?;
    }
    let mut prompt = types.then(Prompt::default);
    let mut is_first = true;
    loop {
        let hello = client.hello().clone();
        let meta = described(&options.layout, &agent);
        let same = meta.filter(|meta| meta.generation == hello.generation && meta.lineage == hello.lineage);
        let begins = same.as_ref().and_then(|meta| meta.output_from);
        // Another kind of program may have come into the slot.
        let runtime = same.map_or_else(|| runtime.to_owned(), |meta| meta.spec.runtime);
        // What an earlier generation said has been shown to whoever was there.
        let from = match begins {
            Some(begins) if !is_first => begins,
            _ => hello.log.end.saturating_sub(TAIL),
        };
        let from = from.max(hello.log.base);
        let Some(transcript) = Transcript::new(&runtime, from, begins, from > 0) else {
            output::say(&format!("{agent} runs {runtime:?} by now, which has a terminal: attach once more"))?;
            return Ok(());
        };
        let page = Page {
            palette: Palette::of_stdout(),
            agent: agent.clone(),
            // Where a terminal says nothing of its size.
            columns: person.then_some(80),
            end: if person { "\r\n" } else { "\n" },
            answers: types,
        };
        let mut view = View::new(cx, transcript, page, prompt);
        let ended = netsky_kernel::attach::read(&options, client, from, &mut view);
        prompt = view.into_prompt();
        let (Ok(Left::Ended(_) | Left::WorkerDied), true) = (&ended, person) else {
            return left(&agent, person, ended);
        };
        output::say(&format!(
            "{agent}, generation {}, has ended; its successor is shown as soon as it runs, ctrl-c leaves",
            hello.generation
        ))?;
        let Some(next) = netsky_kernel::attach::successor(&options, &hello, SUCCESSOR)? else {
            return left(&agent, person, ended);
        };
        client = next;
        is_first = false;
        output::say(&format!("{agent}, generation {}:", client.hello().generation))?;
    }
}
