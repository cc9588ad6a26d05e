//! I4: what is on disk reads: every digest matches, what has none parses, and the files of state say what they must.
//!
//! Files of a newer format are left alone and noted. What lies in `poison/` was judged before and may be anything.

use netsky_model::life::State;
use netsky_model::name::Stage;

use super::read::Seen;
use super::read::files::Content;
use super::read::mail::Piece;
use super::verdict::Verdict;

pub(super) fn check(seen: &Seen) -> Verdict {
    let mut verdict = Verdict::new("I4", "every digest matches and every file reads");
    for piece in seen.mailboxes.iter().flat_map(|mailbox| &mailbox.pieces) {
        verdict.saw(1);
        if piece.state == State::Poisoned {
            if !piece.has_reason {
                verdict.note(&piece.place, "has no reason beside it");
            }
            continue;
        }
        named(piece, &mut verdict);
        content(&piece.place, &piece.content, &mut verdict);
    }
    for file in &seen.files {
        verdict.saw(1);
        content(&file.place, &file.content, &mut verdict);
    }
    for line in &seen.broken_facts {
        let what = format!("{}; {}", line.why, line.way_out());
        verdict.broken(format!("record/{}:{}", line.file, line.line), what);
    }
    if let Some((place, why)) = &seen.config {
        verdict.note(place, why);
    }
    for (file, why) in &seen.record.closed {
        verdict.broken(format!("logs/{file}"), format!("cannot be read: {why}"));
    }
    if seen.record.unread > 0 {
        verdict.note("logs", format!("{} lines of telemetry do not read", seen.record.unread));
    }
    verdict
}

fn content(place: &str, content: &Content, verdict: &mut Verdict) {
    match content {
        Content::Whole => {}
        Content::Newer => verdict.note(place, "is of a newer format and was left alone"),
        Content::Damaged(why) => verdict.broken(place, why),
    }
}

fn named(piece: &Piece, verdict: &mut Verdict) {
    let Some(name) = &piece.name else {
        return verdict.broken(&piece.place, "its name is not one of the bus");
    };
    let fits = match name.stage {
        Stage::Waiting => piece.state == State::Written,
        Stage::Claimed(_) => piece.state == State::Claimed,
        Stage::Taken(_) => matches!(piece.state, State::Delivered | State::Acked | State::Forwarded),
    };
    if !fits {
        verdict.broken(&piece.place, "its name belongs to another folder");
    }
}
