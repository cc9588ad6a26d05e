//! I1: no message is lost and none is doubled.
//!
//! Every envelope is in exactly one folder of its agent; everything that was acknowledged, written by the record's word, or
//! marked as placed is somewhere. A claim of a dead process is on its way back, which is a note.

use std::collections::{BTreeMap, BTreeSet};

use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::State;
use netsky_model::name::{Key, Stage};
use netsky_model::process::Life;

use super::facts::Facts;
use super::read::Seen;
use super::read::mail::{Mailbox, Piece};
use super::verdict::Verdict;
use netsky_ledger::What;

pub(super) fn check(seen: &Seen, facts: &Facts) -> Verdict {
    let mut verdict = Verdict::new("I1", "every message is in exactly one place");
    for mailbox in &seen.mailboxes {
        in_one_place(mailbox, &mut verdict);
        under_one_number(mailbox, &mut verdict);
        held_by_the_living(seen, mailbox, &mut verdict);
        reserved_and_placed(mailbox, &mut verdict);
    }
    acknowledged(seen, facts, &mut verdict);
    written(seen, &mut verdict);
    verdict
}

fn in_one_place(mailbox: &Mailbox, verdict: &mut Verdict) {
    let mut places: BTreeMap<&Key, Vec<&Piece>> = BTreeMap::new();
    for piece in &mailbox.pieces {
        if let Some(name) = &piece.name {
            places.entry(&name.key).or_default().push(piece);
        }
    }
    verdict.saw(places.len());
    for pieces in places.into_values() {
        if let [piece] = pieces[..] {
            if piece.state == State::Poisoned && piece.has_reason {
                verdict.note(&piece.place, "a dead letter, with its reason beside it");
            }
            continue;
        }
        let (dead, living): (Vec<&Piece>, Vec<&Piece>) =
            pieces.into_iter().partition(|piece| piece.state == State::Poisoned);
        // What has its reason beside it was found and put aside before.
        let (aside, bare): (Vec<&Piece>, Vec<&Piece>) = dead.into_iter().partition(|piece| piece.has_reason);
        let in_the_way: Vec<&Piece> = living.into_iter().chain(bare).collect();
        for pair in in_the_way.windows(2) {
            verdict.broken(&pair[0].place, format!("is also {}", pair[1].place));
        }
        for copy in aside {
            verdict.note(&copy.place, "a copy of this message was put aside");
        }
    }
}

/// An id is given once: a second place in the order is a second message of one id.
fn under_one_number(mailbox: &Mailbox, verdict: &mut Verdict) {
    let mut first: BTreeMap<&EnvelopeId, (Hlc, &Piece)> = BTreeMap::new();
    for piece in mailbox.pieces.iter().filter(|piece| piece.state != State::Poisoned) {
        let Some(name) = &piece.name else { continue };
        let (hlc, other) = first.entry(&name.key.id).or_insert((name.key.hlc, piece));
        if *hlc != name.key.hlc {
            verdict.broken(&piece.place, format!("has the id of {}", other.place));
        }
    }
}

fn held_by_the_living(seen: &Seen, mailbox: &Mailbox, verdict: &mut Verdict) {
    for piece in mailbox.pieces.iter().filter(|piece| piece.state == State::Claimed) {
        let Some(Stage::Claimed(owner)) = piece.name.as_ref().map(|name| &name.stage) else { continue };
        let pid = owner.pid;
        match seen.life(owner) {
            Life::Alive => {}
            Life::Dead => verdict.note(&piece.place, format!("to be returned: process {pid} is dead")),
            Life::Unknown => verdict.note(
                &piece.place,
                format!("process {pid} is of another pid namespace: nothing is known of it"),
            ),
        }
    }
}

fn reserved_and_placed(mailbox: &Mailbox, verdict: &mut Verdict) {
    verdict.saw(mailbox.placed.len());
    for (place, key) in &mailbox.placed {
        match key {
            Some(key) if mailbox.keys.contains(key) => {}
            Some(_) if mailbox.unseen => {}
            Some(key) => verdict.broken(place, format!("says that {key} was placed, and it is nowhere")),
            None => verdict.broken(place, "says that a message was placed, and its entry names none"),
        }
    }
}

/// Whose messages nothing is said of: a folder of theirs could not be looked into, which is I4's finding and no loss.
fn unseen(seen: &Seen) -> impl Fn(&AgentId) -> bool + use<'_> {
    let mailboxes = seen.mailboxes.iter().filter(|mailbox| mailbox.unseen);
    let agents: BTreeSet<&AgentId> = mailboxes.map(|mailbox| &mailbox.agent).collect();
    move |agent| seen.no_mailboxes || agents.contains(agent)
}

fn acknowledged(seen: &Seen, facts: &Facts, verdict: &mut Verdict) {
    let mut known: BTreeSet<(&AgentId, &EnvelopeId)> = BTreeSet::new();
    for mailbox in &seen.mailboxes {
        known.extend(mailbox.keys.iter().map(|key| (&mailbox.agent, &key.id)));
    }
    let gone = seen.record.moves.iter().filter(|told| told.what == What::Removed);
    known.extend(gone.map(|gone| (&gone.agent, &gone.key.id)));
    verdict.saw(facts.acknowledged.len());
    let unseen = unseen(seen);
    for fact in facts.acknowledged.iter().filter(|fact| !known.contains(&(&fact.agent, &fact.id))) {
        if unseen(&fact.agent) {
            continue;
        }
        let what = format!("{} was acknowledged to its sender, and it is nowhere", fact.id);
        verdict.broken(format!("channels/agent/{}", fact.agent), what);
    }
}

fn written(seen: &Seen, verdict: &mut Verdict) {
    let none = BTreeSet::new();
    let keys: BTreeMap<&AgentId, &BTreeSet<Key>> =
        seen.mailboxes.iter().map(|mailbox| (&mailbox.agent, &mailbox.keys)).collect();
    let mut told: BTreeSet<(&AgentId, &Key)> = BTreeSet::new();
    let moves = &seen.record.moves;
    told.extend(
        moves.iter().filter(|told| told.what == What::Moved(State::Written)).map(|t| (&t.agent, &t.key)),
    );
    verdict.saw(told.len());
    // What was kept for long enough is nowhere, and the record says so.
    for gone in moves.iter().filter(|told| told.what == What::Removed) {
        told.remove(&(&gone.agent, &gone.key));
    }
    let unseen = unseen(seen);
    for (agent, key) in told {
        if !keys.get(agent).unwrap_or(&&none).contains(key) && !unseen(agent) {
            let what = format!("the record saw {key} written, and it is nowhere");
            verdict.broken(format!("channels/agent/{agent}"), what);
        }
    }
}
