//! `netsky ticker` by itself: nothing that it runs stops its cadence.

use std::fs::{File, read_to_string};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use netsky_disk::clock;
use netsky_disk::process::is_stopped;
use netsky_disk::sweep::{marked, sweep_marked};

use crate::bus_home::Home;
use crate::cron::{entry, told};
use crate::screen::{netsky, program};

/// Nothing waits this long when all is well.
const LIMIT: Duration = Duration::from_secs(90);

/// One that runs, and is ended with all that it started.
struct Ticker {
    home: String,
    said: PathBuf,
    child: Child,
}

impl Ticker {
    fn start(home: &Home, set: &[(&str, &str)]) -> Ticker {
        Ticker::every("200ms", home, set)
    }

    fn every(interval: &str, home: &Home, set: &[(&str, &str)]) -> Ticker {
        let said = home.path().with_file_name("said");
        let mut command = program(home, &["ticker", "--tick", interval]);
        let child = command.envs(set.iter().copied()).stdout(File::create(&said).expect("made")).spawn();
        Ticker { home: home.path().display().to_string(), said, child: child.expect("starts") }
    }

    /// How many ticks it has told of.
    fn ticks(&self) -> usize {
        read_to_string(&self.said).expect("text").matches(" watchdog tick: ").count()
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        let _ = sweep_marked("NETSKY_HOME", &self.home, LIMIT);
        let _ = self.child.wait();
    }
}

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < LIMIT, "{what} did not happen");
        clock::pause(Duration::from_millis(20));
    }
}

fn stopped(ticker: &Ticker) -> Vec<netsky_model::process::ProcessId> {
    let all = marked("NETSKY_HOME", &ticker.home).expect("seen");
    all.into_iter().filter(is_stopped).collect()
}

/// What the ticker says of the last tick of a kind.
fn last(home: &Home, kind: &str) -> Option<serde_json::Value> {
    let text = read_to_string(home.path().join(format!("state/tick/{kind}.json"))).ok()?;
    serde_json::from_str(&text).ok()
}

#[test]
fn i10_a_cron_or_loop_tick_that_comes_to_nothing_for_minutes_is_one_page_and_red_until_one_does() {
    let home = Home::init();
    let (slept, taken) = (home.path().with_file_name("slept"), home.path().with_file_name("taken"));
    std::fs::write(&slept, "0").expect("written");
    let script = format!("cat >> {}", taken.display());
    let config =
        format!("[[page.transports]]\nkind = \"command\"\nargv = [\"/bin/sh\", \"-c\", {script:?}]\n");
    std::fs::write(home.path().join("config.toml"), config).expect("written");
    // An entry that cannot be told is no tick that comes to nothing.
    let entries = entry("q", "* * * * * *", "").replace("agent0", "agent9");
    std::fs::write(home.path().join("cron.toml"), entries).expect("written");
    netsky(&home, &["loop", "create", "1h", "look"]).works();
    let ticker = Ticker::start(&home, &[("NETSKY_SLEPT", slept.to_str().expect("text"))]);
    let is = |kind: &str, outcome: &str, failing: bool| {
        last(&home, kind).filter(|last| last["outcome"] == outcome && last["failing_ms"].is_null() != failing)
    };
    until("an entry that fails", || is("cron", "ended with code 1", false));
    let state = home.path().join("state");
    // What a tick that is at work puts in their place is replaced again.
    until("ticks that fail", || {
        std::fs::write(state.join("cron-state.toml"), "v = 2\n").expect("written");
        let _ = std::fs::remove_file(state.join("tick/loops.lock"));
        let _ = std::fs::create_dir(state.join("tick/loops.lock"));
        is("cron", "ended with code 1", true).and(is("loop", "ended with code 1", true))
    });
    let red = || {
        let said = netsky(&home, &["status"]);
        ["no cron tick", "no loop tick"].map(|what| said.out.contains(&format!("problem: {what} comes")))
    };
    assert_eq!((red(), taken.exists()), ([false; 2], false), "not yet");
    std::fs::write(&slept, "400000").expect("written");
    let told = || {
        let told = read_to_string(&taken).unwrap_or_default();
        ["cron", "loop"].map(|kind| told.matches(&format!("\"escalate/ticks.{kind}\"")).count())
    };
    until("both are told", || (told() == [1, 1]).then_some(()));
    until("both are red", || (red() == [true; 2]).then_some(()));
    std::fs::remove_file(state.join("cron-state.toml")).expect("there");
    std::fs::remove_dir(state.join("tick/loops.lock")).expect("empty");
    until("none is red", || (red() == [false; 2]).then_some(()));
    assert_eq!(told(), [1, 1], "once");
    drop(ticker);
}

#[test]
fn t24_no_tick_of_the_watchdog_waits_for_one_of_cron_or_of_loops_that_hangs() {
    for (kind, fault) in [("cron", "watchdog.cron.sent=stop"), ("loop", "watchdog.loop.sent=stop")] {
        let home = Home::init();
        std::fs::write(home.path().join("cron.toml"), entry("q", "* * * * * *", "")).expect("written");
        netsky(&home, &["loop", "create", "1s", "look"]).works();
        let ticker = Ticker::start(&home, &[("NETSKY_FAULT", fault)]);
        let hangs = until("one that hangs", || stopped(&ticker).pop());
        let told = ticker.ticks();
        until("five ticks more", || (ticker.ticks() >= told + 5).then_some(()));
        assert_eq!(stopped(&ticker), [hangs], "{kind}: nobody had to end it for that");
        let all = marked("NETSKY_HOME", &ticker.home).expect("seen");
        let words = all.iter().filter_map(|one| read_to_string(format!("/proc/{}/cmdline", one.pid)).ok());
        let of_kind = words.filter(|words| words.ends_with(&format!("\0{kind}\0tick\0"))).count();
        assert_eq!(of_kind, 1, "{kind}: it has no second");
    }
}

/// How many envelopes of a kind were ever sent to agent0.
fn sent(home: &Home, kind: &str) -> usize {
    told(home, "agent0").iter().filter(|envelope| envelope.kind.as_deref() == Some(kind)).count()
}

#[test]
fn t24_exactly_what_is_due_between_two_slots_comes_then_and_what_is_made_meanwhile_too() {
    let home = Home::init();
    std::fs::write(home.path().join("config.toml"), "[ticker]\nprecision = \"exact\"\n").expect("written");
    netsky(&home, &["loop", "create", "3s", "look"]).works();
    // Ten minutes: nothing of this comes with a slot.
    let ticker = Ticker::every("10m", &home, &[]);
    until("the first slot", || last(&home, "loop"));
    until("a loop between two slots", || (sent(&home, "loop-tick") == 1).then_some(()));
    std::fs::write(home.path().join("cron.toml"), entry("q", "* * * * * *", "")).expect("written");
    until("an entry that was made meanwhile", || (sent(&home, "cron-tick") == 1).then_some(()));
    let agent3 = ["channel", "send", "agent3", "x", "--from", "owner", "--create"];
    netsky(&home, &agent3).works();
    let made = jiff::Timestamp::now();
    netsky(&home, &["loop", "create", "2s", "look", "--agent", "agent3"]).works();
    let first = until("a loop that was made meanwhile", || told(&home, "agent3").into_iter().nth(1));
    let after = first.ts.duration_since(made).as_secs();
    assert!((1..30).contains(&after), "{after} s after it was made");
    assert_eq!(ticker.ticks(), 1, "and the cadence is what it was");
}

#[test]
fn what_is_due_between_two_slots_comes_with_the_next_one_where_nobody_asks_for_more() {
    let home = Home::init();
    netsky(&home, &["loop", "create", "1s", "look"]).works();
    std::fs::write(home.path().join("cron.toml"), entry("q", "* * * * * *", "")).expect("written");
    let _ticker = Ticker::every("10m", &home, &[]);
    until("the first slot", || last(&home, "loop").and(last(&home, "cron")));
    netsky(&home, &["channel", "drain", "agent0"]).works();
    clock::pause(Duration::from_secs(4));
    assert_eq!(netsky(&home, &["channel", "drain", "agent0"]).out, "");
}

#[test]
fn no_tick_waits_for_an_ingest() {
    let home = Home::init();
    let ticker = Ticker::start(&home, &[("NETSKY_FAULT", "ledger.ingest.begun=stop")]);
    let ingest = until("an ingest", || {
        marked("NETSKY_HOME", &ticker.home).expect("seen").into_iter().find(is_stopped)
    });
    let told = ticker.ticks();
    until("three ticks more", || (ticker.ticks() >= told + 3).then_some(()));
    assert!(is_stopped(&ingest), "nobody had to end it for that");
}
