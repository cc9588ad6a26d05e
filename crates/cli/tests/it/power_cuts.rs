//! L3: the power goes while real programs send, drain and ack, on a real ext4 and a real XFS.
//!
//! Each round lets a sender, a drainer and an acker run side by side, stops the file system at a moment taken from the
//! seed, mounts what had reached it, and holds that against what the programs had said with exit 0. The home lives on
//! from round to round, so that each recovery starts from what the ones before it left.
//!
//! Beside that: what the ingester noted of files that nobody syncs holds after a cut (I3).
//!
//! Only what was heard before the cut counts. A real power cut ends the programs too; here they run on for a moment
//! against a dead disk, which may lie to them (XFS answers 0 to the sync of a folder whose log is gone).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use netsky_sim::campaign::Share;
use netsky_sim::power::{Image, Kind};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::bus_home::{DRAIN, Deaths, Home, Surfacing, repeats_are_flagged, surfacings};

/// Cuts of one run.
const CUTS: usize = 100;

/// Most finished commands before a cut: a sender's, a drainer's and an acker's together.
const MOST_BEFORE: u64 = 24;

/// Cuts beside an ingester; in every other round the cut falls into its work.
const INGEST_CUTS: u64 = 6;

/// Lines of telemetry before an ingest that is cut, and after.
const LINES_BEFORE: usize = 3;
const LINES_AFTER: usize = 12;

/// A round in which nobody finishes anything for this long is stuck.
const BOUND: Duration = Duration::from_secs(120);

/// What the programs said, and what the harness did, over all rounds.
#[derive(Default)]
struct Told {
    /// The power is off: what is heard from now on may never have been true.
    dark: bool,
    /// Exit 0 of a send, by id.
    sent: BTreeSet<String>,
    /// Exit 0 of an ack.
    acked: BTreeSet<String>,
    /// Every element that a drain was heard to print, in the order of the prints.
    surfaced: Vec<Surfacing>,
    /// What a drain was heard to print after the cut: before it or after it, nobody knows.
    perhaps: BTreeSet<String>,
    cuts: usize,
    /// Commands that the cut interrupted.
    cut_off: usize,
}

fn program(home: &Home, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netsky"));
    command.args(args).env_clear().env("NETSKY_HOME", home.path()).env("PATH", "/usr/bin:/bin");
    command.env("HOME", "/").current_dir("/").stdin(Stdio::null());
    command
}

/// One round: three programs at a time, over and over, until the power goes.
struct Round<'a> {
    home: &'a Home,
    number: usize,
    told: &'a Mutex<Told>,
    /// Commands that ended.
    ended: AtomicUsize,
}

impl Round<'_> {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("no holder panics")
    }

    fn goes_on(&self) -> bool {
        !self.told().dark
    }

    /// Runs `args`; `done` is noted if it was heard to exit 0 before the cut.
    fn run(&self, args: &[&str], done: impl FnOnce(&mut Told, &str) -> bool) {
        let output = program(self.home, args).output().expect("the program is not on the image");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let mut told = self.told();
        match (told.dark, output.status.success()) {
            (false, true) => assert!(done(&mut told, &stdout), "{args:?} was done before"),
            (false, false) => panic!("netsky {args:?}: {}", String::from_utf8_lossy(&output.stderr)),
            (true, _) => told.cut_off += 1,
        }
        drop(told);
        self.ended.fetch_add(1, Ordering::AcqRel);
    }

    fn send(&self) {
        for number in 0.. {
            if !self.goes_on() {
                return;
            }
            let id = format!("r{}-{number}", self.number);
            let args = ["channel", "send", "agent7", &id, "--from", "agent0", "--id", &id];
            self.run(&args, |told, _| told.sent.insert(id.clone()));
        }
    }

    /// Without an id of its own, and with nobody beside it whose syncs would carry its own along.
    fn send_alone(&self) {
        while self.goes_on() {
            let args = ["--json", "channel", "send", "agent7", "plain", "--from", "agent0"];
            self.run(&args, |told, stdout| {
                let sent: serde_json::Value = serde_json::from_str(stdout).expect("one object");
                told.sent.insert(sent["id"].as_str().expect("an id").to_owned())
            });
        }
    }

    /// Listens while it prints: each element is heard before the cut or after it.
    fn drain(&self) {
        while self.goes_on() {
            let mut drain = program(self.home, &DRAIN);
            let mut drain = drain.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
            for line in BufReader::new(drain.stdout.take().expect("piped")).lines() {
                let heard = surfacings(&line.expect("text"));
                let mut told = self.told();
                match told.dark {
                    false => told.surfaced.extend(heard),
                    true => told.perhaps.extend(heard.into_iter().map(|one| one.id)),
                }
            }
            drain.wait().expect("it ends");
            self.ended.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn ack(&self) {
        while self.goes_on() {
            let next = {
                let told = self.told();
                let open = told.surfaced.iter().rev().find(|one| !told.acked.contains(&one.id));
                open.map(|one| one.id.clone())
            };
            let Some(id) = next else {
                std::thread::yield_now();
                continue;
            };
            self.run(&["channel", "ack", "agent7", &id], |told, _| told.acked.insert(id.clone()));
        }
    }

    /// The power goes somewhere inside a command, after `before` of them.
    fn cut(&self, image: &Image, before: usize, within: Duration) {
        let began = Instant::now();
        while self.ended.load(Ordering::Acquire) < before {
            assert!(began.elapsed() < BOUND, "round {}: nothing goes on", self.number);
            std::thread::yield_now();
        }
        let began = Instant::now();
        while began.elapsed() < within {
            std::hint::spin_loop();
        }
        self.told().dark = true;
        image.cut().expect("the file system stops");
    }
}

/// One round up to the cut; answers once every program has ended.
fn work_until_the_cut(image: &Image, home: &Home, number: usize, seed: u64, told: &Mutex<Told>) {
    let round = Round { home, number, told, ended: AtomicUsize::new(0) };
    round.told().dark = false;
    let dice = mixed(seed.wrapping_add(number as u64));
    std::thread::scope(|scope| {
        if number.is_multiple_of(3) {
            scope.spawn(|| round.send_alone());
        } else {
            scope.spawn(|| round.send());
            scope.spawn(|| round.drain());
            scope.spawn(|| round.ack());
        }
        let within = Duration::from_micros(dice >> 8 & 0x1fff);
        round.cut(image, (dice % MOST_BEFORE) as usize, within);
    });
    round.told().cuts += 1;
}

/// What is on the disk now against what was said before the cut; then a drain, which must find the rest.
fn what_was_said_holds(home: &Home, told: &mut Told) -> Result<()> {
    let audit = home.audit("agent7")?;
    for id in &told.sent {
        ensure!(audit.found.contains_key(id), "I1: {id} was sent with exit 0 and is nowhere");
    }
    for id in &told.acked {
        let folder = audit.folder_of(id);
        ensure!(folder == Some("acked"), "{id} was acked with exit 0 and is in {folder:?}");
    }
    let output = program(home, &DRAIN).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a drain after the cut: {}: {said}", output.status);
    told.surfaced.extend(surfacings(&String::from_utf8_lossy(&output.stdout)));
    // One drainer runs at a time.
    let deaths = Deaths::one_at_a_time(told.cuts);
    repeats_are_flagged(&told.surfaced, deaths)?;
    home.attempts_are_explained("agent7", deaths)?;
    let seen: BTreeSet<_> = told.surfaced.iter().map(|one| &one.id).chain(&told.perhaps).collect();
    for id in &told.sent {
        ensure!(seen.contains(id), "{id} was sent with exit 0 and never surfaced");
    }
    first_surfacings_are_in_order(&told.surfaced)?;
    let poisoned = home.files("agent7", "poison")?;
    ensure!(poisoned.is_empty(), "nothing here fails five times: {poisoned:?}");
    Ok(())
}

/// The sender of a round numbers what it sends: first surfacings rise.
fn first_surfacings_are_in_order(surfaced: &[Surfacing]) -> Result<()> {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for one in surfaced.iter().filter(|one| !one.redelivered) {
        let Some((round, number)) = one.id.split_once('-').filter(|(round, _)| round.starts_with('r')) else {
            continue;
        };
        let number: u64 = number.parse()?;
        if let Some(before) = last.insert(round, number) {
            ensure!(before < number, "{round}-{before} surfaced before {round}-{number}");
        }
    }
    Ok(())
}

/// An image, where there can be one.
pub(crate) fn image(kind: Kind) -> Option<Image> {
    let why = match Image::new(kind) {
        Ok(image) => return Some(image),
        Err(why) => why,
    };
    crate::skipped::skipped(&format!("{} images: {why}", kind.word()));
    None
}

/// A home on it with one message in it.
fn home_on(image: &Image) -> Home {
    let home = Home::init_in(TempDir::new_in(image.place()).expect("a folder on the image"));
    let created = ["channel", "send", "agent7", "hello", "--from", "agent0", "--create", "--id", "before-0"];
    home.netsky(created).expect("sent");
    home
}

/// How many cuts it made: none where there can be no such image.
fn power_cuts_on(kind: Kind, seed: u64) -> u64 {
    let Some(mut image) = image(kind) else { return 0 };
    let home = home_on(&image);
    let (told, began) = (Mutex::new(Told::default()), Instant::now());
    for round in 0..CUTS {
        work_until_the_cut(&image, &home, round, seed, &told);
        image.restore().expect("the file system comes back");
        let mut told = told.lock().expect("no holder panics");
        what_was_said_holds(&home, &mut told)
            .unwrap_or_else(|why| panic!("{} seed {seed} cut {round}: {why:#}", kind.word()));
    }
    let told = told.into_inner().expect("no holder panics");
    let repeats = told.surfaced.iter().filter(|one| one.redelivered).count();
    println!(
        "power cuts on {}: {CUTS} in {:.1?}, seed {seed}: {} sends and {} acks with exit 0, {} commands cut, {repeats} repeats",
        kind.word(),
        began.elapsed(),
        told.sent.len(),
        told.acked.len(),
        told.cut_off,
    );
    // A cut that interrupted nothing shows nothing.
    assert!(told.cut_off >= CUTS, "only {} commands were interrupted", told.cut_off);
    assert!(told.sent.len() >= CUTS && told.acked.len() >= CUTS / 4, "too little was done before the cuts");
    CUTS as u64
}

#[test]
fn l3_fm_send_power_fm_claim_power_fm_deliver_power_fm_ack_power_on_ext4() {
    power_cuts_on(Kind::Ext4, mixed(0));
}

#[test]
fn l3_fm_send_power_fm_claim_power_fm_deliver_power_fm_ack_power_on_xfs() {
    power_cuts_on(Kind::Xfs, mixed(1));
}

/// Leaves so many lines of telemetry, which nobody syncs.
fn tell(home: &Home, lines: usize) {
    for _ in 0..lines {
        home.netsky(["channel", "list", "agent7"]).expect("listed");
    }
}

/// Every line of telemetry that the database knows of, by where it is.
fn known_lines(home: &Home) -> Vec<(u64, u64)> {
    let db = Connection::open(home.path().join("meta.db")).expect("opens");
    let lines =
        "SELECT src, pos FROM cli_invocations UNION ALL SELECT src, pos FROM envelope_events ORDER BY 1, 2";
    let mut asked = db.prepare(lines).expect("asked");
    let rows = asked.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("answered");
    rows.collect::<rusqlite::Result<_>>().expect("read")
}

/// I3: how far the ingester says that it read is still so after the cut, so that no later line is passed over.
fn ingest_power_on(kind: Kind, seed: u64) {
    let Some(mut image) = image(kind) else { return };
    let home = home_on(&image);
    for round in 0..INGEST_CUTS {
        tell(&home, LINES_BEFORE);
        let mut ingest = program(&home, &["ledger", "ingest"]);
        let mut ingest = ingest.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        if round.is_multiple_of(2) {
            assert!(ingest.wait().expect("it ends").success(), "round {round}: the ingest before the cut");
        } else {
            let (began, within) = (Instant::now(), Duration::from_micros(mixed(seed ^ round) & 0x3fff));
            while began.elapsed() < within {
                std::hint::spin_loop();
            }
        }
        image.cut().expect("the file system stops");
        ingest.wait().expect("it ends");
        image.restore().expect("the file system comes back");
        // A file that the cut made shorter grows past where it ended before.
        tell(&home, LINES_AFTER);
        home.netsky(["ledger", "ingest"]).expect("it goes on");
        let living = known_lines(&home);
        home.netsky(["ledger", "rebuild"]).expect("from nothing");
        let rebuilt = known_lines(&home);
        // The ingest itself left a line after its end.
        assert_eq!(rebuilt.len(), living.len() + 1, "{} seed {seed} cut {round}", kind.word());
        assert!(rebuilt.starts_with(&living), "{} seed {seed} cut {round}", kind.word());
    }
}

#[test]
fn i3_fm_ingest_power_on_ext4() {
    ingest_power_on(Kind::Ext4, mixed(2));
}

#[test]
fn i3_fm_ingest_power_on_xfs() {
    ingest_power_on(Kind::Xfs, mixed(3));
}

/// A batch of `cargo xtask campaign power-cuts`: the two file systems in turn, each time on a new image.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_power_cuts() {
    let share = Share::asked();
    share.run(|step| {
        let kind = if step.is_multiple_of(2) { Kind::Ext4 } else { Kind::Xfs };
        power_cuts_on(kind, mixed(mixed(share.seed).wrapping_add(step)))
    });
}

/// Well spread bits out of a counter (the finalizer of splitmix64).
pub(crate) fn mixed(counter: u64) -> u64 {
    let mut bits = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
