//! The tick of loops: what is due goes to the bus, once, and each loop goes on by itself.
//!
//! Promise: the message first, the loop second: whoever dies in between sends the same envelope again, which the bus knows.
//! One that cannot be sent keeps its time and says why; the others go on.

use netsky_disk::fault;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::render::line;
use netsky_schedule::loops::{Broken, Fate, Fire, Look, Loop, LoopId, Store};
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::page::{Raised, page};
use crate::scheduled::{Missed, PASSED_OVER, Scheduled, Told, missed_as_placed, reader};
use crate::tick::Ticked;

/// Who sends them.
const SENDER: &str = "agentloop";
/// Loops that are seen to before whoever else changes one has a turn.
const TURN: usize = 64;
/// The kind of the condition that a file is no loop; behind it stands its name.
const BROKEN: &str = "loop-broken";

/// One tick of the loops.
///
/// # Errors
/// They cannot be looked at. What became of single ones is in the result.
pub fn loop_tick(cx: &Context<'_>) -> Result<Ticked> {
    let mut ticked = Ticked::default();
    let mut store = Store::open(cx.layout)?;
    let (due, broken) = store.due()?;
    for broken in &broken {
        put_aside(cx, &mut store, broken, &mut ticked);
    }
    let mut missed = Missed::default();
    let mut turns = due.chunks(TURN).peekable();
    while let Some(turn) = turns.next() {
        for id in turn {
            if let Err(error) = fire(cx, &mut store, *id, (&mut ticked, &mut missed)) {
                ticked.problems.push(format!("{id}: {error}"));
            }
        }
        if turns.peek().is_some() {
            close(store, &mut ticked);
            store = Store::open(cx.layout)?;
        }
    }
    // For the ticker: what fails for one loop is no tick that failed.
    store.note_end()?;
    close(store, &mut ticked);
    missed.record(cx);
    Ok(ticked)
}

fn close(store: Store, ticked: &mut Ticked) {
    // The next look at them is slower, that is all.
    if let Err(error) = store.close() {
        ticked.warnings.push(error.to_string());
    }
}

fn fire(
    cx: &Context<'_>,
    store: &mut Store,
    id: LoopId,
    (ticked, missed): (&mut Ticked, &mut Missed),
) -> Result<()> {
    use netsky_schedule::loops::Error as Unread;
    let mut entry = match store.get(id) {
        Ok(entry) => entry,
        // Somebody deleted it meanwhile.
        Err(Unread::Unknown(_)) => return Ok(()),
        Err(Unread::Broken(broken)) => {
            put_aside(cx, store, &broken, ticked);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let now = store.now().clone();
    let before = entry.clone();
    match entry.look(&now) {
        // The index knew an older one.
        Look::Waits | Look::Sleeps => return Ok(store.touched(id).map(drop)?),
        Look::Stepped => {
            entry.recompute(&now);
            let why =
                format!("{id}: the wall clock went back by hours; it fires next for {}", entry.next_fire_utc);
            cx.record.watchdog("clock-step", Some(&entry.agent), &why);
            ticked.done.push(why);
        }
        Look::Due(_) => {
            for _ in 0..PASSED_OVER {
                let Look::Due(due) = entry.look(&now) else { break };
                if tell(cx, &mut entry, due, &now, (ticked, missed)) != Some(Told::Before) {
                    break;
                }
            }
        }
    }
    if entry != before {
        store.save(&entry)?;
    }
    Ok(())
}

fn tell(
    cx: &Context<'_>,
    entry: &mut Loop,
    due: Fire,
    now: &netsky_model::stamp::Stamp,
    (ticked, passed): (&mut Ticked, &mut Missed),
) -> Option<Told> {
    let (id, agent) = (entry.id, reader(&entry.agent));
    let missed = |entry: &Loop| match entry.missed {
        0 => String::new(),
        missed => format!(", {missed} missed"),
    };
    let told = told(cx, entry, due).map_err(|error| line(&error.to_string()));
    match &told {
        Ok(Told::Waits) => {
            if entry.missed == 0 {
                passed.unread(&id.to_string(), &agent, entry.last_id.as_ref());
            }
            entry.coalesced(&due, now);
            ticked.done.push(format!("{id}: {agent} has not read the one before; {} missed", entry.missed));
        }
        Ok(Told::Now) => {
            passed.passed(&id.to_string(), &agent, due.slot, due.further);
            entry.fired(&due, now);
            ticked.done.push(format!("{id}: told {agent} for {}{}", due.slot, missed(entry)));
        }
        Ok(Told::Before) => {
            // One of which nobody knows told of all.
            let further = missed_as_placed(cx, &agent, &entry.envelope(due.slot)).unwrap_or(due.further);
            entry.had_fired(&due, further, now);
            ticked.done.push(format!("{id}: had told {agent} for {}{}", due.slot, missed(entry)));
        }
        Err(why) => {
            ticked.problems.push(format!("{id}: {why}"));
            entry.last_error = Some(why.clone());
        }
    }
    told.ok()
}

fn told(cx: &Context<'_>, entry: &Loop, due: Fire) -> Result<Told> {
    let to = reader(&entry.agent);
    if let Some(last) = &entry.last_id
        && cx.bus.waits(&to, last)?
    {
        return Ok(Told::Waits);
    }
    // Every home has it, before its first start.
    if to == AgentId::root() {
        cx.bus.create(&to)?;
    }
    let id = entry.envelope(due.slot);
    let sent = cx.bus.send_once(&envelope(cx, entry, due, id.clone())?, id, &to)?;
    fault::point("watchdog.loop.sent").map_err(|e| netsky_disk::Error::new("save", cx.layout.loops(), e))?;
    Ok(if sent.duplicate { Told::Before } else { Told::Now })
}

fn envelope(cx: &Context<'_>, entry: &Loop, due: Fire, id: EnvelopeId) -> Result<Envelope> {
    let scheduled = Scheduled {
        from: SENDER,
        kind: "loop-tick",
        thread: entry.id.to_string(),
        to: &entry.agent,
        prompt: &entry.prompt,
        missed: due.further,
    };
    scheduled.envelope(cx, id)
}

/// Pages for a file that is no loop, and puts it out of the way. In that order: whoever dies in between pages for the same one.
fn put_aside(cx: &Context<'_>, store: &mut Store, broken: &Broken, ticked: &mut Ticked) {
    let aside = match broken.fate {
        Fate::Aside => "it lies in state/loops/broken now (mend it, and move it back)",
        Fate::Stays => "it is left alone",
        Fate::Unread => return ticked.problems.push(line(&format!("state/loops/{broken}"))),
    };
    let raised = Raised {
        condition: format!("{BROKEN}.{}", broken.name),
        occurrence: EnvelopeId::derived(&[&broken.name, &broken.why]).to_string(),
        reason: line(&format!("state/loops/{broken}; {aside}, and the other loops go on")),
        data: json!({ "file": broken.name, "why": broken.why }),
    };
    page(cx, &raised, ticked);
    match broken.fate {
        Fate::Aside => match store.put_aside(broken) {
            Ok(()) => ticked.aside.push(raised.reason),
            Err(error) => {
                let why = format!("state/loops/{broken}; it was not put aside: {}", Error::from(error));
                ticked.problems.push(line(&why));
            }
        },
        // Nobody tries that again.
        _ => ticked.warnings.push(raised.reason),
    }
}
