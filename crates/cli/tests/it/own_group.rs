//! An anchor that was started from within a session whose group it has to end.

use netsky_disk::process::{Signal, is_alive};

use crate::skipped::skipped;
use crate::stage::Stage;

/// An agent of which a part outlives it, in its group, and starts whatever is missing. It is there before the agent is up.
const SURVIVES: &str = "trap '' HUP\n\
    (while [ ! -e $HOME/go ]; do sleep 0.05; done; exec netsky watchdog tick >$HOME/told 2>&1) &\n\
    netsky session up && exec sleep 100000";

#[test]
fn t12_an_anchor_that_a_session_started_ends_what_is_left_of_that_session_and_goes_on() {
    let stage = Stage::up(0, SURVIVES, "10m");
    let root = stage.home().join(".ostk");
    let mut client = netsky_kernel::client::Client::connect(&root).expect("it serves");
    let session = client.show(&"agent0".parse().expect("an id")).expect("known");
    drop(client);
    if session.cgroup.is_none() {
        return skipped("a control group of its own for each session");
    }
    let workers = ["agent0", "agentinfinity", "netsky-ticker"].map(|id| stage.worker(id));
    // First: it would end what is left of each worker that it sees end.
    stage.kill_anchor();
    for worker in &workers {
        stage.signal(worker, Signal::KILL);
    }
    stage.until("their end", |_| (!workers.iter().any(is_alive)).then_some(()));
    std::fs::write(stage.outside("go"), "").expect("written");
    stage.until("another anchor", |stage| {
        let status = stage.status();
        (status["anchor_epoch"].as_u64()? == 2).then_some(())
    });
    stage.ok(&["watchdog", "tick"]);
    stage.until("an agent0 that is up", |stage| {
        let root = stage.agent("agent0");
        (root["generation"] == 2 && root["up"] == true).then_some(())
    });
}
