//! The record at the command line: facts that outlive deaths, a database that nobody waits for, guarded questions.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use netsky_sim::{Call, Ended, Errno, Fault, Moment, Point};
use rusqlite::Connection;
use serde_json::Value;

use crate::bus_home::{DRAIN, Home};
use crate::errno_points::clear_answer;
use crate::everywhere::{break_everywhere, hit};
use crate::racers::is_output;

/// How long another process holds the database, and how many sends and drains that sees.
const HELD: Duration = Duration::from_secs(60);
const ROUNDS: u32 = 20;

/// A question that may take a second has ended by then, on however busy a machine; it is killed then (124).
const SOON: &str = "30s";

const COUNT: &str = "SELECT source, COUNT(*) AS n FROM messages GROUP BY source";
const FACTS: &str = "SELECT seq, kind, key, data FROM facts ORDER BY seq";
const MAIL: &str =
    "SELECT to_agent, hlc, id, state, attempt, reason FROM envelopes ORDER BY to_agent, hlc, id";

fn send(text: &str) -> Vec<&str> {
    vec!["channel", "send", "agent7", text, "--from", "agent0", "--create"]
}

/// A home with mail that waits, and one envelope that is none.
fn home_with_damage() -> Home {
    let home = Home::init();
    home.netsky(send("first")).expect("sent");
    torn(&home, "00000000000000000042-torn-1.json");
    home
}

/// Puts an envelope into the inbox that is none.
fn torn(home: &Home, name: &str) {
    std::fs::write(home.channel("agent7", "inbox").join(name), b"{\"from\":").expect("writes");
}

fn facts_file(home: &Home, number: u32) -> PathBuf {
    home.path().join(format!("record/facts-{number}.jsonl"))
}

/// The program as a plain process.
fn program(home: &Home, args: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_netsky"));
    program.args(args).env_clear().env("NETSKY_HOME", home.path()).env("HOME", home.path());
    program
}

fn netsky(home: &Home, args: &[&str], fault: &str) -> Output {
    program(home, args).env("NETSKY_FAULT", fault).output().expect("starts")
}

fn answered(home: &Home, question: &str) -> Result<Value> {
    let run = home.netsky(["query", question, "--json"])?;
    let answer: Value = serde_json::from_str(&run.stdout).context("no JSON")?;
    Ok(answer["rows"].clone())
}

/// Facts row for row, and of each envelope its state, attempt and reason.
fn record(home: &Home) -> Result<[Value; 2]> {
    Ok([answered(home, FACTS)?, answered(home, MAIL)?])
}

/// The living record, which a rebuild must equal.
fn equals_a_rebuild(home: &Home) -> Result<[Value; 2]> {
    let living = record(home)?;
    home.netsky(["ledger", "rebuild"])?;
    let rebuilt = record(home)?;
    ensure!(rebuilt == living, "rebuilt {rebuilt:#?}\nliving {living:#?}");
    Ok(living)
}

#[test]
fn t1_a_page_is_synced_before_the_drain_says_what_it_put_aside() {
    let home = home_with_damage();
    let trace = home.stepper(DRAIN).points().expect("a traced run");
    assert_eq!(trace.run.ended, Ended::Exited(7), "{}", trace.run.stderr);
    let points: Vec<_> = trace.points.iter().filter(|point| point.moment == Moment::Exit).collect();
    let record = home.path().join("record");
    let place = |call, file: &PathBuf| {
        points.iter().rposition(|point| point.call == call && point.files.contains(file))
    };
    let named = place(Call::Rename, &facts_file(&home, 1)).expect("a file of facts");
    let synced = points.iter().position(|point| {
        point.call == Call::Sync && point.files.iter().any(|file| file.starts_with(record.join("tmp")))
    });
    assert!(synced.expect("its rows are synced") < named, "before it has its name");
    let folder = place(Call::Sync, &record).expect("its folder is synced");
    let told = points.iter().rposition(|point| is_output(point)).expect("it says so");
    assert!(named < folder && folder < told, "{named} {folder} {told}");

    torn(&home, "00000000000000000043-torn-2.json");
    let trace = home.stepper(DRAIN).points().expect("a traced run");
    let points: Vec<_> = trace.points.iter().filter(|point| point.moment == Moment::Exit).collect();
    let place = |call| {
        points.iter().rposition(|point| point.call == call && point.files.contains(&facts_file(&home, 1)))
    };
    let (written, synced) = (place(Call::Write).expect("a row"), place(Call::Sync).expect("it is synced"));
    let told = points.iter().rposition(|point| is_output(point)).expect("it says so");
    assert!(written < synced && synced < told, "{written} {synced} {told}");
}

#[test]
fn t1_a_second_row_of_a_process_is_said_once_the_name_of_its_file_is_durable() {
    let home = home_with_damage();
    torn(&home, "00000000000000000043-torn-2.json");
    let trace = home.stepper(DRAIN).points().expect("a traced run");
    let points: Vec<_> = trace.points.iter().filter(|point| point.moment == Moment::Exit).collect();
    let (file, record) = (facts_file(&home, 1), home.path().join("record"));
    let row = points.iter().rposition(|point| point.call == Call::Write && point.files.contains(&file));
    let named = points.iter().position(|point| point.call == Call::Rename && point.files.contains(&file));
    let before = &points[named.expect("a file of facts")..row.expect("a second row")];
    let syncs = before.iter().filter(|point| point.call == Call::Sync && point.files.contains(&record));
    assert_eq!(syncs.count(), 2, "whoever wrote it anew may not have come to the first");
}

#[test]
fn fm_owner_page_a_dead_letter_whose_burial_was_cut_short_is_paged_by_the_tick() {
    let home = home_with_damage();
    let killed = netsky(&home, &DRAIN, "bus.poison.renamed=kill");
    assert_eq!(killed.status.code(), None, "{killed:?}");
    assert!(!facts_file(&home, 1).exists(), "it died before it could page");
    // Of a file without a name of the bus nobody is told either.
    std::fs::write(home.channel("agent7", "poison").join("strange"), "x").expect("writes");
    for _ in 0..2 {
        home.netsky(["watchdog", "tick"]).expect("ticks");
    }
    let pages = answered(&home, "SELECT key FROM facts WHERE kind = 'page' ORDER BY key").expect("answers");
    assert_eq!(
        pages,
        serde_json::json!([{ "key": "poison/agent7/strange" }, { "key": "poison/agent7/torn-1" }])
    );
}

#[test]
fn fm_owner_page_eio_a_reason_that_cannot_be_read_now_stays_and_stops_no_page() {
    let home = home_with_damage();
    netsky(&home, &DRAIN, "bus.poison.renamed=kill");
    let reason = home.channel("agent7", "poison").join("00000000000000000042-torn-1.json.reason");
    let before = std::fs::read(&reason).expect("it says why");
    let of_reason = |point: &netsky_sim::Point| point.call == Call::Open && point.files.contains(&reason);
    let tick = home.stepper(["watchdog", "tick"]).fail_when(of_reason, Errno::EIO).expect("a run");
    assert!(tick.hit.is_some(), "{}", tick.run.stderr);
    assert_eq!(std::fs::read(&reason).expect("it stays"), before);
    let pages = answered(&home, "SELECT key FROM facts WHERE kind = 'page'").expect("answers");
    assert_eq!(pages, serde_json::json!([{ "key": "poison/agent7/torn-1" }]));
}

#[test]
fn fm_owner_page_a_repeat_is_as_durable_as_the_first() {
    let home = home_with_damage();
    home.drain().expect("drains");
    torn(&home, "00000000000000000042-torn-1.json");
    // The page is there: it may be a dead drain's, who was killed before its sync, or after one that failed.
    assert_eq!(netsky(&home, &DRAIN, "ledger.facts.renew=error").status.code(), Some(7));
    let logs = std::fs::read_dir(home.path().join("logs")).expect("lists").flatten();
    let texts: String = logs.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    assert!(texts.contains("\"unrecorded\""), "a page that may be lost is said to be there");
}

#[test]
fn fm_owner_page_eio_emfile_a_sealed_file_that_does_not_read_hides_no_page_and_stops_none() {
    let home = home_with_damage();
    home.drain().expect("drains");
    torn(&home, "00000000000000000043-torn-2.json");
    netsky(&home, &DRAIN, "ledger.facts.sync=error");
    assert!(facts_file(&home, 2).exists(), "the first is sealed");
    let under = |errno: Errno, nth: usize| {
        let mut opened = 0;
        let here = |point: &netsky_sim::Point| {
            let is_sealed = |file: &PathBuf| file.ends_with("facts-1.jsonl");
            opened += usize::from(point.call == Call::Open && point.files.iter().any(is_sealed));
            opened == nth
        };
        let outcome = home.stepper(DRAIN).fail_when(here, errno).expect("a run");
        assert!(outcome.hit.is_some(), "{}", outcome.run.stderr);
        let keys =
            answered(&home, "SELECT key FROM facts WHERE kind = 'page' ORDER BY seq").expect("answers");
        let keys = keys.as_array().expect("rows").iter();
        keys.filter_map(|row| row["key"].as_str()?.rsplit('/').next().map(str::to_owned)).collect::<Vec<_>>()
    };
    // The machine's trouble passes: what may be paged already is left to the next look.
    torn(&home, "00000000000000000042-torn-1.json");
    assert_eq!(under(Errno::EMFILE, 1), ["torn-1", "torn-2"]);
    // A bad sector stays: at a process's first page, and at its second, for which it reads everything.
    for (n, nth) in [(3, 1), (5, 2)] {
        for n in [n, n + 1] {
            torn(&home, &format!("0000000000000000004{n}-torn-{n}.json"));
        }
        let all: Vec<String> = (1..=n + 1).map(|n| format!("torn-{n}")).collect();
        assert_eq!(under(Errno::EIO, nth), all);
    }
}

#[test]
fn fm_owner_page_a_page_that_is_not_recorded_is_told_by_the_verb_and_made_by_a_tick() {
    let home = Home::init();
    home.netsky([&send("it dies")[..], &["--id", "doomed"]].concat()).expect("sent");
    let release = ["channel", "release", "agent7", "doomed"];
    for _ in 1..5 {
        home.drain().expect("drains");
        home.netsky(release).expect("released");
    }
    home.drain().expect("drains");
    let lock = home.path().join("record/lock");
    let _ = std::fs::remove_file(&lock);
    std::fs::create_dir_all(&lock).expect("in its place");
    let last = netsky(&home, &release, "");
    let said = String::from_utf8_lossy(&last.stderr).into_owned();
    assert_eq!(last.status.code(), Some(6), "{said}");
    assert!(said.contains("the page of poison/agent7/doomed could not be recorded"), "{said}");
    std::fs::remove_dir(&lock).expect("ours");
    has_pages(&home, 1).expect("the tick pages");
}

#[test]
fn fm_fact_append_eio_a_file_that_cannot_be_synced_is_left_for_a_new_one() {
    let home = home_with_damage();
    assert_eq!(netsky(&home, &DRAIN, "").status.code(), Some(7));
    let before = std::fs::read(facts_file(&home, 1)).expect("reads");
    torn(&home, "00000000000000000043-torn-2.json");
    assert_eq!(netsky(&home, &DRAIN, "ledger.facts.sync=error").status.code(), Some(7));
    assert_eq!(std::fs::read(facts_file(&home, 1)).expect("reads"), before, "the row is not in the old file");
    let rows = std::fs::read_to_string(facts_file(&home, 2)).expect("a new file");
    let keys: Vec<Value> =
        rows.lines().map(|row| serde_json::from_str::<Value>(row).expect("a row")["key"].clone()).collect();
    assert_eq!(keys, ["sealed", "poison/agent7/torn-2"]);
    // A power cut may bring the row back that was never synced: it counts for nothing.
    let void = rows.lines().nth(1).expect("a row").replace("\"seq\":3", "\"seq\":2");
    std::fs::write(facts_file(&home, 1), [&before[..], void.as_bytes(), b"\n"].concat()).expect("writes");
    let status = netsky(&home, &["ledger", "status", "--json"], "");
    assert_eq!(status.status.code(), Some(0), "{}", String::from_utf8_lossy(&status.stderr));
    let asked = answered(&home, "SELECT key FROM facts WHERE kind = 'page' ORDER BY seq").expect("answers");
    assert_eq!(
        asked,
        serde_json::json!([{ "key": "poison/agent7/torn-1" }, { "key": "poison/agent7/torn-2" }])
    );
    // Nor where what says so cannot be read at this moment.
    let second = |point: &netsky_sim::Point| {
        point.call == Call::Open && point.files.iter().any(|file| file.ends_with("facts-2.jsonl"))
    };
    let broken = home.stepper(["ledger", "status"]).fail_when(second, Errno::EIO).expect("a run");
    assert_eq!(broken.run.ended, Ended::Exited(1), "{}{}", broken.run.stdout, broken.run.stderr);
}

#[test]
fn fm_fact_append_kill_every_syscall_of_a_drain_that_pages() {
    let template = home_with_damage();
    let points =
        break_everywhere("fact append", Fault::Kill, &template, &DRAIN, |home, _| has_pages(home, 1));
    hit(&points, Call::Sync, "/record", 4);
}

#[test]
fn fm_fact_append_kill_every_syscall_of_a_drain_that_pages_behind_another() {
    let template = home_with_damage();
    template.drain().expect("drains");
    torn(&template, "00000000000000000043-torn-2.json");
    let points =
        break_everywhere("later fact append", Fault::Kill, &template, &DRAIN, |home, _| has_pages(home, 2));
    hit(&points, Call::Rename, "facts-1.jsonl", 2);
    hit(&points, Call::Sync, "/record", 4);
}

/// Every dead letter has one page once a drain and a tick came after a drain that was killed.
fn has_pages(home: &Home, count: usize) -> Result<()> {
    home.drain()?;
    home.netsky(["watchdog", "tick"])?;
    let status = netsky(home, &["ledger", "status"], "");
    ensure!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let [facts, _] = equals_a_rebuild(home)?;
    let pages = facts.as_array().context("rows")?.iter().filter(|fact| fact["kind"] == "page");
    ensure!(pages.count() == count, "a dead letter has one page: {facts}");
    Ok(())
}

#[test]
fn fm_ingest_kill_every_syscall() {
    let template = home_with_damage();
    template.drain().expect("drains");
    template.netsky(send("second")).expect("sent");
    let points = break_everywhere("ingest", Fault::Kill, &template, &["ledger", "ingest"], |home, _| {
        let status = netsky(home, &["ledger", "status"], "");
        ensure!(status.status.success(), "status: {}", String::from_utf8_lossy(&status.stderr));
        let [facts, mail] = equals_a_rebuild(home)?;
        let counts = [&facts, &mail].map(|rows| rows.as_array().map_or(0, Vec::len));
        ensure!(counts == [1, 3], "{counts:?}");
        let twice = "SELECT src, pos FROM envelope_events GROUP BY src, pos HAVING count(*) > 1";
        ensure!(answered(home, twice)? == serde_json::json!([]), "a line is in twice");
        Ok(())
    });
    hit(&points, Call::Write, "meta.db", 4);
}

#[test]
fn fm_rebuild_kill_every_syscall() {
    let template = home_with_damage();
    template.netsky(["ledger", "ingest"]).expect("there is a database");
    // As long as somebody has it open, what is new is in its log alone.
    let held = Connection::open(template.path().join("meta.db")).expect("opens");
    held.query_row("SELECT count(*) FROM envelopes", [], |row| row.get::<_, i64>(0)).expect("answers");
    template.drain().expect("drains");
    template.netsky(send("second")).expect("sent");
    let before = record(&template).expect("answers");
    let rebuild = ["ledger", "rebuild"];
    let points = break_everywhere("rebuild", Fault::Kill, &template, &rebuild, |home, _| {
        // Read without an ingest, as others may at this moment. There is none for as long as it takes to give the next one
        // its name, and that one is whole by then.
        let [now, next] = ["meta.db", "meta.db.new"].map(|name| home.path().join(name));
        let whole = if now.exists() { now } else { next };
        ensure!(whole.exists(), "neither the one that answered nor another");
        let db = Connection::open(whole)?;
        let there: i64 = db.query_row("SELECT count(*) FROM envelopes", [], |row| row.get(0))?;
        ensure!(there == before[1].as_array().map_or(0, Vec::len) as i64, "{there} envelopes are left");
        drop(db);
        ensure!(record(home)? == before, "it is another record");
        let left = std::fs::read_dir(home.path())?.filter_map(Result::ok).map(|entry| entry.file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains(".new")).collect();
        ensure!(left.is_empty(), "left behind: {left:?}");
        Ok(())
    });
    hit(&points, Call::Rename, "meta.db.new", 2);
}

#[test]
fn fm_ingest_enospc_a_database_without_tables_is_none_yet() {
    let home = Home::init();
    home.netsky(send("first")).expect("sent");
    let db = Connection::open(home.path().join("meta.db")).expect("opens");
    // As an ingest leaves it that had room for this and no more.
    db.pragma_update(None, "journal_mode", "WAL").expect("set");
    drop(db);
    let status = netsky(&home, &["ledger", "status"], "");
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.success() && said.contains("no database yet"), "{said}");
    let full = |point: &netsky_sim::Point| {
        point.call == Call::Write && point.files.iter().any(|file| file.to_string_lossy().contains("meta.db"))
    };
    let query = home.stepper(["query", COUNT]).fail_when(full, Errno::ENOSPC).expect("a run");
    assert_eq!(query.run.ended, Ended::Exited(5), "{}", query.run.stderr);
    assert!(
        query.run.stderr.contains("there is no database yet, and none could be made"),
        "{}",
        query.run.stderr
    );
    equals_a_rebuild(&home).expect("equal");
}

#[test]
fn fm_rebuild_enospc_every_syscall() {
    let template = home_with_damage();
    template.drain().expect("drains");
    let before = record(&template).expect("answers");
    let rebuild = ["ledger", "rebuild"];
    break_everywhere("rebuild, ENOSPC", Fault::Fail(Errno::ENOSPC), &template, &rebuild, |home, outcome| {
        let done = clear_answer(outcome, Errno::ENOSPC)?;
        let query = netsky(home, &["query", "SELECT count(*) AS n FROM envelopes", "--csv"], "");
        ensure!(query.status.success(), "done {done}: {}", String::from_utf8_lossy(&query.stderr));
        // What could not be read then is asked for again.
        ensure!(record(home)? == before, "it is another record");
        let unread = answered(home, "SELECT why FROM source_errors WHERE why LIKE '%No space left%'")?;
        ensure!(unread == serde_json::json!([]), "listed for good: {unread}");
        Ok(())
    });
}

#[test]
fn fm_ingest_eio_a_file_of_refused_rows_that_cannot_be_synced_stops_nothing_and_is_read_again() {
    let home = home_with_damage();
    home.drain().expect("drains");
    std::fs::write(home.path().join("logs/meta-db-errors-2026-01-01.jsonl"), "no row\n").expect("writes");
    let count = ["query", "SELECT count(*) FROM envelopes", "--csv"];
    let unbroken = home.copy().netsky(count).expect("answers").stdout;
    let is_sync = |point: &Point| {
        let of_it = |file: &PathBuf| file.to_string_lossy().contains("meta-db-errors");
        point.call == Call::Sync && point.moment == Moment::Entry && point.files.iter().any(of_it)
    };
    let outcome = home.stepper(count).break_when(is_sync, Fault::Fail(Errno::EIO)).expect("runs");
    assert!(outcome.hit.is_some(), "it is never synced");
    assert_eq!(outcome.run.stdout, unbroken, "{}", outcome.run.stderr);
    assert_eq!(outcome.run.ended, Ended::Exited(0), "{}", outcome.run.stderr);
    // The same run came to it once more, and the sync was made then.
    let listed = "SELECT why FROM source_errors WHERE file LIKE '%meta-db-errors%'";
    assert_eq!(answered(&home, listed).expect("answers"), serde_json::json!([]));
    let read = "SELECT pos FROM sources WHERE name LIKE '%meta-db-errors%'";
    assert_eq!(answered(&home, read).expect("answers"), serde_json::json!([{"pos": "no row\n".len()}]));
}

#[test]
fn must_show_4_no_send_and_no_drain_touches_the_database() {
    let home = Home::init();
    home.netsky(send("first")).expect("sent");
    home.netsky(["query", COUNT]).expect("there is a database");
    let wait = ["channel", "wait", "agent7"];
    let runs: [&[&str]; 4] = [&send("second"), &wait, &DRAIN, &["channel", "list", "agent7"]];
    for args in runs {
        let trace = home.stepper(args.iter().copied()).points().expect("a traced run");
        assert_eq!(trace.run.ended, Ended::Exited(0), "{}", trace.run.stderr);
        let touches = |file: &PathBuf| file.to_string_lossy().contains("meta.db");
        let touched: Vec<_> = trace.points.iter().filter(|point| point.files.iter().any(touches)).collect();
        assert!(touched.is_empty(), "{args:?}: {touched:#?}");
    }
}

#[test]
fn must_show_4_while_another_process_holds_the_database_for_a_minute_mail_goes_on() {
    let home = Home::init();
    home.netsky(send("first")).expect("sent");
    home.netsky(["query", COUNT]).expect("there is a database");
    let db = Connection::open(home.path().join("meta.db")).expect("opens");
    db.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM about").expect("held");
    let began = Instant::now();
    let free = Home::init();
    let took = |home: &Home, args: &[&str]| {
        let began = Instant::now();
        assert!(netsky(home, args, "").status.success());
        began.elapsed()
    };
    let (mut sends, mut drains) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        sends.push([&home, &free].map(|home| took(home, &send(&format!("round {round}")))));
        drains.push([&home, &free].map(|home| took(home, &DRAIN)));
        netsky_disk::clock::pause((HELD * (round + 1) / ROUNDS).saturating_sub(began.elapsed()));
    }
    // A verb that tried the database at all would wait seconds for it, each time.
    for mut took in [sends, drains] {
        took.sort_by_key(|[locked, free]| locked.saturating_sub(*free));
        let [locked, free] = took[took.len() / 2];
        assert!(locked < free * 3 + Duration::from_millis(100), "{took:?}");
    }
    let refused = netsky(&home, &["query", COUNT], "");
    assert_eq!(refused.status.code(), Some(5), "{}", String::from_utf8_lossy(&refused.stderr));
    let ingest = netsky(&home, &["ledger", "ingest"], "");
    assert_eq!(ingest.status.code(), Some(5), "{}", String::from_utf8_lossy(&ingest.stderr));
    db.execute_batch("ROLLBACK").expect("let go");
    drop(db);
    let [_, mail] = equals_a_rebuild(&home).expect("equal");
    assert_eq!(mail.as_array().expect("rows").len(), 1 + ROUNDS as usize);
}

#[test]
fn must_show_4_a_damaged_database_is_made_anew_and_said_in_one_line() {
    let home = Home::init();
    home.netsky(send("first")).expect("sent");
    home.netsky(["query", COUNT]).expect("there is a database");
    std::fs::write(home.path().join("meta.db"), vec![0xa5; 10_000]).expect("garbage");
    home.netsky(send("second")).expect("sends go on");
    assert_eq!(netsky(&home, &["ledger", "status"], "").status.code(), Some(7));
    let answer = netsky(&home, &["query", COUNT, "--csv"], "");
    assert_eq!(answer.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "source,n\nagent,2\n");
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(said.lines().count() == 1 && said.contains("meta.db.damaged-1"), "{said}");
    assert!(home.path().join("meta.db.damaged-1").exists());
    // Whatever is wrong with the question.
    std::fs::write(home.path().join("meta.db"), vec![0xa5; 10_000]).expect("garbage");
    let answer = netsky(&home, &["query", "SELECT nope FROM messages"], "");
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(said.contains("meta.db.damaged-2") && said.contains("no such column"), "{said}");
    assert_eq!(answer.status.code(), Some(2));
    // And wherever its answer goes.
    std::fs::write(home.path().join("meta.db"), vec![0xa5; 10_000]).expect("garbage");
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let answer = program(&home, &["query", COUNT]).stdout(full).output().expect("starts");
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(said.contains("meta.db.damaged-3") && said.contains("No space left on device"), "{said}");
    std::fs::remove_file(home.path().join("meta.db")).expect("deleted");
    equals_a_rebuild(&home).expect("equal");
}

#[test]
fn a5_a_pipe_in_place_of_the_database_is_named_and_nobody_waits_for_it() {
    let home = Home::init();
    home.netsky(send("first")).expect("sent");
    let path = home.path().join("meta.db");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("made");
    // Held open, so that whoever opens it all the same does not hang this test.
    let _held = std::fs::File::options().read(true).write(true).open(&path).expect("opens");
    for verb in [&["query", COUNT][..], &["ledger", "status"]] {
        let answer = netsky(&home, verb, "");
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(
            said.lines().count() == 1 && said.contains("no plain file; `netsky ledger rebuild`"),
            "{said}"
        );
        assert_eq!(answer.status.code(), Some(1), "{verb:?}");
    }
    home.netsky(["ledger", "rebuild"]).expect("as it was told");
    let answer = netsky(&home, &["query", COUNT, "--csv"], "");
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "source,n\nagent,1\n");
}

#[test]
fn a5_a_folder_in_place_of_the_database_is_set_aside_whole() {
    let home = Home::init();
    home.netsky(send("first")).expect("sent");
    let path = home.path().join("meta.db");
    std::fs::create_dir(&path).expect("made");
    std::fs::write(path.join("somebodys"), "work").expect("written");
    assert_eq!(netsky(&home, &["query", COUNT], "").status.code(), Some(1));
    home.netsky(["ledger", "rebuild"]).expect("as it was told");
    let answer = netsky(&home, &["query", COUNT, "--csv"], "");
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "source,n\nagent,1\n");
    let entries = std::fs::read_dir(home.path()).expect("a folder").map(|entry| entry.expect("one").path());
    let aside = entries.filter(|path| path.to_string_lossy().contains("meta.db.damaged-"));
    let kept: Vec<_> =
        aside.map(|aside| std::fs::read_to_string(aside.join("somebodys")).expect("kept")).collect();
    assert_eq!(kept, ["work"]);
}

#[test]
fn a15_a10_an_answer_drives_no_terminal_and_a_refusal_names_what_may_be_asked() {
    let home = Home::init();
    home.netsky(send("red \u{1b}[31m and bell \u{7}\u{9b}")).expect("sent");
    for form in [&[][..], &["--csv"], &["--json"]] {
        let run = home.netsky([&["query", "SELECT body FROM messages"], form].concat()).expect("answers");
        let bad = |c: char| c.is_control() && c != '\n';
        assert!(run.stdout.contains("red") && !run.stdout.contains(bad), "{:?}", run.stdout);
    }
    for (question, code, says) in [
        ("SELECT nope FROM facts", 2, "envelopes, facts, harvest_events, messages"),
        ("DELETE FROM facts", 4, "refused"),
        ("ATTACH 'x' AS y", 4, "another database"),
        ("SELECT load_extension('x')", 4, "load_extension"),
        ("SELECT 1; SELECT 2", 2, "Multiple statements"),
        (" ; ", 2, "empty"),
    ] {
        let refused = netsky(&home, &["query", question], "");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(code), "{question}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{question}: {said}");
    }
    let cut = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 9) SELECT x FROM n";
    let cut = netsky(&home, &["query", cut, "--limit", "2"], "");
    assert_eq!((cut.status.code(), cut.stdout.as_slice()), (Some(6), &b"X\n1\n2\n"[..]));
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    assert_eq!(netsky(&home, &["query", endless, "--timeout", "1s"], "").status.code(), Some(5));
}

#[test]
fn a_backup_is_whole_and_never_written_over() {
    let home = home_with_damage();
    home.drain().expect("drains");
    home.netsky(["query", COUNT]).expect("there is a database");
    let copy = home.path().join("../copy");
    let to = copy.to_str().expect("text");
    home.netsky(["ledger", "backup", to]).expect("copied");
    for file in ["facts-1.jsonl", "meta.db", "backup.json"] {
        assert!(copy.join(file).is_file(), "{file}");
    }
    let db = Connection::open(copy.join("meta.db")).expect("opens");
    let rows: u64 = db.query_row("SELECT count(*) FROM facts", [], |row| row.get(0)).expect("answers");
    assert_eq!(rows, 1);
    assert_eq!(netsky(&home, &["ledger", "backup", to], "").status.code(), Some(2));
}

#[test]
fn a15_a_question_that_is_at_work_in_one_function_is_ended_too() {
    let home = Home::init();
    home.netsky(["query", COUNT]).expect("there is a database");
    // Each takes minutes, in calls between which SQLite does not look whether it is to end.
    let find = "(printf('%.*c', 4000000, 'a'), printf('%.*c', 2000000, 'a') || 'b'";
    let like = format!("printf('%.*c', 16000000, 'a') LIKE '%{}b'", "a".repeat(990));
    let short =
        |n| format!("instr(printf('%.*c', {}, 'a'), printf('%.*c', 250000, 'a') || 'b')", 500_000 + n);
    let row = (0..200).map(short).collect::<Vec<String>>().join(", ");
    for (what, question) in [
        ("instr", format!("SELECT instr{find})")),
        ("replace", format!("SELECT length(replace{find}, 'x'))")),
        ("LIKE", format!("SELECT {}", [like.as_str(); 6].join(", "))),
        ("a row of short ones", format!("SELECT {row}")),
    ] {
        let refused = Command::new("timeout")
            .args([SOON, env!("CARGO_BIN_EXE_netsky"), "query", &question, "--timeout", "1s"])
            .env("NETSKY_HOME", home.path())
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(5), "{what}: {said}");
        assert!(said.contains("takes longer than 1s") && said.lines().count() == 1, "{what}: {said}");
    }
}
