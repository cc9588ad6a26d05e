//! The handoff: what the old agent0 leaves to the new one. Inbox first, archive second, our copy of
//! the source last (faults T18): at no moment is there an archive of what was never delivered.

use netsky_disk::fault;
use netsky_disk::{clock, state};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, EnvelopeId, RestartId, Sender};

use crate::context::Context;
use crate::error::{Error, Result};

/// Most bytes of text that travel in the envelope; the rest is read from the spilled file. Escapes of
/// control bytes take six bytes each in JSON, and the envelope must stay under 256 KiB.
const MAX_TEXT: usize = 40 * 1024;

/// The id of a restart's handoff: a repeat after a crash is the same envelope.
pub(crate) fn id(restart: &RestartId) -> EnvelopeId {
    EnvelopeId::derived(&["handoff", restart.as_str()])
}

/// What somebody handed over: an envelope's text, or the bytes as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The text.
    pub(crate) text: String,
    /// Whether bytes of it did not read and were replaced.
    pub(crate) damaged: bool,
}

impl Source {
    pub(crate) fn read(bytes: &[u8]) -> Source {
        match (Envelope::parse(bytes), std::str::from_utf8(bytes)) {
            (Ok(packet), _) => Source { text: packet.text, damaged: false },
            (Err(_), Ok(text)) => Source { text: text.to_owned(), damaged: false },
            (Err(_), Err(_)) => Source { text: String::from_utf8_lossy(bytes).into_owned(), damaged: true },
        }
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

/// What a restart hands over: the claimed request where there is one, else the crash draft.
///
/// # Errors
/// The source is gone or does not read.
pub(crate) fn source(cx: &Context<'_>, restart: &RestartId) -> Result<Source> {
    let draft = cx.layout.crash_handoff(restart);
    for path in [cx.layout.restart_processing(), draft.clone()] {
        if let Some(bytes) = state::read(&path)? {
            return Ok(Source::read(&bytes));
        }
    }
    Err(Error::Restart(format!("the handoff's source {} is gone", draft.display())))
}

/// The packet as it is sent and archived; text over the limit is cut, and the whole of it named.
pub(crate) fn packet(cx: &Context<'_>, restart: &RestartId, source: Source) -> Result<Envelope> {
    let Source { mut text, damaged } = source;
    let mut extra = serde_json::Map::new();
    if damaged {
        extra.insert("damaged".to_owned(), true.into());
    }
    if text.len() > MAX_TEXT {
        let path = cx.layout.spilled_handoff(restart);
        state::write(&path, text.as_bytes())?;
        let digest = blake3::hash(text.as_bytes()).to_hex();
        extra.insert("spill".to_owned(), serde_json::json!({ "path": path, "digest": digest.as_str() }));
        let cut = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str(&format!("\n[cut; the whole handoff is in {}]\n", path.display()));
    }
    let from = Sender::from(AgentId::infinity());
    let mut envelope = Envelope::new(id(restart), from, AgentId::root(), text, clock::wall_seconds());
    envelope.kind = Some("handoff".to_owned());
    envelope.requires_ack = Some(true);
    envelope.extra = extra;
    // Looked at now: what cannot be written must not be found out after teardown.
    envelope.to_bytes().map_err(|e| Error::BadHandoff(e.to_string()))?;
    Ok(envelope)
}

/// Deliver: inbox, archive, source. Every step is safe to repeat.
///
/// # Errors
/// The step that failed; what was done stays done, and a repeat goes on.
pub(crate) fn deliver(cx: &Context<'_>, restart: &RestartId) -> Result<()> {
    let archive = cx.layout.archived_handoff(restart);
    if !state::exists(&archive)? {
        let packet = packet(cx, restart, source(cx, restart)?)?;
        let bytes = packet.to_bytes().map_err(|e| Error::BadHandoff(e.to_string()))?;
        cx.bus.send_once(&packet, id(restart), &AgentId::root())?;
        fault::point("watchdog.handoff.sent")
            .map_err(|e| netsky_disk::Error::new("archive handoff", &archive, e))?;
        state::write(&archive, &bytes)?;
    }
    // The draft of a crash is ours. A claimed request is kept until the restart is verified.
    state::remove(cx.layout.crash_handoff(restart))?;
    Ok(())
}
