//! The handoff: what the old agent0 leaves to the new one. Inbox first, archive second, our copy of
//! the source last (faults T18): at no moment is there an archive of what was never delivered.

use netsky_bus::Draft;
use netsky_disk::fault;
use netsky_disk::{clock, state};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, RestartId, Sender};
use netsky_model::restart::Kind;

use crate::context::Context;
use crate::error::{Error, Result};

/// Most bytes of text that travel in the envelope; the rest is read from the spilled file. Escapes of
/// control bytes take six bytes each in JSON, and the envelope must stay under 256 KiB.
const MAX_TEXT: usize = 40 * 1024;

/// The id of a restart's handoff: a repeat after a crash is the same envelope.
pub(crate) fn id(restart: &RestartId) -> EnvelopeId {
    EnvelopeId::derived(&["handoff", restart.as_str()])
}

/// Read what somebody handed over: an envelope's text, or the bytes as they are.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    match Envelope::parse(bytes) {
        Ok(packet) => packet.text,
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// The draft for an agent0 that died without one: only what is known, nothing made up.
pub(crate) fn crash_draft(why: &str, generation: u64, waiting: usize, unfinished: usize) -> String {
    let now = clock::wall_seconds();
    format!(
        "agent0 generation {generation} ended without a handoff ({why}), seen at {now}.\n\
         What it did last is not known. In its inbox: {waiting} envelopes, {unfinished} of them surfaced before \
         and not finished; those come again with redelivered=\"true\".\n\
         Tools that it started may have run: look before you repeat anything.\n"
    )
}

/// What a restart hands over: the claimed request, or the crash draft.
///
/// # Errors
/// The source is gone or does not read.
pub(crate) fn source(cx: &Context<'_>, restart: &RestartId, kind: Kind) -> Result<String> {
    let path = match kind {
        Kind::Planned => cx.layout.restart_processing(),
        Kind::Crash => cx.layout.crash_handoff(restart),
    };
    match state::read(&path)? {
        Some(bytes) => Ok(text_of(&bytes)),
        None => Err(Error::Restart(format!("the handoff's source {} is gone", path.display()))),
    }
}

/// The packet as it is sent; text over the limit is cut, and the whole of it named.
pub(crate) fn draft(cx: &Context<'_>, restart: &RestartId, text: &str) -> Result<Draft> {
    let agent0 = AgentId::root();
    let mut text = text.to_owned();
    if text.len() > MAX_TEXT {
        let path = cx.layout.handoff_archive().join(format!("{restart}.txt"));
        state::write(&path, text.as_bytes())?;
        let cut = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str(&format!("\n[cut; the whole handoff is in {}]\n", path.display()));
    }
    let mut draft = Draft::new(Sender::from(AgentId::infinity()), agent0, text);
    draft.kind = Some("handoff".to_owned());
    draft.requires_ack = true;
    draft.id = Some(id(restart));
    Ok(draft)
}

/// Deliver: inbox, archive, source. Every step is safe to repeat.
///
/// # Errors
/// The step that failed; what was done stays done, and a repeat goes on.
pub(crate) fn deliver(cx: &Context<'_>, restart: &RestartId, kind: Kind) -> Result<()> {
    let archive = cx.layout.handoff_archive().join(format!("{restart}.json"));
    if state::read(&archive)?.is_some() {
        // Archived means that it was in the inbox before; only the source may be left.
        return drop_source(cx, restart, kind);
    }
    let draft = draft(cx, restart, &source(cx, restart, kind)?)?;
    let packet = packet(&draft)?;
    cx.bus.send(draft)?;
    fault::point("watchdog.handoff.sent")
        .map_err(|e| netsky_disk::Error::new("archive handoff", &archive, e))?;
    state::write(&archive, &packet)?;
    drop_source(cx, restart, kind)
}

/// A planned restart's source is the claimed request, which is kept until the restart is verified.
fn drop_source(cx: &Context<'_>, restart: &RestartId, kind: Kind) -> Result<()> {
    if kind == Kind::Crash {
        state::remove(cx.layout.crash_handoff(restart))?;
    }
    Ok(())
}

/// The packet's bytes, as the archive keeps them.
pub(crate) fn packet(draft: &Draft) -> Result<Vec<u8>> {
    let id = draft.id.clone().expect("a handoff's id is derived from its restart");
    let mut envelope =
        Envelope::new(id, draft.from.clone(), draft.to.clone(), draft.text.clone(), clock::wall_seconds());
    envelope.kind.clone_from(&draft.kind);
    envelope.requires_ack = Some(true);
    envelope.to_bytes().map_err(|e| Error::BadHandoff(e.to_string()))
}

#[cfg(test)]
mod tests {
    use netsky_bus::Bus;
    use netsky_disk::fs::Dir;
    use netsky_disk::home::Home;
    use netsky_disk::layout::Layout;
    use netsky_disk::random;
    use netsky_ledger::Telemetry;
    use netsky_model::life::State;

    use super::*;

    /// Runs `test` on a fresh home in which a crash restart has its draft.
    fn with_draft(test: impl FnOnce(&Context<'_>, &RestartId)) {
        let temp = tempfile::tempdir().expect("a throwaway folder");
        let layout = Layout::new(temp.path().join("home"));
        Home::init(&layout).expect("a fresh folder becomes a home");
        let record = Telemetry::new(&layout);
        let bus = Bus::open(&layout, &record);
        bus.create(&AgentId::root()).expect("agent0 has a channel");
        let nowhere = std::path::PathBuf::from("/nowhere");
        let cx =
            Context { layout: &layout, bus, record: &record, netsky: nowhere.clone(), ostk: nowhere.clone() };
        let restart = random::restart_id();
        write_draft(&cx, &restart);
        test(&cx, &restart);
    }

    fn write_draft(cx: &Context<'_>, restart: &RestartId) {
        state::write(cx.layout.crash_handoff(restart), b"what is known").expect("a draft");
    }

    fn archive(cx: &Context<'_>, restart: &RestartId) -> std::path::PathBuf {
        cx.layout.handoff_archive().join(format!("{restart}.json"))
    }

    fn waiting(cx: &Context<'_>) -> usize {
        cx.bus.list(&AgentId::root(), Some(State::Written)).expect("a channel").len()
    }

    #[test]
    fn t18_what_never_reached_the_inbox_is_not_archived() {
        with_draft(|cx, restart| {
            let inbox = cx.layout.folder(&AgentId::root(), State::Written);
            std::fs::remove_dir(&inbox).expect("an empty inbox");
            std::fs::write(&inbox, b"").expect("a file in its place takes no mail");
            deliver(cx, restart, Kind::Crash).expect_err("nothing can be delivered");
            assert!(!archive(cx, restart).exists(), "archived before it was delivered");
            assert!(cx.layout.crash_handoff(restart).exists(), "the draft is all there is");

            std::fs::remove_file(&inbox).expect("the file goes");
            Dir::create(&inbox).expect("the inbox is back");
            deliver(cx, restart, Kind::Crash).expect("a repeat goes on");
            assert_eq!(waiting(cx), 1);
            assert!(archive(cx, restart).exists() && !cx.layout.crash_handoff(restart).exists());
        });
    }

    #[test]
    fn t18_a_repeat_from_any_step_delivers_one_handoff() {
        with_draft(|cx, restart| {
            deliver(cx, restart, Kind::Crash).expect("delivered");
            // As after a death before the source was removed.
            write_draft(cx, restart);
            deliver(cx, restart, Kind::Crash).expect("delivered again");
            assert!(!cx.layout.crash_handoff(restart).exists());
            // As after a death before it was archived.
            write_draft(cx, restart);
            std::fs::remove_file(archive(cx, restart)).expect("it was archived");
            deliver(cx, restart, Kind::Crash).expect("delivered once more");
            assert_eq!(waiting(cx), 1, "the id derives from the restart");
        });
    }
}
