//! `session/spawn`: start the next generation of a session.
//!
//! Order, each step durable before the next: the generation is reserved (journal, then meta); whatever is left of any
//! earlier generation is swept until empty; the worker is let in and says whether its program runs; the caller is answered.
//! Its process comes up beside the first two and touches nothing until then; where they fail, or the anchor dies, it ends.
//! An anchor that dies in between leaves a reservation that its successor settles like any other session.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use netsky_disk::fault;
use netsky_disk::lock::Lock;
use netsky_disk::sweep::Swept;
use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::process::ProcessId;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use super::answers::{conflict, essence};
use super::settle::{self, sweep_lineage};
use super::state::{Anchor, about, internal, unread, unwritten};
use super::table::Life;
use super::{fold, rename, succeed, watch};
use crate::drain::DrainError;
use crate::journal::About;
use crate::log::say;
use crate::meta_file;
use crate::rpc::resize::MAX_SIDE;
use crate::rpc::spawn::{MAX_LABELS, MAX_SPEC, Params};
use crate::rpc::{EventKind, Guard, Refusal, RefusalKind, SessionView, event_data};
use crate::session::{End, Io, Meta, Phase, ReadyLine, Spec};
use crate::start::{self, Waiting};

/// How long a worker may take to say that its program runs: it only forks and writes two small files.
const READY: Duration = Duration::from_secs(10);
/// Longest readiness line.
const READY_LINE: u64 = 64 * 1024;
/// What a description may grow by until its end: two processes and why it failed, which comes in a readiness line.
const META_GROWTH: u64 = 2 * READY_LINE;

/// Starts what a client asks for.
pub(super) async fn spawn(anchor: &Rc<Anchor>, params: Params) -> Result<SessionView, Refusal> {
    let Params { spec, guard } = params;
    check(&spec)?;
    same_start(anchor, &spec, &guard)?;
    if let Some(view) = done_before(anchor, &spec, &guard) {
        return Ok(view);
    }
    let (meta, worker) = reserved(anchor, spec, &guard, true)?;
    // Somebody wants it anew: the pauses of the revivals before are no concern of this start.
    anchor.entry(&meta.spec.name, |entry| entry.revivals = 0);
    start(anchor, meta, worker).await
}

/// Starts the generation after `dead` of a session this anchor keeps, or that somebody asked for by `request_id`.
pub(super) async fn revived(
    anchor: &Rc<Anchor>,
    spec: Spec,
    dead: Generation,
    request_id: Option<String>,
) -> Result<SessionView, Refusal> {
    // A caller whose start never came to its program, and was never answered, finds this one when it repeats.
    let unanswered = anchor.recall(|recall| {
        let known = recall.session(&spec.name).filter(|known| !known.started);
        known.and_then(|known| known.request_id.clone())
    });
    let newest = anchor.entry(&spec.name, |entry| entry.meta.generation);
    if newest != Some(dead) {
        let message = format!("{} is not at generation {dead} any more", spec.name);
        return Err(Refusal::new(RefusalKind::StaleGeneration, message));
    }
    if spec.argv.is_empty() {
        let message =
            format!("what {} runs is not known as long as its description does not read", spec.name);
        return Err(Refusal::new(RefusalKind::Busy, message));
    }
    // Not by what the journal has: an anchor that died right after its row of a start took a generation that nobody ran.
    let guard = Guard { if_generation: None, request_id: request_id.or(unanswered) };
    let (meta, worker) = reserved(anchor, spec, &guard, false)?;
    start(anchor, meta, worker).await
}

/// Takes the next generation while its worker comes up, which waits for that.
fn reserved(
    anchor: &Anchor,
    spec: Spec,
    guard: &Guard,
    asked: bool,
) -> Result<(Meta, io::Result<Waiting>), Refusal> {
    let (meta, _held) = plan(anchor, spec, guard, asked)?;
    let worker = start::worker(&anchor.layout, &meta.spec.name, meta.generation);
    // One that cannot be started is a start that failed, of a generation that is taken.
    reserve(anchor, &meta, guard)?;
    Ok((meta, worker))
}

fn check(spec: &Spec) -> Result<(), Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadParams, message));
    let zero = |text: &str| text.contains('\0');
    match spec.argv.first() {
        None => return bad(format!("{} has no argv", spec.name)),
        Some(program) if program.is_empty() => return bad(format!("{} has an empty program", spec.name)),
        Some(_) => {}
    }
    if !spec.cwd.is_absolute() {
        return bad(format!("cwd {} of {} is not absolute", spec.cwd.display(), spec.name));
    }
    if spec.env.keys().any(|key| key.is_empty() || key.contains('=') || zero(key)) {
        return bad(format!("the environment of {} has a name that is empty or holds = or NUL", spec.name));
    }
    if spec.argv.iter().chain(spec.env.values()).any(|text| zero(text)) {
        return bad(format!("argv or environment of {} holds NUL", spec.name));
    }
    if let Io::Pty { rows, cols } = spec.io
        && rows.max(cols) > MAX_SIDE
    {
        return bad(format!("{rows}x{cols} is too large for the terminal of {}", spec.name));
    }
    let size = |bytes: serde_json::Result<Vec<u8>>| bytes.map(|bytes| bytes.len()).map_err(internal);
    let whole = size(serde_json::to_vec(spec))?;
    let labels = size(serde_json::to_vec(&(&spec.tags, &spec.runtime, &spec.model)))?;
    for (what, bytes, limit) in
        [("the start", whole, MAX_SPEC), ("what labels the start", labels, MAX_LABELS)]
    {
        if bytes > limit {
            let message = format!("{what} of {} takes {bytes} bytes; the limit is {limit}", spec.name);
            return Err(Refusal::new(RefusalKind::TooLarge, message));
        }
    }
    Ok(())
}

/// A call that took a generation and was never answered is not repeated by one that would start something else.
fn same_start(anchor: &Anchor, spec: &Spec, guard: &Guard) -> Result<(), Refusal> {
    let Some(request_id) = &guard.request_id else { return Ok(()) };
    let taken = anchor.recall(|recall| {
        let known = recall.session(&spec.name).filter(|known| known.request_id.as_ref() == Some(request_id));
        known.map(|known| known.generation)
    });
    let first = anchor.entry(&spec.name, |entry| (entry.meta.generation, entry.meta.spec.clone()));
    let Some((_, first)) = first.filter(|(generation, _)| Some(*generation) == taken) else { return Ok(()) };
    let essence = |spec: &Spec| essence(&serde_json::json!({ "spec": spec }));
    if essence(&first)? == essence(spec)? {
        return Ok(());
    }
    Err(conflict(request_id, &format!("session/spawn of {} with other parameters", spec.name)))
}

/// A call whose effect is there although its answer was never written: the anchor died in between.
pub(super) fn done_before(anchor: &Anchor, spec: &Spec, guard: &Guard) -> Option<SessionView> {
    let request_id = guard.request_id.as_ref()?;
    let known = anchor.recall(|recall| recall.session(&spec.name).cloned())?;
    let life = anchor.entry(&spec.name, |entry| entry.life)?;
    let done = match life {
        // The row of its start is written by the worker and may still be on its way here.
        Life::Live => true,
        // The row may be here before its worker is seen running: an answer now would not say what runs.
        Life::Starting | Life::Foreign => false,
        Life::Ending | Life::Gone => known.started,
    };
    (done && known.request_id.as_ref() == Some(request_id)).then(|| anchor.view(&spec.name).ok())?
}

/// What describes the next generation, and what keeps every other worker of the name away until it is taken. `asked`: by
/// somebody, who is told when nothing comes of it.
fn plan(anchor: &Anchor, spec: Spec, guard: &Guard, asked: bool) -> Result<(Meta, Lock), Refusal> {
    let name = spec.name.clone();
    let busy = |why: &str| Refusal::new(RefusalKind::Busy, format!("{name} {why}"));
    if anchor.is_stopping() {
        return Err(busy("cannot start: its anchor is stopping"));
    }
    free(anchor, &name)?;
    rename::usable(anchor, &name)?;
    // Held until the meta is written: a worker of an earlier generation, known or not, excludes us.
    let Some(held) = settle::hold(anchor, &name) else {
        return Err(busy("has a worker that ends or cannot be read"));
    };
    let former = former(anchor, &name)?;
    let journalled = anchor.recall(|recall| recall.session(&name).cloned());
    let newest = [
        former.as_ref().map(|meta| (meta.generation, meta.lineage.clone())),
        journalled.as_ref().map(|known| (known.generation, known.lineage.clone())),
    ];
    // The journal knows of reservations whose meta was never written, and the meta outlives a lost journal.
    let (newest, lineage) = newest
        .into_iter()
        .flatten()
        .max_by_key(|(generation, _)| *generation)
        .unwrap_or_else(|| (Generation::NONE, netsky_disk::random::lineage(&name)));
    let ours = journalled.is_some_and(|known| {
        guard.request_id.is_some() && known.request_id == guard.request_id && !known.started
    });
    if let Some(believed) = guard.if_generation
        && believed != newest
        // Our own first try reserved the newest and died before anything ran.
        && !(ours && believed.next() == newest)
    {
        let message = format!("{name} is at generation {newest}, not {believed}");
        return Err(Refusal::new(RefusalKind::StaleGeneration, message));
    }
    let (conversation, handoff) = carried(anchor, &lineage, newest.next())?;
    let mut meta = Meta {
        generation: newest.next(),
        anchor_epoch: anchor.epoch,
        written_at: netsky_disk::clock::stamp(),
        phase: Phase::Starting,
        program: None,
        worker: None,
        socket: anchor.layout.worker_sock(&name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        conversation,
        asked,
        handoff,
        cgroup: None,
        output_from: None,
        extra: former.map(|meta| meta.extra).unwrap_or_default(),
        lineage,
        spec,
    };
    // Written down before there is any: whoever finds the generation dead knows where to look.
    meta.cgroup = anchor.cgroups.as_ref().and_then(|place| place.of(anchor.layout.root(), &meta.mark()).ok());
    check_room(&meta)?;
    Ok((meta, held))
}

/// Takes a generation, in the journal and in the meta; from here on the name is busy.
fn reserve(anchor: &Anchor, meta: &Meta, guard: &Guard) -> Result<(), Refusal> {
    let data = event_data::Spawn {
        runtime: meta.spec.runtime.clone(),
        keeper: meta.spec.keeper,
        request_id: guard.request_id.clone(),
    };
    anchor.commit(EventKind::Spawn, Some(about(meta)), data).map_err(unwritten)?;
    fault::point("anchor.spawn.journalled").map_err(internal)?;
    anchor.write_meta(meta).map_err(unwritten)?;
    fault::point("anchor.spawn.reserved").map_err(internal)?;
    anchor.put(meta.clone(), Life::Starting);
    Ok(())
}

/// Whether a description may grow by all that its generation will come to.
fn check_room(meta: &Meta) -> Result<(), Refusal> {
    let bytes = meta.to_bytes().len() as u64;
    if bytes > Meta::MAX_BYTES - META_GROWTH {
        let message = format!("the description of {} would take {bytes} bytes", meta.spec.name);
        return Err(Refusal::new(RefusalKind::TooLarge, message));
    }
    Ok(())
}

/// Whether another generation of a session may start.
fn free(anchor: &Anchor, name: &AgentId) -> Result<(), Refusal> {
    let busy = |why: &str| Err(Refusal::new(RefusalKind::Busy, format!("{name} {why}")));
    match anchor.entry(name, |entry| (entry.life, entry.asking, entry.meta.lineage.clone())) {
        Some((Life::Gone, true, lineage)) => {
            let message = format!(
                "{name} waits to be told what becomes of it: ostk lineage resolve {lineage} --revive or --reap"
            );
            Err(Refusal::new(RefusalKind::Refused, message))
        }
        None | Some((Life::Gone, false, _)) => Ok(()),
        Some((Life::Starting | Life::Live, ..)) => busy("lives"),
        Some((Life::Ending, ..)) => busy("is ending"),
        Some((Life::Foreign, ..)) => busy("cannot be judged from here and may live"),
    }
}

/// What the next generation is told: the program's own name for its conversation, unless that is used up, and where a
/// handoff waits for it, which is written there before: a power cut or a full disk may have left none of it, or one of
/// before.
fn carried(
    anchor: &Anchor,
    lineage: &LineageId,
    next: Generation,
) -> Result<(Option<String>, Option<PathBuf>), Refusal> {
    let carried = anchor.drain(lineage, |drain| {
        let conversation = drain.state().conversation(next).map(str::to_owned);
        (conversation, drain.hand_over(next))
    });
    match carried {
        // What does not read was said so; the program begins a conversation of its own.
        Err(DrainError::Damaged { .. }) => Ok((None, None)),
        Err(error) => Err(internal(error)),
        Ok((conversation, handoff)) => Ok((conversation, handoff.map_err(unwritten)?)),
    }
}

/// What describes the generation before. One that no program could read is set aside: the worker's lock, which we hold,
/// says that nobody lives by it, and the journal says which generation it was.
fn former(anchor: &Anchor, name: &AgentId) -> Result<Option<Meta>, Refusal> {
    match meta_file::read(&anchor.layout, name) {
        Err(error) if error.is_damage() => {
            let path = anchor.layout.meta(name);
            netsky_disk::state::set_aside(path).map_err(internal)?;
            anchor.damaged(format!("agents/{name}.meta"), &error.to_string());
            Ok(None)
        }
        read => read.map_err(unread),
    }
}

async fn start(anchor: &Rc<Anchor>, meta: Meta, worker: io::Result<Waiting>) -> Result<SessionView, Refusal> {
    let about = about(&meta);
    // A lineage that has just been made up has no processes: nobody can bear its mark.
    let is_first = about.generation == Generation::NONE.next();
    let swept = if is_first { Ok(Swept::default()) } else { sweep_lineage(anchor, &about).await };
    let in_the_way = match swept {
        Ok(swept) if swept.left.is_empty() => None,
        Ok(swept) => Some(format!("{} processes of an earlier generation would not end", swept.left.len())),
        Err(why) => Some(format!("what is left of earlier generations cannot be seen: {why}")),
    };
    if let Some(why) = in_the_way {
        return Err(failed(anchor, &about, meta, None, why).await);
    }
    let mut child = match worker.map(Waiting::let_in) {
        Ok(child) => child,
        Err(error) => {
            return Err(failed(anchor, &about, meta, None, format!("start its worker: {error}")).await);
        }
    };
    let told = match fault::point("anchor.spawn.worker-started") {
        Ok(()) => ready(&mut child).await,
        Err(error) => Err(error.to_string()),
    };
    match told {
        Ok((worker, program)) => {
            let written = match fault::point("anchor.spawn.ran") {
                Ok(()) => meta_file::read(&anchor.layout, &about.session).ok().flatten(),
                Err(_) => None,
            };
            let running = written.filter(|written| written.generation == about.generation);
            // It may not read just now.
            let phase = Phase::Running { started_at: netsky_disk::clock::stamp() };
            let told = Meta { phase, worker: Some(worker.clone()), program: Some(program), ..meta };
            anchor.put(running.unwrap_or(told), Life::Live);
            fold::catch_up(anchor, &about.session);
            watch::start(anchor, about.clone(), worker, Some(child));
            succeed::lives(anchor, &about);
            anchor.view(&about.session)
        }
        Err(why) => Err(failed(anchor, &about, meta, Some(child), why).await),
    }
}

/// What the worker says: who it is, and who its program.
async fn ready(child: &mut Child) -> Result<(ProcessId, ProcessId), String> {
    let Some(pipe) = child.stdout.take() else { return Err("its worker has no pipe".to_owned()) };
    // It ends with the line, or with the worker.
    let read = async {
        let mut line = Vec::new();
        let pipe = Receiver::from_owned_fd(OwnedFd::from(pipe))?;
        pipe.take(READY_LINE).read_to_end(&mut line).await.map(|_| line)
    };
    let line = match tokio::time::timeout(READY, read).await {
        Err(_) => return Err(format!("its worker said nothing within {} s", READY.as_secs())),
        Ok(Err(error)) => return Err(format!("read from its worker: {error}")),
        Ok(Ok(line)) => line,
    };
    match serde_json::from_slice(line.trim_ascii_end()) {
        Ok(ReadyLine::Ready { worker, program, .. }) => Ok((worker, program)),
        Ok(ReadyLine::Failed { why, .. }) => Err(why),
        Err(_) => Err("its worker ended without a word".to_owned()),
    }
}

/// Ends a start that came to nothing, durably.
async fn failed(
    anchor: &Rc<Anchor>,
    about: &About,
    meta: Meta,
    child: Option<Child>,
    why: String,
) -> Refusal {
    anchor.set_life(about, Life::Ending);
    if let Some(mut child) = child {
        // It is our own unreaped child, so its pid is its own; it may be gone already.
        let _ = child.kill();
        watch::wait_for(Some(child)).await;
    }
    let (swept, unseen) = settle::sweep_generation(anchor, about).await;
    fold::catch_up(anchor, &about.session);
    let how = (End::FailedToStart { why: why.clone() }, netsky_disk::clock::stamp());
    match meta_file::read(&anchor.layout, &about.session) {
        Err(error) => {
            // It may say how it ended: nothing is written over what does not read.
            say!("{error}; that {} did not start is only in the journal", about.session);
            settle::write_end(anchor, about, meta, how, None);
        }
        Ok(written) => {
            let meta = written.filter(|written| written.generation == about.generation).unwrap_or(meta);
            match settle::hold(anchor, &about.session) {
                _ if !meta.phase.may_live() => drop(anchor.entry(&about.session, |entry| entry.meta = meta)),
                Some(held) => settle::write_end(anchor, about, meta, how, Some(&held)),
                None => say!("{} has a worker that was not started here", about.session),
            }
        }
    }
    if !settle::is_told(anchor, about) {
        let data =
            event_data::Ended { why: Some(why.clone()), ..event_data::Ended::swept(None, swept, unseen) };
        anchor.observe(EventKind::Failed, Some(about.clone()), data);
    }
    anchor.set_life(about, Life::Gone);
    Refusal::new(RefusalKind::FailedToStart, format!("{} did not start: {why}", about.session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::stage::{on_stage, rows, session};
    use crate::drain::Report;
    use crate::rpc::SessionState;
    use crate::session::Keeper;

    #[test]
    fn what_does_not_read_is_not_written_over_by_the_end_of_a_start_and_the_session_has_failed() {
        for reads in [true, false] {
            on_stage(async |anchor| {
                let meta = Meta { phase: Phase::Starting, ..session("agent0", Keeper::Policy) };
                meta_file::write(&anchor.layout, &meta).expect("written");
                let file = anchor.layout.meta(&meta.spec.name);
                if !reads {
                    // One that somebody else can reach is not trusted.
                    std::fs::hard_link(&file, file.with_extension("link")).expect("linked");
                }
                anchor.put(meta.clone(), Life::Starting);
                let before = std::fs::read(&file).expect("reads");
                let refusal =
                    failed(&anchor, &about(&meta), meta.clone(), None, "no program".to_owned()).await;
                assert_eq!(refusal.kind(), RefusalKind::FailedToStart);
                assert_eq!(std::fs::read(&file).expect("reads") == before, !reads);
                assert_eq!(rows(&anchor), [EventKind::Failed]);
                assert_eq!(anchor.state_of(&meta.spec.name), Some(SessionState::Failed));
            });
        }
    }

    #[test]
    fn a_successor_of_a_dead_context_is_pointed_to_the_handoff_and_not_to_the_conversation() {
        on_stage(async |anchor| {
            let meta = Meta {
                phase: Phase::Running { started_at: netsky_disk::clock::stamp() },
                ..session("agent0", Keeper::Watchdog)
            };
            anchor.put(meta.clone(), Life::Live);
            let named = Report::SessionId { session_id: "conv-1".to_owned(), transcript: None };
            let used = 95.try_into().expect("a percentage");
            for (report, conversation) in [
                (named, Some("conv-1")),
                (Report::Context { used }, Some("conv-1")),
                (Report::Finalization, Some("conv-1")),
                (Report::Turn(Box::default()), None),
            ] {
                let session = meta.spec.name.clone();
                let params = crate::rpc::report::Params { session, report, guard: Guard::none() };
                crate::anchor::report::report(&anchor, &params).expect("taken");
                let (goes_on, _) = carried(&anchor, &meta.lineage, meta.generation.next()).expect("it reads");
                assert_eq!(goes_on.as_deref(), conversation);
            }
            let (_, handoff) = carried(&anchor, &meta.lineage, meta.generation.next()).expect("it reads");
            assert!(handoff.is_some_and(|file| file.is_file()));
        });
    }

    #[test]
    fn a_description_that_would_outgrow_its_file_is_refused_and_nothing_is_reserved() {
        on_stage(async |anchor| {
            let mut former = session("agent0", Keeper::Watchdog);
            for (bytes, refused) in [(Meta::MAX_BYTES - META_GROWTH, true), (1 << 10, false)] {
                // Of a later program, whose keys are kept.
                former.extra.insert("later".to_owned(), "x".repeat(bytes as usize).into());
                meta_file::write(&anchor.layout, &former).expect("written");
                let guard = Guard::none();
                let planned = plan(&anchor, former.spec.clone(), &guard, true);
                let reserved = planned.and_then(|(meta, _held)| reserve(&anchor, &meta, &guard));
                assert_eq!(
                    reserved.err().map(|refusal| refusal.kind()),
                    refused.then_some(RefusalKind::TooLarge)
                );
                assert_eq!(rows(&anchor).is_empty(), refused);
            }
        });
    }

    #[test]
    fn t18_what_waits_for_a_generation_is_in_its_file_before_anything_points_there() {
        on_stage(async |anchor| {
            let former = session("agent0", Keeper::Watchdog);
            meta_file::write(&anchor.layout, &former).expect("written");
            let context = Report::Context { used: 75.try_into().expect("a percentage") };
            let left = Report::Handoff { text: "go on".to_owned() };
            for report in [context, left] {
                let taken =
                    anchor.drain(&former.lineage, |drain| drain.take("anchor", &former, &report, None));
                taken.expect("reads").expect("taken");
            }
            let plan = || plan(&anchor, former.spec.clone(), &Guard::none(), true);
            let file = plan().expect("it may start").0.handoff.expect("it is told where");
            // What a power cut leaves of it: nothing, or one of before.
            for before in [None, Some("{}")] {
                std::fs::remove_file(&file).expect("there");
                before.into_iter().for_each(|text| std::fs::write(&file, text).expect("written"));
                assert_eq!(plan().expect("it may start").0.handoff.as_ref(), Some(&file));
                assert!(std::fs::read_to_string(&file).expect("reads").contains("go on"));
            }
            // Without room for it nothing starts.
            let tmp = anchor.layout.drain().join("tmp");
            std::fs::remove_dir_all(&tmp).expect("there");
            std::fs::write(&tmp, "no folder").expect("written");
            assert_eq!(plan().err().map(|refusal| refusal.kind()), Some(RefusalKind::Internal));
            assert!(rows(&anchor).is_empty(), "and none is taken");
        });
    }
}
