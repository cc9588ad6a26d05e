//! The tick of cron entries: hands what is due to the bus.
//!
//! Promise: one envelope for each entry and instant, whoever dies or races: first the envelope, under an id that derives from
//! the instant which the state said was due, then the state. What fails for one entry is told of it, tried again by the next
//! tick, and keeps no other from being told.
//! Left to others: what is due (`schedule`), who calls this (the ticker, a hand).

use jiff::{SignedDuration, Timestamp};
use netsky_disk::lock::Lock;
use netsky_disk::{clock, fault, state};
use netsky_model::envelope::Envelope;
use netsky_model::id::EnvelopeId;
use netsky_model::stamp::Stamp;
use netsky_schedule::cron::{self, At, Due, Entry, Kept, Known, Loaded, Unread, Unusable};
use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::observe;
use crate::page::{Raised, page, since};
use crate::scheduled::{Missed, PASSED_OVER, Scheduled, Told, missed_as_placed, reader};
use crate::tick::Ticked;

/// The condition that the owner's file does not read.
const UNREAD: &str = "cron-file";
/// Who says it.
const SENDER: &str = "agentcron";

/// One tick of the entries of `cron.toml`.
///
/// # Errors
/// The lock is held, or what is kept cannot be read or written; what fails for one entry is a problem in the result.
pub fn cron_tick(cx: &Context<'_>) -> Result<Ticked> {
    // Whoever has no entries has nothing made for them either.
    if !state::exists(cx.layout.cron())? && !state::exists(cx.layout.cron_state())? {
        return Ok(Ticked::default());
    }
    let mut lock = Lock::take(cx.layout.cron_lock())?;
    let mut ticked = Ticked::default();
    let loaded = cron::load(cx.layout);
    let before = read(cx, &mut ticked)?;
    if let Err(error) = loaded.keep(cx.layout) {
        ticked.problems.push(format!("the good copy of cron.toml: {error}"));
    }
    if loaded.is_nothing() && before.entries.is_empty() && before.unread.is_none() {
        return Ok(ticked);
    }
    let now = clock::stamp();
    let mut kept = Kept { entries: Default::default(), ..before.clone() };
    let stepped = look_at_clocks(cx, &mut kept, &now, &mut ticked);
    let interval = SignedDuration::try_from(observe::interval(cx)).unwrap_or(SignedDuration::MAX);
    let at = At { now: now.wall, stepped, late: cron::LATE.max(interval.saturating_mul(2)) };
    let mut due = look(&loaded, &before, &mut kept, at);
    ticked.warnings.extend(loaded.entries.broken.iter().map(ToString::to_string));
    look_at_file(&loaded, &mut kept, &now);
    let on_disk = keep_due(cx, &before, &kept, &mut due, &mut ticked);
    let mut missed = Missed::default();
    for (entry, what) in due {
        let Some(mut known) = kept.entries.remove(entry.id.as_str()) else { continue };
        tell(cx, entry, &mut known, (what, at), (&mut ticked, &mut missed));
        kept.entries.insert(entry.id.as_str().to_owned(), known);
    }
    let is_kept = on_disk.unread.is_some();
    tell_owner(cx, &loaded, &mut kept, is_kept, &mut ticked);
    if kept != on_disk {
        kept.write(cx.layout)?;
    }
    // For the ticker: what fails for one entry is no tick that failed.
    lock.note(&now)?;
    missed.record(cx);
    Ok(ticked)
}

/// What is kept. Of a file that says nothing all begins anew, from now on.
fn read(cx: &Context<'_>, ticked: &mut Ticked) -> Result<Kept> {
    match Kept::read(cx.layout) {
        Ok(kept) => Ok(kept),
        Err(Unusable::Disk(error)) => Err(error.into()),
        Err(newer @ Unusable::Newer(_)) => {
            Err(netsky_disk::Error::because("use", cx.layout.cron_state(), newer.to_string()).into())
        }
        Err(damaged @ Unusable::Damaged(_)) => {
            state::set_aside(cx.layout.cron_state())?;
            ticked.aside.push(format!("{damaged}; it is set aside, and every entry begins anew"));
            Ok(Kept { v: 1, ..Kept::default() })
        }
    }
}

fn look_at_clocks(cx: &Context<'_>, kept: &mut Kept, now: &Stamp, ticked: &mut Ticked) -> bool {
    let clocks = cron::clocks(kept.looked.as_ref(), now);
    if let Some(by) = clocks.stepped {
        let why = format!(
            "the calendar was set by {by:#}: every cron entry begins anew from {}",
            seconds(now.wall)
        );
        cx.record.watchdog("clock-step", None, &why);
        ticked.done.push(why);
    }
    if clocks.keep {
        kept.looked = Some(now.clone());
    }
    clocks.stepped.is_some()
}

/// Looks at every entry, and answers those that are due. What is kept of one that is gone goes; of one that does not read now it
/// stays, and of all where the file is gone: some editors take it away before they put it back.
fn look<'a>(loaded: &'a Loaded, before: &Kept, kept: &mut Kept, at: At) -> Vec<(&'a Entry, Due)> {
    let mut found = Vec::new();
    for entry in &loaded.entries.good {
        let (known, due) = Known::look(before.of(&entry.id), entry, at);
        kept.entries.insert(entry.id.as_str().to_owned(), known);
        found.extend(due.map(|due| (entry, due)));
    }
    let broken = |id: &String| loaded.entries.broken.iter().any(|broken| broken.id.as_ref() == Some(id));
    for (id, known) in
        before.entries.iter().filter(|(id, _)| loaded.is_nothing() || loaded.trouble.is_some() || broken(id))
    {
        kept.entries.entry(id.clone()).or_insert_with(|| known.clone());
    }
    found
}

/// The owner's file, as far as it concerns him: since when it does not read.
fn look_at_file(loaded: &Loaded, kept: &mut Kept, now: &Stamp) {
    let anew = || Unread { since: now.clone(), paged: false };
    if !loaded.passes {
        kept.unread = loaded.trouble.as_ref().map(|_| kept.unread.take().unwrap_or_else(anew));
    }
}

/// Has the state say which instants are due before anybody is told of them: who dies then leaves their ids to who repeats
/// it. Answers what the state says; of an instant that it does not say nobody is told.
fn keep_due(
    cx: &Context<'_>,
    before: &Kept,
    kept: &Kept,
    due: &mut Vec<(&Entry, Due)>,
    ticked: &mut Ticked,
) -> Kept {
    let is_said = |entry: &Entry, due: &Due| {
        before.of(&entry.id).is_some_and(|known| {
            known.next_fire_utc == Some(due.slot) && known.schedule == entry.fingerprint()
        })
    };
    let is_needed = due.iter().any(|(entry, due)| !is_said(entry, due)) || kept.unread != before.unread;
    if !is_needed {
        return before.clone();
    }
    match kept.write(cx.layout) {
        Ok(()) => kept.clone(),
        Err(error) => {
            ticked.problems.push(format!("what is due is not kept: {error}"));
            due.retain(|(entry, due)| is_said(entry, due));
            before.clone()
        }
    }
}

/// Tells what is due of one entry. Where a tick died before it could keep that it had told it, what came since is due after it.
fn tell(
    cx: &Context<'_>,
    entry: &Entry,
    known: &mut Known,
    (mut due, at): (Due, At),
    (ticked, passed): (&mut Ticked, &mut Missed),
) {
    let now = at.now;
    for _ in 0..PASSED_OVER {
        let slot = seconds(due.slot);
        match told(cx, entry, known, due) {
            Ok(Told::Waits) => {
                if known.missed == 0 {
                    passed.unread(entry.id.as_str(), &reader(&entry.agent), known.last_id.as_ref());
                }
                known.coalesced(entry, due, now);
                let (id, agent, missed) = (&entry.id, reader(&entry.agent), known.missed);
                ticked.done.push(format!("{id}: {agent} has not read the one before; {missed} missed"));
            }
            Ok(Told::Before) => {
                // One of which nobody knows told of all.
                let placed = missed_as_placed(cx, &entry.agent, &cron::envelope_id(&entry.id, due.slot));
                let further = placed.map_or(due.further, |missed| missed.saturating_sub(known.untold));
                known.had_fired(entry, Due { further, missed: further + known.untold, ..due }, now);
                ticked.done.push(format!("{}: {slot} was told before", entry.id));
                let (later, next) = Known::look(Some(known), entry, At { stepped: false, ..at });
                *known = later;
                if let Some(next) = next {
                    due = next;
                    continue;
                }
            }
            Ok(Told::Now) => {
                passed.passed(entry.id.as_str(), &reader(&entry.agent), due.slot, due.further);
                known.fired(entry, due, now);
                let more = if due.missed > 0 { format!(", {} missed", due.missed) } else { String::new() };
                ticked.done.push(format!("{}: told {} for {slot}{more}", entry.id, reader(&entry.agent)));
            }
            Err(error) => {
                let why = netsky_model::render::line(&error.to_string());
                known.failed(&why);
                ticked.problems.push(format!("{}: {why}", entry.id));
            }
        }
        return;
    }
}

fn told(cx: &Context<'_>, entry: &Entry, known: &Known, due: Due) -> Result<Told> {
    let to = reader(&entry.agent);
    if let Some(last) = &known.last_id
        && cx.bus.waits(&to, last)?
    {
        return Ok(Told::Waits);
    }
    let id = cron::envelope_id(&entry.id, due.slot);
    let sent = cx.bus.send_once(&envelope(cx, entry, due, id.clone())?, id, &to)?;
    fault::point("watchdog.cron.sent")
        .map_err(|e| netsky_disk::Error::new("keep", cx.layout.cron_state(), e))?;
    Ok(if sent.duplicate { Told::Before } else { Told::Now })
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn envelope(cx: &Context<'_>, entry: &Entry, due: Due, id: EnvelopeId) -> Result<Envelope> {
    let scheduled = Scheduled {
        from: SENDER,
        kind: "cron-tick",
        thread: entry.id.as_str().to_owned(),
        to: &entry.agent,
        prompt: &entry.prompt,
        missed: due.missed,
    };
    scheduled.envelope(cx, id)
}

/// The owner's file does not read: he is told once, until it does again.
fn tell_owner(cx: &Context<'_>, loaded: &Loaded, kept: &mut Kept, is_kept: bool, ticked: &mut Ticked) {
    ticked.warnings.extend(loaded.trouble.clone());
    let Some((why, unread)) = loaded.trouble.as_ref().zip(kept.unread.as_mut()) else { return };
    if unread.paged || loaded.passes {
        return;
    }
    // Of what cannot be kept nobody knows since when it is so: that is one page a boot.
    let occurrence = if is_kept { since(&unread.since) } else { unread.since.boot_id.clone() };
    let raised = Raised {
        condition: UNREAD.to_owned(),
        occurrence,
        reason: why.clone(),
        data: json!({ "since": unread.since }),
    };
    unread.paged = page(cx, &raised, ticked);
}
