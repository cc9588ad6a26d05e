//! What the kernel must show, in a form small enough for a check; the campaigns `killed-anchors` and `racing-anchors` are
//! the same at full count.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::process::is_alive;
use netsky_kernel::client::{Client, Follow};
use netsky_kernel::drain::{Report, Turn};
use netsky_kernel::rpc::{Guard, SessionState, SessionView};
use netsky_kernel::session::{Keeper, Spec};
use netsky_model::id::Generation;
use netsky_model::process::ProcessId;
use netsky_sim::campaign::Share;

use crate::anchor_world::*;

/// How long an anchor may take to adopt 200 sessions.
const ADOPTED: Duration = Duration::from_secs(2);

fn program(session: &SessionView) -> ProcessId {
    session.program.clone().expect("it runs")
}

/// Sessions, and somebody who follows the journal from its first row.
struct Crowd {
    world: World,
    programs: BTreeMap<String, ProcessId>,
    follow: Follow,
    told: u64,
}

impl Crowd {
    fn of(count: usize) -> Crowd {
        let mut world = World::new();
        let mut client = world.anchor();
        let all = (0..count).map(|n| spawn(&mut client, &sleeper(&format!("agent{n}"))));
        let programs = all.map(|session| (session.name.to_string(), program(&session))).collect();
        let follow = Follow::all(&world.root, 0);
        Crowd { world, programs, follow, told: 0 }
    }

    /// Kills the anchor `after` some of its work; returns how long the next one took until it had adopted everybody.
    fn kill(&mut self, after: Duration) -> Duration {
        // In the middle of something: a report is a row of its own, and synced or not.
        let root = self.world.root.clone();
        let busy = std::thread::spawn(move || {
            let Ok(mut client) = Client::connect(&root) else { return };
            let turn = Report::Turn(Box::default());
            while client.report(&id("agent0"), &turn, &Guard::none()).is_ok() {}
        });
        clock::pause(after);
        self.world.kill_anchor();
        busy.join().expect("no panic");
        let begun = clock::boot();
        let mut client = self.world.anchor();
        let all = |client: &mut Client| {
            let found = client.list().ok()?;
            found.iter().all(|session| session.state == SessionState::Active).then_some(found)
        };
        let found = until("all are adopted", || all(&mut client));
        let took = clock::boot() - begun;
        let now: BTreeMap<_, _> =
            found.iter().map(|session| (session.name.to_string(), program(session))).collect();
        assert!(now == self.programs, "a session has another program");
        self.hear();
        took
    }

    /// Hears all that was told up to now: every row, once.
    fn hear(&mut self) {
        let head = self.world.client().subscribe(None).expect("subscribed").head();
        while self.told < head {
            let event = self.follow.next(Some(LONG)).expect("an anchor serves").expect("a row comes");
            assert_eq!(event.seq, self.told + 1, "a row is lost or comes twice: {event:?}");
            self.told = event.seq;
        }
    }

    fn end(self) {
        assert!(self.programs.values().all(is_alive));
    }
}

#[test]
fn must_show_2_no_program_and_no_row_is_lost_over_killed_anchors() {
    let mut crowd = Crowd::of(20);
    for n in 0..5 {
        crowd.kill(Duration::from_millis(n * 13));
    }
    crowd.end();
}

/// 200 sessions, an anchor killed each time; within the time that the issue names.
#[test]
#[ignore = "a batch of `cargo xtask campaign killed-anchors`"]
fn campaign_a_share_of_the_killed_anchors() {
    let mut crowd = Crowd::of(200);
    let mut slowest = Duration::ZERO;
    Share::asked().run(|n| {
        let took = crowd.kill(Duration::from_millis(n * 37 % 200));
        assert!(took <= ADOPTED, "adopted after {took:?}");
        slowest = slowest.max(took);
        1
    });
    println!("adopted within {slowest:?}");
    crowd.end();
}

/// Two anchors start at the same moment: one serves, the other says who does and ends with 5.
fn race(world: &World, round: u64) {
    let begin = || world.serve().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut both: Vec<Child> = (0..2).map(|_| begin()).collect();
    let loser = until("one of them leaves", || {
        both.iter_mut().position(|one| one.try_wait().expect("ours").is_some())
    });
    let loser = both.swap_remove(loser).wait_with_output().expect("ours");
    let said = String::from_utf8_lossy(&loser.stderr).into_owned();
    assert_eq!(loser.status.code(), Some(5), "{said}");
    assert!(said.contains("an anchor already serves") && said.lines().count() == 1, "{said}");
    let mut winner = both.remove(0);
    let mut client = until("the other serves", || Client::connect(&world.root).ok());
    assert_eq!(client.hello().anchor.pid, winner.id());
    assert_eq!(client.hello().epoch, round, "each anchor that served has an epoch of its own");
    assert_eq!(client.list().expect("answers")[0].state, SessionState::Active);
    // As the system would, or in order.
    if round.is_multiple_of(2) {
        winner.kill().expect("ours");
    } else {
        client.shutdown(false).expect("stops");
    }
    winner.wait().expect("ours");
}

/// Races in one root with a session in it.
fn races(mut each: impl FnMut(&World)) {
    let mut world = World::new();
    let mut client = world.anchor();
    let session = spawn(&mut client, &sleeper("agent0"));
    world.kill_anchor();
    each(&world);
    assert!(is_alive(&program(&session)), "nobody touched it");
    let audit = netsky_kernel::audit::journal(&world.layout().journal(), |_, _| {});
    assert_eq!(audit.expect("reads").expect("is there").broken, [] as [u64; 0]);
}

#[test]
fn t16_two_anchors_that_race_for_a_root_are_one() {
    races(|world| (2..40).for_each(|round| race(world, round)));
}

#[test]
#[ignore = "a batch of `cargo xtask campaign racing-anchors`"]
fn campaign_a_share_of_the_racing_anchors() {
    races(|world| {
        let mut round = 1;
        Share::asked().run(|_| {
            round += 1;
            race(world, round);
            1
        });
    });
}

fn by(keeper: Keeper, name: &str) -> Spec {
    let mut spec = sleeper(name);
    spec.keeper = keeper;
    spec
}

/// Everything of a root is gone at once; the next anchor starts with nothing in its environment.
fn reboot(world: &mut World, sessions: &[&SessionView]) -> Client {
    world.kill_anchor();
    for session in sessions {
        kill9(session.worker.as_ref().expect("it has one"));
    }
    until("every program is gone", || {
        sessions.iter().all(|session| !is_alive(&program(session))).then_some(())
    });
    let mut bare = std::process::Command::new(PROGRAM);
    bare.env_clear().arg("serve").arg("--root").arg(&world.root).stdin(Stdio::null());
    world.anchor_by(bare)
}

#[test]
fn must_show_3_after_a_reboot_each_policy_does_what_it_says_under_a_bare_environment() {
    for (policy, state) in
        [("revive", SessionState::Active), ("reap", SessionState::Inactive), ("ask", SessionState::Asking)]
    {
        let mut world = World::new();
        let mut client = world.anchor();
        std::fs::write(world.root.join("settings"), format!("LIMIT revival_policy {policy}\n"))
            .expect("ours");
        let mut asked = by(Keeper::Policy, "agent0");
        asked.env.insert("GREETING".to_owned(), "hello".to_owned());
        asked.argv =
            ["/bin/sh", "-c", "echo \"$GREETING $PWD\"; exec sleep 1000"].map(str::to_owned).to_vec();
        let first = spawn(&mut client, &asked);
        let above = spawn(&mut client, &by(Keeper::Watchdog, "agent1"));
        let stopped = spawn(&mut client, &by(Keeper::Policy, "agent2"));
        client.kill(&stopped.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
        let turn = |n: u64| {
            let message = format!("{{\"n\": {n}}}").try_into().expect("it is JSON");
            Report::Turn(Box::new(Turn { messages: vec![message], ..Turn::default() }))
        };
        for n in 1..=3 {
            client.report(&first.name, &turn(n), &Guard::none()).expect("told");
        }
        let before = snapshot(&world, &first);
        let mut client = reboot(&mut world, &[&first, &above]);
        let found =
            until("it is decided", || client.show(&first.name).ok().filter(|found| found.state == state));
        assert_eq!(snapshot(&world, &first), before, "{policy}: byte for byte");
        assert_eq!(client.show(&above.name).expect("known").state, SessionState::Orphaned, "{policy}");
        assert_eq!(client.show(&stopped.name).expect("known").state, SessionState::Stopped, "{policy}");
        match policy {
            "revive" => {
                assert_eq!((found.generation, &found.lineage), (Generation(2), &first.lineage));
                assert_eq!(found.progress.turn, 3, "it goes on behind its last turn");
                until("it says with what it was started", || {
                    let out = std::fs::read(world.layout().out(&first.name)).ok()?;
                    (String::from_utf8_lossy(&out).matches("hello /").count() == 2).then_some(())
                });
            }
            "ask" => {
                assert_eq!(of_lineage(&first.lineage), [], "nothing starts");
                let refused = client.spawn(&asked, &Guard::none()).expect_err("it waits to be told");
                assert!(refused.to_string().contains("ostk lineage resolve"), "{refused}");
                let revive = netsky_kernel::rpc::lineage::resolve::Action::Revive;
                let back = client.resolve(&first.lineage, revive, &Guard::none()).expect("revived");
                assert_eq!((back.state, back.generation), (SessionState::Active, Generation(2)));
            }
            _ => assert_eq!(of_lineage(&first.lineage), [], "nothing starts"),
        }
    }
}

/// The last turn of a lineage and its messages, as its files say.
fn snapshot(world: &World, session: &SessionView) -> (u64, Vec<String>) {
    let whole = netsky_kernel::drain::read(&world.layout(), &session.lineage, true).expect("reads");
    let whole = whole.expect("it is there");
    let messages = whole.messages.iter().map(|message| message.as_str().to_owned()).collect();
    (whole.snapshot.expect("turns were told").turn, messages)
}

/// Bytes that a process has written so far.
fn written(process: &ProcessId) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", process.pid)).expect("ours to read");
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).expect("it is there");
    line.parse().expect("a number")
}

#[test]
fn must_show_6_a_turn_costs_the_same_bytes_however_long_the_conversation_is() {
    const TURNS: u64 = 10_000;
    // Bytes are counted, and those that a revival reads were just written: a disk would only be waited for.
    let mut world = World::in_memory();
    let mut client = world.anchor();
    let session = spawn(&mut client, &by(Keeper::Policy, "agent0"));
    let anchor = client.hello().anchor.clone();
    let mut told = 0;
    let mut cost = |upto: u64| {
        let (before, turns) = (written(&anchor), upto - told);
        for _ in told..upto {
            let text = "x".repeat(500);
            let message = format!("{{\"role\":\"assistant\",\"content\":\"{text}\"}}");
            let messages = vec![message.try_into().expect("it is JSON")];
            let turn = Report::Turn(Box::new(Turn { messages, ..Turn::default() }));
            client.report(&session.name, &turn, &Guard::none()).expect("told");
        }
        told = upto;
        (written(&anchor) - before) / turns
    };
    cost(10);
    let early = cost(110);
    for upto in (1_000..=TURNS).step_by(1_000) {
        let late = cost(upto);
        assert!(late.abs_diff(early) * 5 <= early, "a turn cost {early} bytes at first and {late} at {upto}");
    }
    // What the state is read from does not grow with the conversation either: the last snapshot. That the rows before it
    // hold is seen besides.
    let begun = clock::boot();
    let whole = netsky_kernel::drain::read(&world.layout(), &session.lineage, false).expect("reads");
    let read = clock::boot() - begun;
    assert_eq!(whole.expect("it is there").state.turn, TURNS);
    // From the death of everything to the next generation at that turn, by an anchor that is started for it.
    let begun = clock::boot();
    let mut client = reboot(&mut world, &[&session]);
    let back = |found: &SessionView| found.generation == Generation(2) && found.state == SessionState::Active;
    let next = until("it is back", || client.show(&session.name).ok().filter(back));
    let rehydrated = clock::boot() - begun;
    assert_eq!(next.progress.turn, TURNS);
    assert!(read + rehydrated < Duration::from_secs(1), "read in {read:?}, back after {rehydrated:?}");
    println!("{TURNS} turns of {early} bytes each: read in {read:?}, rehydrated in {rehydrated:?}");
}

/// Resident pages of a process, in KiB.
fn resident(process: &ProcessId) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("ours to read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn must_show_9_ten_thousand_connections_leave_an_anchor_as_it_was() {
    let mut world = World::new();
    let mut client = world.logged_anchor();
    let anchor = client.hello().anchor.clone();
    let descriptors = |anchor: &ProcessId| {
        std::fs::read_dir(format!("/proc/{}/fd", anchor.pid)).expect("ours to read").count()
    };
    let crowd = |count: usize, root: &Path| {
        for n in 0..count {
            let mut stream =
                std::os::unix::net::UnixStream::connect(root.join("ostk.sock")).expect("it serves");
            // Half a call, garbage, nothing at all.
            let said: &[u8] = [&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth"[..], b"\xff\xfe\n", b""][n % 3];
            std::io::Write::write_all(&mut stream, said).expect("written");
        }
    };
    crowd(1_000, &world.root);
    client.ps().expect("it answers");
    let before = (descriptors(&anchor), resident(&anchor));
    crowd(10_000, &world.root);
    until("all are let go", || (descriptors(&anchor) <= before.0).then_some(()));
    client.ps().expect("it answers");
    let after = resident(&anchor);
    assert!(after < before.1 + 4 * 1024, "it holds {} KiB, and held {}", after, before.1);
    let log = std::fs::read_to_string(world.layout().log()).expect("reads");
    assert!(log.lines().count() < 40, "a crowd costs a line a kind and ten seconds: {log}");
}
