//! What a user meets who looks after the record: somebody at work in it, damage with its way out, folders where files
//! should be.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use netsky_disk::lock::Lock;
use netsky_sim::{Call, Ended, Errno};
use rusqlite::Connection;
use serde_json::json;

use crate::bus_home::{DRAIN, Home};

fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netsky"));
    command.args(args).env_clear().env("NETSKY_HOME", home.path()).env("HOME", home.path());
    command
}

fn netsky(home: &Home, args: &[&str]) -> Output {
    command(home, args).output().expect("starts")
}

/// Its exit code, and all that it said.
fn answer(home: &Home, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = netsky(home, args);
    (status.code(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

fn home_with_mail() -> Home {
    let home = Home::init();
    home.netsky(["channel", "send", "agent7", "hello", "--from", "agent0", "--create"]).expect("sent");
    home
}

/// Puts an envelope into the inbox that is none, and has it put aside with a page.
fn page(home: &Home, n: u32) {
    let torn = home.channel("agent7", "inbox").join(format!("0000000000000000004{n}-torn-{n}.json"));
    std::fs::write(torn, b"{\"from\":").expect("writes");
    assert_eq!(netsky(home, &DRAIN).status.code(), Some(7));
}

fn facts(home: &Home) -> PathBuf {
    home.path().join("record/facts-1.jsonl")
}

#[test]
fn fm_ingest_late_a_rebuild_says_at_once_for_whom_it_waits_and_gives_up_in_time() {
    let home = home_with_mail();
    let path = home.path().join("record/ingest.lock");
    let mut lock = Lock::try_take(&path).expect("opens").expect("free");
    let me = std::process::id();
    lock.note(&json!({ "process": me, "ended": false })).expect("noted");
    let (code, said) = answer(&home, &["ledger", "rebuild", "--wait", "200ms"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((code, lines.len()), (Some(5), 2), "{said}");
    assert_eq!(lines[0], format!("netsky: waiting for another ingest (process {me}), 0.2 s at most"));
    assert!(lines[1].contains(&format!("(process {me}) is at work; repeat when it has ended")), "{said}");

    let mut rebuild = command(&home, &["ledger", "rebuild"]);
    let mut rebuild: Child = rebuild.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut first = String::new();
    BufReader::new(rebuild.stderr.take().expect("piped")).read_line(&mut first).expect("said");
    assert!(first.contains("60 s at most"), "{first}");
    drop(lock);
    assert!(rebuild.wait().expect("ends").success());
}

#[test]
fn t14_a_file_of_facts_without_a_row_is_told_everywhere_with_the_way_out_which_works() {
    for content in ["", "{\"v\":1,\"seq\":1,\"ts"] {
        let home = home_with_mail();
        page(&home, 1);
        std::fs::write(facts(&home), content).expect("writes");
        for verb in [&["ledger", "status"][..], &["check"]] {
            let (code, said) = answer(&home, verb);
            assert_eq!(code, Some(7), "{verb:?}: {said}");
            assert!(
                said.contains("no whole row") && said.contains("moved out of record/"),
                "{verb:?}: {said}"
            );
        }
        page(&home, 2);
        assert_eq!(std::fs::read_to_string(facts(&home)).expect("there"), content, "it is as it was");
        std::fs::rename(facts(&home), home.path().join("../aside")).expect("as it was told");
        home.netsky(["watchdog", "tick"]).expect("pages again");
        for verb in [&["ledger", "status"][..], &["check"]] {
            let (code, said) = answer(&home, verb);
            assert_eq!(code, Some(0), "{verb:?}: {said}");
        }
        let (_, pages) = answer(&home, &["query", "SELECT key FROM facts ORDER BY key", "--csv"]);
        assert_eq!(pages, "key\npoison/agent7/torn-1\npoison/agent7/torn-2\n");
    }
}

#[test]
fn a5_a_folder_in_place_of_a_file_of_lines_or_facts_is_a_finding_and_the_rest_is_looked_at() {
    let home = home_with_mail();
    page(&home, 1);
    home.netsky(["query", "SELECT 1"]).expect("there is a database");
    let logs = std::fs::read_dir(home.path().join("logs")).expect("lists").flatten();
    let lines: Vec<PathBuf> = logs.map(|file| file.path()).filter(|path| path.is_file()).collect();
    let [lines] = lines.as_slice() else { panic!("one file of lines: {lines:?}") };
    for file in [lines, &facts(&home)] {
        let before = std::fs::read(file).expect("reads");
        std::fs::remove_file(file).expect("goes");
        std::fs::create_dir(file).expect("made");
        let name = file.file_name().and_then(|name| name.to_str()).expect("text");
        let (code, said) = answer(&home, &["check"]);
        assert_eq!(code, Some(7), "{said}");
        assert!(said.contains(name) && said.contains("cannot be read: not a regular file"), "{said}");
        assert!(["I1", "I2", "I5", "I11"].iter().all(|id| said.contains(id)), "{said}");
        let listed =
            ["query", "SELECT file, pos, why FROM source_errors WHERE file NOT GLOB 'channels*'", "--csv"];
        let (code, living) = answer(&home, &listed);
        assert_eq!(code, Some(0), "{living}");
        assert!(living.contains(name) && living.contains("cannot be read"), "{living}");
        let (code, said) = answer(&home, &["ledger", "rebuild"]);
        let lacks = said.contains("netsky: lines are missing from the record: failed to open ")
            && said.ends_with("; they come in once it opens (table source_errors)\n");
        assert_eq!((code == Some(6), lacks), (file == lines, file == lines), "{said}");
        assert_eq!(answer(&home, &listed), (Some(0), living));
        std::fs::remove_dir(file).expect("goes");
        std::fs::write(file, before).expect("restored");
        assert_eq!(answer(&home, &listed), (Some(0), "file,pos,why\n".to_owned()));
        assert_eq!(answer(&home, &["check"]).0, Some(0));
    }
}

#[test]
fn a_backup_into_its_own_home_is_refused_by_whatever_way_it_leads_there() {
    let home = home_with_mail();
    let outside = home.path().join("..");
    symlink(home.path().join("channels"), outside.join("link")).expect("made");
    let below = home.path().join("channels/agent/copy");
    let inside = [
        home.path().join("copy"),
        below.clone(),
        home.path().join("new/folders/copy"),
        outside.join("link/agent/copy"),
        home.path().join("channels/../logs/copy"),
    ];
    for to in inside {
        let (code, said) = answer(&home, &["ledger", "backup", to.to_str().expect("text")]);
        assert_eq!(code, Some(2), "{}: {said}", to.display());
        assert!(said.contains("name a folder outside the home"), "{said}");
        assert!(!to.exists() && !home.path().join("new").exists());
    }
    let (code, said) = answer(&home, &["ledger", "backup", outside.join("new/copy").to_str().expect("text")]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = answer(&home, &["ledger", "backup", outside.join("new/copy").to_str().expect("text")]);
    assert!(code == Some(2) && said.contains("name one that is not there yet"), "{code:?}: {said}");
}

/// Elsewhere the stepper cannot yet make a call fail.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_database_that_may_not_be_written_is_told_with_what_it_wants() {
    use netsky_sim::{Call, Errno};
    let home = home_with_mail();
    home.netsky(["query", "SELECT 1"]).expect("there is a database");
    for (verb, code) in [(&["query", "SELECT 1"][..], 6), (&["ledger", "ingest"], 4)] {
        let is_opened = |point: &netsky_sim::Point| {
            point.call == Call::Open && point.files.iter().any(|file| file.ends_with("meta.db"))
        };
        let run = home.stepper(verb.iter().copied()).fail_when(is_opened, Errno::EACCES).expect("runs").run;
        assert_eq!(run.ended, netsky_sim::Ended::Exited(code), "{}", run.stderr);
        assert!(run.stderr.contains("readonly") && run.stderr.contains("`chmod u+w`"), "{}", run.stderr);
    }
}

/// Takes a row off a page of a table that is one page, so that nobody meets it who does not look at the page as a whole.
fn take_a_row_off(home: &Home, table: &str) {
    let (header, mut bytes) = page_of(home, table);
    assert_eq!(bytes[header], 0x0d, "a leaf");
    bytes[header + 4] -= 1;
    std::fs::write(home.path().join("meta.db"), bytes).expect("writes");
}

const SAYINGS: [&str; 3] = ["query", "SELECT count(*) AS n FROM bodies", "--csv"];

#[test]
fn must_show_4_damage_that_a_status_finds_is_mended_by_the_next_query() {
    let home = home_with_mail();
    assert_eq!(answer(&home, &SAYINGS), (Some(0), "n\n1\n".to_owned()));
    take_a_row_off(&home, "bodies");
    assert_eq!(answer(&home, &SAYINGS), (Some(0), "n\n0\n".to_owned()), "nobody has looked yet");
    let copy = home.path().with_file_name("copy");
    let (code, said) = answer(&home, &["ledger", "backup", copy.to_str().expect("text")]);
    assert!(code == Some(7) && !copy.exists(), "no backup is made of it: {said}");
    let (code, said) = answer(&home, &["ledger", "status"]);
    assert!(code == Some(7) && said.contains("the next `netsky query` makes it anew"), "{said}");
    let (code, said) = answer(&home, &SAYINGS);
    assert!(code == Some(7) && said.starts_with("n\n1\n"), "{said}");
    assert_eq!(answer(&home, &["ledger", "status"]).0, Some(0));
}

/// Elsewhere the stepper cannot yet make a call fail.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_the_record_is_made_of_and_does_not_open_is_told_by_its_name() {
    let home = home_with_mail();
    let count = ["query", "SELECT count(*) AS n FROM envelopes", "--csv"];
    assert_eq!(answer(&home, &count), (Some(0), "n\n1\n".to_owned()));
    let is_opened = |point: &netsky_sim::Point| {
        point.call == Call::Open && point.files.iter().any(|file| file.ends_with("logs"))
    };
    let run = home.stepper(count).fail_when(is_opened, Errno::EACCES).expect("runs").run;
    assert_eq!((run.ended, &*run.stdout), (Ended::Exited(6), "n\n1\n"), "{}", run.stderr);
    let logs = home.path().join("logs");
    let way = format!("{} must be yours", logs.display());
    assert!(run.stderr.contains(&way) && !run.stderr.contains("meta.db"), "{}", run.stderr);

    let inbox = home.channel("agent7", "inbox");
    let aside = inbox.with_extension("aside");
    std::fs::rename(&inbox, &aside).expect("moves");
    std::fs::write(&inbox, "no folder").expect("writes");
    for verb in [&count[..], &["ledger", "ingest"], &["ledger", "rebuild"]] {
        let (code, said) = answer(&home, verb);
        assert!(code == Some(6) && said.contains(inbox.to_str().expect("text")), "{verb:?}: {code:?} {said}");
    }
    std::fs::remove_file(&inbox).expect("goes");
    std::fs::rename(&aside, &inbox).expect("moves back");
    assert_eq!(answer(&home, &count), (Some(0), "n\n1\n".to_owned()));
}

/// Where a page of the database begins in its file, and the file; the page of a table or an index that has no other.
fn page_of(home: &Home, name: &str) -> (usize, Vec<u8>) {
    let path = home.path().join("meta.db");
    let db = Connection::open(&path).expect("opens");
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: usize = db.query_row(root, [name], |row| row.get(0)).expect("there is one");
    drop(db);
    ((page - 1) * 4096, std::fs::read(&path).expect("reads"))
}

#[test]
fn must_show_4_damage_that_a_question_meets_is_mended_and_the_question_answered() {
    let by_index = ["query", "SELECT source, count(*) AS n FROM envelopes GROUP BY source", "--csv"];
    for (name, question, answered) in
        [("bodies", SAYINGS, "n\n1\n"), ("envelopes_by_source", by_index, "source,n\nagent,1\n")]
    {
        let home = home_with_mail();
        assert_eq!(answer(&home, &question), (Some(0), answered.to_owned()));
        let (page, mut bytes) = page_of(&home, name);
        match bytes[page] {
            // A page of a table that is none.
            0x0d => bytes[page] = 0x77,
            // An entry of an index that says to be longer than it is: nothing that is wrong with the page as a page.
            _ => {
                let entry = page + usize::from(bytes[page + 8]) * 256 + usize::from(bytes[page + 9]);
                bytes[entry + 1] = 0x7f;
            }
        }
        std::fs::write(home.path().join("meta.db"), bytes).expect("writes");
        let met = netsky(&home, &question);
        let said = String::from_utf8_lossy(&met.stderr);
        assert_eq!(
            (met.status.code(), &*String::from_utf8_lossy(&met.stdout)),
            (Some(7), answered),
            "{said}"
        );
        assert!(said.lines().count() == 1 && said.contains("meta.db.damaged-1"), "{name}: {said}");
        assert_eq!(answer(&home, &question), (Some(0), answered.to_owned()), "{name}");
    }
}

#[test]
fn must_show_4_a_database_of_sqlite_that_has_other_tables_than_ours_is_made_again() {
    for tables in [
        "CREATE TABLE envelopes (x)",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 1; CREATE TABLE envelopes (x)",
    ] {
        let home = home_with_mail();
        let db = Connection::open(home.path().join("meta.db")).expect("opens");
        db.execute_batch(tables).expect("made");
        drop(db);
        let (code, said) = answer(&home, &SAYINGS);
        assert!(code == Some(7) && said.starts_with("n\n1\n"), "{tables}: {code:?} {said}");
        assert_eq!(answer(&home, &SAYINGS).0, Some(0), "{tables}");
    }
    // One that was in use; that a view tells something else is seen before it is asked.
    let home = home_with_mail();
    assert_eq!(answer(&home, &SAYINGS).0, Some(0));
    let db = Connection::open(home.path().join("meta.db")).expect("opens");
    db.execute_batch("DROP VIEW pages; CREATE VIEW pages AS SELECT 1 AS seq").expect("changed");
    drop(db);
    let (code, said) = answer(&home, &["ledger", "status"]);
    assert!(code == Some(7) && said.contains("meta.db is damaged"), "{code:?} {said}");
    let (code, said) = answer(&home, &SAYINGS);
    assert!(code == Some(7) && said.starts_with("n\n1\n"), "{code:?} {said}");
    assert_eq!(answer(&home, &["ledger", "status"]).0, Some(0));
}

#[test]
fn a24_a_backup_that_failed_can_be_made_again() {
    let home = home_with_mail();
    let copy = home.path().with_file_name("copy");
    let backup = ["ledger", "backup", copy.to_str().expect("text")];
    let last = |point: &netsky_sim::Point| {
        point.call == Call::Rename && point.files.iter().any(|file| file.ends_with("backup.json"))
    };
    let failed = home.stepper(backup).fail_when(last, Errno::ENOSPC).expect("a run");
    assert_eq!(failed.run.ended, Ended::Exited(5), "{}", failed.run.stderr);
    assert_eq!(std::fs::read_dir(&copy).expect("a folder").count(), 0, "what is not whole is removed");
    assert_eq!(answer(&home, &backup).0, Some(0));
}

#[test]
fn a24_two_backups_at_once_in_one_folder_do_not_mix() {
    let home = home_with_mail();
    page(&home, 1);
    let copy = home.path().with_file_name("copy");
    let backup = ["ledger", "backup", copy.to_str().expect("text")];
    for made in ["copy", "copy/tmp"] {
        let mut first = None;
        // Just before the second makes it, the first does all of its work.
        let here = |point: &netsky_sim::Point| {
            if first.is_none()
                && point.call == Call::Mkdir
                && point.files.iter().any(|file| file.ends_with(made))
            {
                first = Some(answer(&home, &backup));
            }
            false
        };
        let second = home.stepper(backup).fail_when(here, Errno::EIO).expect("a run").run;
        assert_eq!(first.expect("it comes there").0, Some(0));
        assert_eq!(second.ended, Ended::Exited(2), "{}", second.stderr);
        assert!(
            second.stderr.lines().count() == 1 && second.stderr.contains("there already"),
            "{}",
            second.stderr
        );
        for file in ["facts-1.jsonl", "backup.json"] {
            assert!(copy.join(file).is_file(), "{made}: {file}");
        }
        std::fs::remove_dir_all(&copy).expect("goes");
    }
}

#[test]
fn t14_a_backup_of_damaged_facts_is_made_and_tells_where() {
    let home = home_with_mail();
    page(&home, 1);
    let whole = std::fs::read_to_string(facts(&home)).expect("reads");
    std::fs::write(facts(&home), whole.replace("poison", "poisin")).expect("writes");
    let copy = home.path().with_file_name("copy");
    let backup = ["ledger", "backup", copy.to_str().expect("text")];
    let (code, said) = answer(&home, &backup);
    assert!(code == Some(7) && said.contains("record/facts-1.jsonl is damaged: line 1"), "{code:?} {said}");
    assert!(copy.join("backup.json").is_file() && said.starts_with("copied"), "{said}");
    std::fs::remove_dir_all(&copy).expect("goes");
    std::fs::remove_file(facts(&home)).expect("goes");
    std::fs::create_dir(facts(&home)).expect("made");
    let (code, said) = answer(&home, &backup);
    let read = format!("failed to read {}: not a regular file, move it away", facts(&home).display());
    assert!(code == Some(1) && said.contains(&read), "{code:?} {said}");
}

#[test]
fn a5_a_pipe_in_place_of_a_file_of_lines_is_listed() {
    let home = home_with_mail();
    let logs = std::fs::read_dir(home.path().join("logs")).expect("lists").flatten();
    let telemetry = logs.map(|file| file.path()).find(|path| path.to_string_lossy().contains("telemetry-"));
    let telemetry = telemetry.expect("lines");
    std::fs::remove_file(&telemetry).expect("there");
    rustix::fs::mkfifoat(rustix::fs::CWD, &telemetry, rustix::fs::Mode::RWXU).expect("made");
    let (_, said) = answer(&home, &["query", "SELECT why FROM source_errors", "--csv"]);
    assert!(said.contains("not a regular file"), "{said}");
}

#[test]
fn a15_must_show_4_a_question_that_met_damage_and_is_ended_after_it_tells_of_both() {
    let home = home_with_mail();
    assert_eq!(answer(&home, &SAYINGS).0, Some(0));
    let (page, mut bytes) = page_of(&home, "bodies");
    bytes[page] = 0x77;
    std::fs::write(home.path().join("meta.db"), bytes).expect("writes");
    // The damage first: what takes minutes wants its answer.
    let long = "WITH met AS (SELECT count(*) AS n FROM bodies) SELECT instr(printf('%.*c', 4000000 + n, 'a'), \
                printf('%.*c', 2000000, 'a') || 'b') FROM met";
    let (code, said) = answer(&home, &["query", long, "--timeout", "1s"]);
    assert!(
        code == Some(5) && said.contains("meta.db.damaged-1") && said.contains("takes longer than 1s"),
        "{said}"
    );
}
