//! T8: everything of a former boot is dead, also where a process with the same number and start lives. A seam of `disk`
//! says which boot a program is on.

use std::process::{Command, Stdio};

use netsky_disk::process::{Signal, is_alive};
use netsky_model::process::ProcessId;
use serde_json::json;

use super::namespaces::{DRAIN, home_with_mail};
use crate::bystander::Bystander;
use crate::stage::{QUIET, Stage};

#[test]
fn must_show_t8_a_claim_of_a_former_boot_comes_back_though_its_number_lives() {
    let stage = home_with_mail(&["held"]);
    let on = |boot: &str| {
        let mut drain = stage.command(&DRAIN);
        drain.env("NETSKY_BOOT_ID", boot);
        drain
    };
    let log = stage.home().join("../faults");
    let mut holder = on("0000000a");
    holder.env("NETSKY_FAULT", "bus.claim.renamed=stop").env("NETSKY_FAULT_LOG", &log);
    let mut holder = holder.stdout(Stdio::null()).spawn().expect("the program starts");
    stage.until("a claim", |_| log.exists().then_some(()));
    let drained = |boot| String::from_utf8(on(boot).output().expect("it starts").stdout).expect("text");
    assert_eq!(drained("0000000a"), "", "on its own boot it lives");
    let again = drained("0000000b");
    assert!(again.contains("held") && again.contains("attempt=\"2\""), "{again}");
    holder.kill().expect("ours");
    holder.wait().expect("ours");
}

#[test]
fn t8_a_restart_child_of_a_former_boot_is_dead_though_its_number_lives() {
    let stage = Stage::up(0, QUIET, "300ms");
    let child = stage.stopped_child();
    let namesake = Bystander::start(Command::new("sleep").arg("1000"));
    stage.edit("state/restart-inflight", |inflight| {
        inflight["child"] = json!(ProcessId { boot_id: "0000000a".to_owned(), ..namesake.id.clone() });
    });
    stage.signal(&child, Signal::KILL);
    stage.until("a verified restart", |stage| {
        let _ = stage.run(&["watchdog", "tick"]);
        (stage.status()["restart"].is_null() && stage.agent("agent0")["up"] == true).then_some(())
    });
    assert_eq!(stage.agent("agent0")["generation"], 2);
    assert!(is_alive(&namesake.id), "a number of a former boot is nobody to kill");
}
