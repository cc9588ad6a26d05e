//! The handoff: what the old agent0 leaves to the new one. Inbox first, archive second, our copy of
//! the source last (faults T18): at no moment is there an archive of what was never delivered.

use std::io::Read;
use std::path::{Path, PathBuf};

use netsky_disk::ReadError;
use netsky_disk::fs::{Dir, open_to_read};
use netsky_disk::{clock, fault, key, state};
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, Generation, RestartId, Sender};

use crate::brief::brief;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::perform;

/// Most bytes of text that travel in the envelope; the rest is read from the spilled file. Escapes of
/// control bytes take six bytes each in JSON, and the envelope must stay under 256 KiB.
const MAX_TEXT: usize = 40 * 1024;

/// Longest request that is used as it is: no verb queues one as long …
const MAX_REQUEST: u64 = 1 << 20;
/// … and how much is used of a longer one.
const START: u64 = 64 * 1024;

pub(crate) use netsky_model::restart::handoff_id as id;

/// The folder of the archive, made if it is missing; an error where nothing can be kept in it.
pub(crate) fn place(cx: &Context<'_>) -> netsky_disk::Result<Dir> {
    // Looked at by itself: what lies behind a link is not ours.
    Dir::open(cx.layout.logs())?;
    Dir::make(cx.layout.handoff_archive())
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

/// Write the draft for an agent0 that leaves none: only what is known, nothing made up.
pub(crate) fn draft_without(
    cx: &Context<'_>,
    restart: &RestartId,
    why: &str,
    generation: Option<Generation>,
) -> Result<()> {
    let now = clock::wall_seconds();
    let (waiting, again) = cx.bus.count_waiting(&AgentId::root())?;
    let generation = generation.map_or_else(String::new, |generation| format!(" generation {generation}"));
    let how = if matches!(claimed(cx), Ok(Some(_))) { "by itself" } else { "without a handoff" };
    let text = format!(
        "agent0{generation} ended {how} ({why}), seen at {now}.\n\
         What it did last is not known. In its inbox: {waiting} envelopes, {again} of them surfaced before \
         and not finished; those come again with redelivered=\"true\".\n\
         Tools that it started may have run: look before you repeat anything.\n\n{}",
        brief(cx)
    );
    Ok(state::write(cx.layout.crash_handoff(restart), text.as_bytes())?)
}

/// What a restart hands over: the claimed request where one reads, and the draft where there is one. A request that does not read is
/// refused here: it must not keep agent0 from coming back.
///
/// # Errors
/// There is no source, or nothing can be read now.
pub(crate) fn source(cx: &Context<'_>, restart: &RestartId) -> Result<Source> {
    match claimed(cx) {
        // Of an agent0 that died before it could be ended what is known of that stands behind.
        Ok(Some(mut request)) => {
            if let Some(draft) = state::read(cx.layout.crash_handoff(restart))? {
                request.text = format!("{}\n\n{}", request.text.trim_end(), Source::read(&draft).text);
            }
            return Ok(request);
        }
        Ok(None) => {}
        Err(error) => {
            let draft = cx.layout.crash_handoff(restart);
            if !state::exists(&draft)? {
                draft_without(cx, restart, &unread(&error), None)?;
            }
            refuse(cx, restart, error)?;
        }
    }
    let draft = cx.layout.crash_handoff(restart);
    match state::read(&draft)? {
        Some(bytes) => Ok(Source::read(&bytes)),
        None => Err(Error::Restart(format!("the handoff's source {} is gone", draft.display()))),
    }
}

/// The claimed request, if there is one.
///
/// # Errors
/// It may be somebody else's words, or does not read.
pub(crate) fn claimed(cx: &Context<'_>) -> Result<Option<Source>> {
    request(&cx.layout.restart_processing())
}

/// Why a template stands where a request did.
pub(crate) fn unread(error: &Error) -> String {
    format!("the restart request is refused: failed to {error}")
}

/// A request that cannot be read goes to people; its draft is written before, so that there is always a source.
///
/// # Errors
/// Nothing can be read now: `why` says nothing of this request.
pub(crate) fn refuse(cx: &Context<'_>, restart: &RestartId, why: Error) -> Result<()> {
    if matches!(&why, Error::Disk(error) if error.is_out_of_descriptors()) {
        return Err(why);
    }
    cx.record.watchdog("request-refused", Some(&AgentId::root()), &format!("{restart}: {why}"));
    // What cannot be put away is refused again; agent0 comes back all the same.
    if let Err(error) = perform::archive_request(cx, restart, "refused") {
        cx.record.watchdog("unarchived", Some(&AgentId::root()), &error.to_string());
    }
    Ok(())
}

/// A claimed request, whatever it is: of one that is too long the first bytes, of what is no file only that it was there.
fn request(path: &Path) -> Result<Option<Source>> {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else { return Ok(None) };
    let damaged = true;
    match Dir::open(parent)?.read(name, MAX_REQUEST) {
        Ok(bytes) => Ok(Some(Source::read(&bytes))),
        Err(ReadError::Io(error)) if error.is_not_found() => Ok(None),
        Err(ReadError::NotRegular) => {
            let text = "A restart was asked for by what is no file; it says nothing.\n".to_owned();
            Ok(Some(Source { text, damaged }))
        }
        Err(ReadError::TooLarge { size, .. }) => {
            let mut bytes = Vec::new();
            let start = open_to_read(path)?.take(START).read_to_end(&mut bytes);
            start.map_err(|error| netsky_disk::Error::new("read", path, error))?;
            let text = String::from_utf8_lossy(&bytes);
            Ok(Some(Source { text: format!("[the start of a request of {size} bytes]\n{text}"), damaged }))
        }
        Err(refused) => Err(refused.on("read", path).into()),
    }
}

/// The packet as it is sent and archived; text over the limit is cut, and the whole of it named.
pub(crate) fn packet(cx: &Context<'_>, restart: &RestartId, source: Source) -> Result<Envelope> {
    let Source { mut text, damaged } = source;
    let mut extra = serde_json::Map::new();
    if damaged {
        extra.insert("damaged".to_owned(), true.into());
    }
    if text.len() > MAX_TEXT {
        let write = |path: PathBuf| state::write(&path, text.as_bytes()).map(|()| path);
        let spilled = place(cx).and_then(|_| write(cx.layout.spilled_handoff(restart)));
        // The archive does not take it: it lies with what is kept of the restart.
        let path = spilled.or_else(|_| write(cx.layout.archived_request(restart, "txt")))?;
        let digest = blake3::hash(text.as_bytes()).to_hex();
        extra.insert("spill".to_owned(), serde_json::json!({ "path": path, "digest": digest.as_str() }));
        let cut = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        // On a line of its own: whoever takes the path takes nothing that clings to it.
        text.push_str(&format!("\n[cut] The whole handoff is in\n{}\n", path.display()));
    }
    let from = Sender::from(AgentId::infinity());
    let mut envelope = Envelope::new(id(restart), from, AgentId::root(), text, clock::wall_seconds());
    envelope.kind = Some("handoff".to_owned());
    envelope.requires_ack = Some(true);
    envelope.extra = extra;
    // Our own words: the home vouches for them. Without a key they are delivered all the same.
    if let Some(key) = key::load(cx.layout).ok().flatten() {
        envelope.sign(&key).map_err(|e| Error::BadHandoff(e.to_string()))?;
    }
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
    let place = place(cx);
    if place.is_err() || !state::exists(&archive)? {
        let packet = packet(cx, restart, source(cx, restart)?)?;
        let bytes = packet.to_bytes().map_err(|e| Error::BadHandoff(e.to_string()))?;
        cx.bus.send_once(&packet, id(restart), &AgentId::root())?;
        fault::point("watchdog.handoff.sent")
            .map_err(|e| netsky_disk::Error::new("archive handoff", &archive, e))?;
        if place.is_err_and(|error| !error.is_out_of_descriptors()) {
            // No place for an archive, which the tick tells; the source stays as the copy of what was delivered.
            return Ok(());
        }
        state::write(&archive, &bytes)?;
    }
    // The draft of a crash is ours. A claimed request is kept until the restart is verified.
    state::remove(cx.layout.crash_handoff(restart))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    use netsky_disk::random;
    use netsky_model::life::State;

    use super::*;
    use crate::context::in_a_home;

    /// Runs `test` on a fresh home in which a crash restart has its draft.
    fn with_draft(test: impl FnOnce(&Context<'_>, &RestartId)) {
        in_a_home(|cx| {
            cx.bus.create(&AgentId::root()).expect("agent0 has a channel");
            let restart = random::restart_id();
            write_draft(cx, &restart);
            test(cx, &restart);
        });
    }

    fn write_draft(cx: &Context<'_>, restart: &RestartId) {
        state::write(cx.layout.crash_handoff(restart), b"what is known").expect("a draft");
    }

    fn archive(cx: &Context<'_>, restart: &RestartId) -> std::path::PathBuf {
        cx.layout.archived_handoff(restart)
    }

    fn waiting(cx: &Context<'_>) -> usize {
        cx.bus.list(&AgentId::root(), Some(State::Written)).expect("a channel").len()
    }

    #[test]
    fn what_was_asked_for_and_what_is_known_of_the_end_are_both_handed_over() {
        with_draft(|cx, restart| {
            state::write(cx.layout.restart_processing(), b"look at the queue\n").expect("claimed");
            assert_eq!(source(cx, restart).expect("one").text, "look at the queue\n\nwhat is known");
            state::remove(cx.layout.crash_handoff(restart)).expect("there");
            assert_eq!(source(cx, restart).expect("one").text, "look at the queue\n");
        });
    }

    /// What the file says that the last line of the delivered handoff names.
    fn spilled(cx: &Context<'_>, restart: &RestartId) -> String {
        let sent = cx.bus.show(&AgentId::root(), id(restart).as_str()).expect("sent").envelope;
        let path = sent.expect("reads").text.lines().last().map(str::to_owned).expect("a path");
        std::fs::read_to_string(path).expect("spilled")
    }

    #[test]
    fn t18_what_never_reached_the_inbox_is_not_archived() {
        with_draft(|cx, restart| {
            let inbox = cx.layout.folder(&AgentId::root(), State::Written);
            std::fs::remove_dir(&inbox).expect("an empty inbox");
            std::fs::write(&inbox, b"").expect("a file in its place takes no mail");
            deliver(cx, restart).expect_err("nothing can be delivered");
            assert!(!archive(cx, restart).exists(), "archived before it was delivered");
            assert!(cx.layout.crash_handoff(restart).exists(), "the draft is all there is");

            std::fs::remove_file(&inbox).expect("the file goes");
            Dir::create(&inbox).expect("the inbox is back");
            deliver(cx, restart).expect("a repeat goes on");
            assert_eq!(waiting(cx), 1);
            assert!(archive(cx, restart).exists() && !cx.layout.crash_handoff(restart).exists());
        });
    }

    #[test]
    fn what_cannot_be_archived_is_delivered_once() {
        let elsewhere = tempfile::tempdir().expect("a folder");
        for (is_logs, is_link) in [(true, false), (true, true), (false, false), (false, true)] {
            with_draft(|cx, restart| {
                let place = if is_logs { cx.layout.logs() } else { cx.layout.handoff_archive() };
                std::fs::remove_dir_all(&place).expect("there");
                match is_link {
                    false => std::fs::write(&place, "x").expect("a file takes its place"),
                    true => std::os::unix::fs::symlink(elsewhere.path(), &place).expect("a link does"),
                }
                let text = "y".repeat(2 * MAX_TEXT);
                state::write(cx.layout.crash_handoff(restart), text.as_bytes()).expect("a long draft");
                for _ in 0..2 {
                    deliver(cx, restart).expect("delivered");
                    assert!(waiting(cx) == 1 && cx.layout.crash_handoff(restart).exists());
                }
                assert_eq!(spilled(cx, restart), text);
                let behind = std::fs::read_dir(elsewhere.path()).expect("there").count();
                assert_eq!(behind, 0, "nothing is written behind a link");
            });
        }
    }

    #[test]
    fn a_long_handoff_that_its_archive_does_not_take_is_spilled_all_the_same() {
        with_draft(|cx, restart| {
            let text = "y".repeat(2 * MAX_TEXT);
            std::fs::create_dir(cx.layout.spilled_handoff(restart)).expect("a folder in its place");
            state::write(cx.layout.crash_handoff(restart), text.as_bytes()).expect("a long draft");
            deliver(cx, restart).expect("delivered");
            assert!(waiting(cx) == 1 && archive(cx, restart).exists());
            assert_eq!(spilled(cx, restart), text);
        });
    }

    #[test]
    fn a_long_handoff_is_spilled_whole_and_its_envelope_says_where() {
        with_draft(|cx, restart| {
            let text = "\u{1}é".repeat(60 * 1024);
            state::write(cx.layout.crash_handoff(restart), text.as_bytes()).expect("a draft");
            deliver(cx, restart).expect("delivered");
            let archived = std::fs::read(archive(cx, restart)).expect("archived");
            let packet = Envelope::parse(&archived).expect("an envelope");
            let spill = &packet.extra["spill"];
            assert_eq!(
                std::fs::read_to_string(spill["path"].as_str().expect("a path")).expect("spilled"),
                text
            );
            assert_eq!(spill["digest"].as_str(), Some(blake3::hash(text.as_bytes()).to_hex().as_str()));
            let sent = cx.bus.show(&AgentId::root(), id(restart).as_str()).expect("sent").envelope;
            assert_eq!(sent.expect("reads").digest, packet.digest, "the archive is what was sent");
            assert_eq!(packet.text.lines().last(), spill["path"].as_str(), "nothing clings to the path");
        });
    }

    #[test]
    fn a_request_that_is_too_long_is_cut_and_what_is_no_file_is_a_bare_one() {
        with_draft(|cx, restart| {
            let request = cx.layout.restart_processing();
            std::fs::write(&request, "y".repeat(2 * 1024 * 1024)).expect("written");
            let long = source(cx, restart).expect("used");
            assert!(
                long.damaged && long.text.contains("yyy\n\nwhat is known") && long.text.len() < 65 * 1024
            );
            std::fs::remove_file(&request).expect("ours");
            std::fs::create_dir(&request).expect("a folder");
            assert!(source(cx, restart).expect("used").text.starts_with("A restart was asked for"));
            std::fs::remove_dir(&request).expect("ours");
            std::os::unix::fs::symlink("/nowhere", &request).expect("a link");
            assert!(source(cx, restart).expect("used").damaged);
        });
    }

    /// Ways to make a file one that is not read.
    fn spoils() -> [fn(&Path); 2] {
        let linked = |path: &Path| std::fs::hard_link(path, path.with_extension("too")).expect("linked");
        // root reads what is closed to it, and only root can give it away.
        let closed = |path: &Path| {
            if chown(path, Some(65_534), None).is_err() {
                set_permissions(path, Permissions::from_mode(0o000)).expect("ours");
            }
        };
        [linked, closed]
    }

    #[test]
    fn fm_restart_request_corrupt_one_that_does_not_read_is_put_aside_and_a_template_delivered() {
        for spoil in spoils() {
            in_a_home(|cx| {
                cx.bus.create(&AgentId::root()).expect("agent0 has a channel");
                let restart = random::restart_id();
                state::write(cx.layout.restart_processing(), b"who knows whose words").expect("claimed");
                spoil(&cx.layout.restart_processing());
                deliver(cx, &restart).expect("delivered");
                let sent = cx.bus.show(&AgentId::root(), id(&restart).as_str()).expect("sent").envelope;
                let text = sent.expect("reads").text;
                assert!(
                    text.contains("ended without a handoff (the restart request is refused: failed to read ")
                        && !text.contains("whose words")
                );
                assert!(!cx.layout.restart_processing().exists());
                assert!(cx.layout.archived_request(&restart, "refused").exists(), "kept for people");
            });
        }
    }

    #[test]
    fn t18_a_repeat_from_any_step_delivers_one_handoff() {
        with_draft(|cx, restart| {
            deliver(cx, restart).expect("delivered");
            // As after a death before the source was removed.
            write_draft(cx, restart);
            deliver(cx, restart).expect("delivered again");
            assert!(!cx.layout.crash_handoff(restart).exists());
            // As after a death before it was archived.
            write_draft(cx, restart);
            std::fs::remove_file(archive(cx, restart)).expect("it was archived");
            deliver(cx, restart).expect("delivered once more");
            assert_eq!(waiting(cx), 1, "the id derives from the restart");
        });
    }
}
