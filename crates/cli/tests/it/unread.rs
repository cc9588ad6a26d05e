//! Mail that the machine would not give when it was met: one more question, and the record has it.

use netsky_disk::clock;
use netsky_disk::fs::Dir;
use netsky_sim::{Call, Ended, Errno};
use serde_json::{Value, json};

use crate::bus_home::{FOLDERS, Home};

const WHOLE: &str =
    "SELECT e.id, state, bytes, reason, body FROM envelopes e LEFT JOIN bodies ON envelope = n
                     ORDER BY e.id";
const ERRORS: &str = "SELECT file, why FROM source_errors";

/// A letter in the inbox and a dead one, in folders of which it can be told that nothing has touched them since.
fn home() -> Home {
    let home = Home::init();
    let torn = "00000000000000000042-torn-1.json";
    home.netsky(["channel", "send", "agent7", "first", "--from", "agent0", "--create"]).expect("sent");
    std::fs::write(home.channel("agent7", "inbox").join(torn), b"{\"from\":").expect("writes");
    home.drain().expect("drains");
    home.netsky(["channel", "send", "agent7", "second", "--from", "agent0"]).expect("sent");
    home
}

fn settle(home: &Home) {
    let untold = |folder: &&str| {
        let dir = Dir::open(home.channel("agent7", folder)).expect("there");
        dir.version().expect("looked at").is_none()
    };
    while FOLDERS.iter().any(untold) {
        clock::pause(std::time::Duration::from_millis(20));
    }
}

fn answered(home: &Home, question: &str) -> Value {
    let run = home.netsky(["query", question, "--json"]).expect("answers");
    serde_json::from_str::<Value>(&run.stdout).expect("JSON")["rows"].clone()
}

/// Ingests with that error at the first opening of such a file of mail; how it ended.
fn broken(home: &Home, folder: &str, ending: &str, errno: Errno) -> Ended {
    let here = |point: &netsky_sim::Point| {
        let is_it = |file: &std::path::PathBuf| {
            let text = file.to_string_lossy();
            text.contains(&format!("/{folder}/")) && text.ends_with(ending)
        };
        point.call == Call::Open && point.files.iter().any(is_it)
    };
    let outcome = home.stepper(["ledger", "ingest"]).fail_when(here, errno).expect("a run");
    outcome.hit.expect("such a file is opened");
    outcome.run.ended
}

#[test]
fn fm_ingest_eio_what_the_machine_would_not_give_is_asked_for_again() {
    let template = home();
    for (folder, ending) in [("inbox", ".json"), ("poison", ".json"), ("poison", ".reason")] {
        for errno in [Errno::EIO, Errno::EACCES] {
            let home = template.copy();
            settle(&home);
            assert_eq!(broken(&home, folder, ending, errno), Ended::Exited(0), "it is listed");
            let (living, errors) = (answered(&home, WHOLE), answered(&home, ERRORS));
            home.netsky(["ledger", "rebuild"]).expect("rebuilds");
            assert_eq!(
                (&living, errors),
                (&answered(&home, WHOLE), json!([])),
                "{folder} {ending} {errno:?}"
            );
        }
    }
}

#[test]
fn fm_ingest_emfile_a_program_without_descriptors_takes_no_mail_for_unreadable() {
    let template = home();
    for (folder, ending) in [("inbox", ".json"), ("poison", ".reason")] {
        for errno in [Errno::EMFILE, Errno::ENFILE] {
            let home = template.copy();
            assert_ne!(broken(&home, folder, ending, errno), Ended::Exited(0), "it ends there and says so");
            assert_eq!(answered(&home, ERRORS), json!([]));
        }
    }
}
