//! L2: the real `netsky channel send|drain|ack` killed before and after each of its file-system calls.
//!
//! Each point starts from a fresh copy of a small home, is killed there, and must then recover by the verbs alone:
//! nothing lost that a verb had promised, nothing partial, nothing twice but flagged. The stacked tests kill the
//! recovery too. What was hit is counted: a run that hit too little fails.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use netsky_sim::{Call, Fault, Moment, Outcome, Point, Run};

use crate::bus_home::{DRAIN, Deaths, Home, repeats_are_flagged, surfacings};
use crate::everywhere::{break_everywhere, distinct, hit};

fn send<'a>(text: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["channel", "send", "agent7", text, "--from", "agent0"], more].concat()
}

/// A home whose agent7 has one envelope for each of `ids`.
fn home_with(ids: &[&str]) -> Home {
    let home = Home::init();
    for id in ids {
        home.netsky(send(&format!("text of {id}"), &["--create", "--id", id])).expect("sent");
    }
    home
}

#[test]
fn fm_send_kill_every_syscall() {
    let template = home_with(&["first"]);
    let points = break_everywhere("send", Fault::Kill, &template, &send("second", &[]), |home, outcome| {
        let audit = home.audit("agent7")?;
        ensure!(audit.folder_of("first") == Some("inbox"), "a neighbour was touched");
        let there = audit.saying("second");
        ensure!(there <= 1, "sent {there} times");
        ensure!(there == 1 || outcome.run.stdout.is_empty(), "said sent, is absent");
        home.netsky(send("third", &[]))?;
        let surfaced = home.drain()?;
        repeats_are_flagged(&surfaced, Deaths::NONE)?;
        ensure!(surfaced.len() == 2 + there, "surfaced {surfaced:?}");
        let audit = home.audit("agent7")?;
        ensure!(audit.found.values().all(|placed| placed.folder == "delivered"), "left over: {audit:?}");
        ensure!(audit.saying("third") == 1 && audit.saying("second") == there, "lost: {audit:?}");
        Ok(())
    });
    hit(&points, Call::Sync, "/agent7/", 4);
    hit(&points, Call::Rename, "/inbox/", 2);
}

/// After a kill of `send --id again`: a repeat succeeds, and there is one envelope however often it is repeated.
fn one_envelope_however_often(home: &Home, repeat: &[&str]) -> Result<()> {
    home.netsky(repeat.iter().copied())?;
    ensure!(home.audit("agent7")?.folder_of("again") == Some("inbox"), "exit 0, is absent");
    home.netsky(repeat.iter().copied())?;
    let surfaced = home.drain()?;
    let count = surfaced.iter().filter(|one| one.id == "again").count();
    ensure!(count == 1, "surfaced {count} times");
    home.netsky(repeat.iter().copied())?;
    ensure!(home.drain()?.is_empty(), "a repeat after the surfacing was sent");
    repeats_are_flagged(&surfaced, Deaths::NONE)?;
    ensure!(home.audit("agent7")?.folder_of("again") == Some("delivered"), "not delivered");
    Ok(())
}

#[test]
fn fm_send_kill_every_syscall_with_an_id() {
    let template = home_with(&["first"]);
    let repeat = send("text", &["--id", "again"]);
    let points = break_everywhere("send --id", Fault::Kill, &template, &repeat, |home, outcome| {
        let there = home.audit("agent7")?.folder_of("again");
        ensure!(there.is_some() || outcome.run.stdout.is_empty(), "said sent, is absent");
        one_envelope_however_often(home, &repeat)
    });
    hit(&points, Call::Open, "/ids/", 2);
}

#[test]
fn fm_send_kill_every_syscall_and_the_reader_is_faster_than_the_repeat() {
    let template = home_with(&["first"]);
    let repeat = send("text", &["--id", "again"]);
    break_everywhere(
        "send --id, read before its repeat",
        Fault::Kill,
        &template,
        &repeat,
        |home, outcome| {
            let there = home.audit("agent7")?.folder_of("again").is_some();
            ensure!(
                home.drain()?.iter().any(|one| one.id == "again") == there,
                "placed is not what was surfaced"
            );
            // Read and acked, or only read: at both ends of its life it is known.
            let acked = there && outcome.hit.as_ref().is_some_and(|point| point.index / 2 % 2 == 0);
            if acked {
                home.netsky(["channel", "ack", "agent7", "again"])?;
            }
            home.netsky(repeat.iter().copied())?;
            home.netsky(repeat.iter().copied())?;
            ensure!(
                home.drain()?.iter().filter(|one| one.id == "again").count() == usize::from(!there),
                "sent twice"
            );
            let end = home.audit("agent7")?.folder_of("again");
            ensure!(end == Some(if acked { "acked" } else { "delivered" }), "ends in {end:?}");
            Ok(())
        },
    );
}

#[test]
fn fm_send_kill_every_syscall_with_create() {
    let repeat = send("text", &["--create", "--id", "again"]);
    let points = break_everywhere("send --create", Fault::Kill, &Home::init(), &repeat, |home, outcome| {
        let there = home.audit("agent7")?.folder_of("again");
        ensure!(there.is_some() || outcome.run.stdout.is_empty(), "said sent, is absent");
        one_envelope_however_often(home, &repeat)
    });
    hit(&points, Call::Mkdir, "/agent7", 6);
}

#[test]
fn fm_send_kill_then_kill_the_repeat() {
    let template = home_with(&["first"]);
    let repeat = send("text", &["--id", "again"]);
    let hits = AtomicUsize::new(0);
    let points = break_everywhere("send --id, stacked", Fault::Kill, &template, &repeat, |home, outcome| {
        let second = home.stepper(repeat.iter().copied()).kill_at(scattered(outcome, 60))?;
        hits.fetch_add(usize::from(second.hit.is_some()), Ordering::Relaxed);
        home.audit("agent7")?;
        one_envelope_however_often(home, &repeat)
    });
    enough(hits.into_inner(), &points);
}

#[test]
fn a_home_whose_making_was_killed_is_made_by_the_next_try() {
    let points = break_everywhere("init", Fault::Kill, &Home::nowhere(), &["init"], |home, _| {
        home.netsky(["init"])?;
        home.netsky(send("text", &["--create", "--id", "again"]))?;
        ensure!(home.audit("agent7")?.folder_of("again") == Some("inbox"), "exit 0, is absent");
        Ok(())
    });
    hit(&points, Call::Rename, "home.json", 2);
}

const IDS: [&str; 3] = ["one", "two", "three"];
const BAIT: &str = "00000000000000000001-bait.json";

/// Three envelopes, and before them bytes that are none.
fn home_to_drain() -> Home {
    let home = home_with(&IDS);
    let bait = home.channel("agent7", "inbox").join(BAIT);
    std::fs::write(&bait, "{\"from\":").expect("the bait");
    std::fs::set_permissions(&bait, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
    home
}

/// How many of the runs were killed.
fn kills(killed: &[&Outcome]) -> usize {
    killed.iter().filter(|outcome| outcome.hit.is_some()).count()
}

/// Drains to the end and holds all surfacings, those of the killed runs before it included, against I1 and I2.
fn all_surface(home: &Home, killed: &[&Outcome]) -> Result<()> {
    all_surface_after(home, killed, Deaths::one_at_a_time(kills(killed)))
}

/// The same where one of the readers that were killed held more than one message.
fn all_surface_after(home: &Home, killed: &[&Outcome], deaths: Deaths) -> Result<()> {
    let mut surfaced: Vec<_> = killed.iter().flat_map(|outcome| surfacings(&outcome.run.stdout)).collect();
    surfaced.extend(home.drain()?);
    repeats_are_flagged(&surfaced, deaths)?;
    home.attempts_are_explained("agent7", deaths)?;
    let ids: BTreeSet<_> = surfaced.iter().map(|one| &*one.id).collect();
    ensure!(ids == BTreeSet::from(IDS), "surfaced {surfaced:?}");
    let first: Vec<_> = surfaced.iter().filter(|one| !one.redelivered).map(|one| &*one.id).collect();
    ensure!(IDS.iter().filter(|id| first.contains(id)).eq(&first), "out of order: {surfaced:?}");
    let audit = home.audit("agent7")?;
    for id in IDS {
        let placed = audit.found.get(id).with_context(|| format!("I1: {id} is nowhere"))?;
        let attempt = surfaced.iter().rev().find(|one| one.id == id).map(|one| one.attempt);
        ensure!(placed.folder == "delivered" && Some(placed.attempt) == attempt, "recorded as {placed:?}");
    }
    ensure!(home.drain()?.is_empty(), "surfaced again without a crash");
    Ok(())
}

/// The bait is in `poison/` with its bytes and a reason, once.
fn bait_is_poisoned(home: &Home) -> Result<()> {
    let files = home.files("agent7", "poison")?;
    let (reasons, baits): (Vec<&String>, Vec<&String>) =
        files.iter().partition(|file| file.ends_with(".reason"));
    ensure!(baits.len() == 1 && reasons.len() == 1, "poison holds {files:?}");
    let bytes = std::fs::read(home.channel("agent7", "poison").join(baits[0]))?;
    ensure!(bytes == b"{\"from\":", "the bait's bytes changed");
    ensure!(*reasons[0] == format!("{}.reason", baits[0]), "a reason without its file: {files:?}");
    Ok(())
}

#[test]
fn fm_claim_kill_and_fm_deliver_kill_every_syscall_of_drain() {
    let points = break_everywhere("drain", Fault::Kill, &home_to_drain(), &DRAIN, |home, outcome| {
        // The bait waits where it was or is poisoned; it is no envelope, so it must not trouble the audit.
        let audit = without_bait(home)?;
        ensure!(audit.len() == IDS.len(), "I1: {audit:?}");
        all_surface(home, &[outcome])?;
        bait_is_poisoned(home)
    });
    hit(&points, Call::Rename, "/claimed/", 6);
    hit(&points, Call::Rename, "/delivered/", 6);
    hit(&points, Call::Rename, "/poison/", 2);
    let prints =
        points.iter().filter(|point| point.call == Call::Write && point.moment == Moment::Exit).count();
    assert!(prints >= 3, "kills between print and record: {points:#?}");
}

#[test]
fn fm_claim_kill_and_fm_deliver_kill_then_kill_the_recovery() {
    let hits = AtomicUsize::new(0);
    let points =
        break_everywhere("drain, stacked", Fault::Kill, &home_to_drain(), &DRAIN, |home, outcome| {
            let second = home.stepper(DRAIN).kill_at(scattered(outcome, 120))?;
            hits.fetch_add(usize::from(second.hit.is_some()), Ordering::Relaxed);
            without_bait(home)?;
            all_surface(home, &[outcome, &second])?;
            bait_is_poisoned(home)
        });
    enough(hits.into_inner(), &points);
}

/// A home whose envelopes are all claimed by a drainer that is dead, and how it died.
fn home_of_dead_claims() -> (Home, Outcome) {
    let template = home_with(&IDS);
    // A drain into one JSON object claims everything before it prints anything.
    let claims = AtomicUsize::new(0);
    let last_claim = |point: &Point| {
        let to = point.files.last().map(|to| to.to_string_lossy().into_owned()).unwrap_or_default();
        let claim = point.call == Call::Rename && point.moment == Moment::Exit && to.contains("/claimed/");
        claim && claims.fetch_add(1, Ordering::Relaxed) + 1 == IDS.len()
    };
    let dead =
        template.stepper(["--json", "channel", "drain", "agent7"]).kill_when(last_claim).expect("a drainer");
    assert!(dead.hit.is_some() && dead.run.stdout.is_empty(), "claims are made before anything is printed");
    assert_eq!(template.files("agent7", "claimed").expect("claims").len(), IDS.len());
    (template, dead)
}

#[test]
fn fm_claim_kill_every_syscall_of_a_drain_that_reclaims() {
    let (template, dead) = home_of_dead_claims();
    let points = break_everywhere("drain of dead claims", Fault::Kill, &template, &DRAIN, |home, outcome| {
        ensure!(home.audit("agent7")?.found.len() == IDS.len(), "I1");
        all_surface_after(home, &[&dead, outcome], Deaths::one_at_a_time(1).and_one_of_a_batch(IDS.len()))
    });
    hit(&points, Call::Rename, "/inbox/", 6);
}

#[test]
fn fm_claim_kill_every_syscall_of_a_wait_that_reclaims() {
    let (template, dead) = home_of_dead_claims();
    let wait = ["channel", "wait", "agent7", "--timeout", "10s"];
    let points = break_everywhere("wait for dead claims", Fault::Kill, &template, &wait, |home, outcome| {
        ensure!(home.audit("agent7")?.found.len() == IDS.len(), "I1");
        // A wait holds nothing.
        all_surface_after(home, &[&dead, outcome], Deaths::NONE.and_one_of_a_batch(IDS.len()))
    });
    hit(&points, Call::Rename, "/inbox/", 6);
}

#[test]
fn fm_claim_kill_and_fm_deliver_kill_every_syscall_of_a_drain_into_json() {
    let template = home_with(&IDS);
    let json = ["--json", "channel", "drain", "agent7"];
    let points = break_everywhere("drain --json", Fault::Kill, &template, &json, |home, outcome| {
        ensure!(home.audit("agent7")?.found.len() == IDS.len(), "I1");
        // Each element stands in the one object too, with its quotes and opening brackets escaped.
        let plain = outcome.run.stdout.replace("\\\"", "\"").replace("\\u003c", "<");
        let shown = Outcome { run: Run { stdout: plain, ..outcome.run.clone() }, ..outcome.clone() };
        all_surface_after(home, &[&shown], Deaths::NONE.and_one_of_a_batch(IDS.len()))
    });
    hit(&points, Call::Rename, "/claimed/", 6);
    hit(&points, Call::Rename, "/delivered/", 6);
}

#[test]
fn fm_ack_kill_every_syscall() {
    let template = home_with(&IDS);
    template.netsky(DRAIN).expect("drained");
    let ack = ["channel", "ack", "agent7", "two"];
    let points = break_everywhere("ack", Fault::Kill, &template, &ack, |home, outcome| {
        let there = home.audit("agent7")?.folder_of("two");
        ensure!(there == Some("acked") || outcome.run.stdout.is_empty(), "said acked, is in {there:?}");
        home.netsky(ack)?;
        home.netsky(ack)?;
        let audit = home.audit("agent7")?;
        ensure!(audit.folder_of("two") == Some("acked"), "exit 0, is in {:?}", audit.folder_of("two"));
        ensure!(
            ["one", "three"].iter().all(|id| audit.folder_of(id) == Some("delivered")),
            "neighbours: {audit:?}"
        );
        ensure!(home.drain()?.is_empty(), "surfaced again");
        Ok(())
    });
    hit(&points, Call::Rename, "/acked/", 2);
}

/// A second point that differs from the first and sweeps through the recovery as the first sweeps through the run.
pub(crate) fn scattered(outcome: &Outcome, within: usize) -> usize {
    outcome.hit.as_ref().map_or(0, |point| (point.index * 7 + 3) % within)
}

/// Most second kills must have hit: a stacked test that only ever killed once fails.
pub(crate) fn enough(hits: usize, points: &[Point]) {
    let all = distinct(points).count();
    println!("  of {all} recoveries {hits} were killed too");
    assert!(hits * 2 >= all, "only {hits} of {all} recoveries were killed");
}

/// Ids outside poison; the bait may still be in `inbox/` or `claimed/` and is taken aside for the look.
fn without_bait(home: &Home) -> Result<BTreeSet<String>> {
    let mut aside = Vec::new();
    for folder in ["inbox", "claimed"] {
        for file in home.files("agent7", folder)?.into_iter().filter(|file| file.contains("-bait.")) {
            let path = home.channel("agent7", folder).join(file);
            let hidden = home.path().join("bait");
            std::fs::rename(&path, &hidden)?;
            aside.push((path, hidden));
        }
    }
    ensure!(aside.len() <= 1, "the bait is in two places");
    let ids = home.audit("agent7")?.found.into_keys().collect();
    for (path, hidden) in aside {
        std::fs::rename(hidden, path)?;
    }
    Ok(ids)
}
