//! `netsky ticker` by itself: nothing that it runs stops its cadence.

use std::fs::{File, read_to_string};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use netsky_disk::clock;
use netsky_disk::process::is_stopped;
use netsky_disk::sweep::{marked, sweep_marked};

use crate::bus_home::Home;
use crate::cron::entry;
use crate::screen::program;

/// Nothing waits this long when all is well.
const LIMIT: Duration = Duration::from_secs(90);

/// One that runs, and is ended with all that it started.
struct Ticker {
    home: String,
    said: PathBuf,
    child: Child,
}

impl Ticker {
    fn start(home: &Home, fault: &str) -> Ticker {
        let said = home.path().with_file_name("said");
        let mut command = program(home, &["ticker", "--tick", "200ms"]);
        let child = command.env("NETSKY_FAULT", fault).stdout(File::create(&said).expect("made")).spawn();
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

#[test]
fn t24_no_tick_of_the_watchdog_waits_for_one_of_cron_or_of_loops_that_hangs() {
    for (kind, fault) in [("cron", "watchdog.cron.sent=stop"), ("loop", "watchdog.loop.sent=stop")] {
        let home = Home::init();
        std::fs::write(home.path().join("cron.toml"), entry("q", "* * * * * *", "")).expect("written");
        crate::screen::netsky(&home, &["loop", "create", "1s", "look"]).works();
        let ticker = Ticker::start(&home, fault);
        let hangs = until("one that hangs", || stopped(&ticker).pop());
        let told = ticker.ticks();
        until("five ticks more", || (ticker.ticks() >= told + 5).then_some(()));
        assert_eq!(stopped(&ticker), [hangs], "{kind}: nobody had to end it for that, and it has no second");
    }
}

#[test]
fn no_tick_waits_for_an_ingest() {
    let home = Home::init();
    let ticker = Ticker::start(&home, "ledger.ingest.begun=stop");
    let ingest = until("an ingest", || {
        marked("NETSKY_HOME", &ticker.home).expect("seen").into_iter().find(is_stopped)
    });
    let told = ticker.ticks();
    until("three ticks more", || (ticker.ticks() >= told + 3).then_some(()));
    assert!(is_stopped(&ingest), "nobody had to end it for that");
}
