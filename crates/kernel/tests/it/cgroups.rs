//! A session's tree in a group of its own: nothing of it gets away, and where there is none, all goes on as before.

use std::path::{Path, PathBuf};
use std::time::Duration;

use netsky_disk::cgroup::{Group, Place};
use netsky_disk::process::{self, Signal, is_alive};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{EventKind, Guard, SessionView};
use netsky_kernel::session::mark;
use netsky_model::process::ProcessId;

use crate::anchor_world::*;
use crate::skipped::skipped;

/// Forks twice, leaves session, group and terminal, wipes its environment, hears no signal that can be refused.
const ESCAPES: &str = "(env -i setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; \
    while :; do sleep 100; done' \"$PID\" &); exec sleep 1000";

/// Whether sessions get groups on this machine; says so if not.
fn to_be_had() -> bool {
    let found = Place::find();
    if let Err(why) = &found {
        skipped(&format!("a cgroup of version 2 that can be written to ({why})"));
    }
    found.is_ok()
}

/// Starts a session with somebody who gets away from it as far as a program can; both, once that one has got there.
fn with_escaper(world: &World, client: &mut Client, name: &str) -> (SessionView, ProcessId) {
    let file = world.root.with_file_name(format!("{name}.pid"));
    let _ = std::fs::remove_file(&file);
    let mut spec = shell(name, ESCAPES);
    spec.env.insert("PID".to_owned(), file.to_str().expect("text").to_owned());
    let session = spawn(client, &spec);
    let escaped = until("it has got away", || {
        let pid = std::fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        process::identify(pid)
    });
    (session, escaped)
}

fn is_there(group: &Path) -> bool {
    group.join("cgroup.procs").exists()
}

fn group(session: &SessionView) -> PathBuf {
    session.cgroup.clone().expect("it has a group")
}

/// Kills its worker and waits until the anchor has settled that.
fn worker_dies(world: &World, session: &SessionView) {
    let mut events = world.client().subscribe(None).expect("subscribed");
    kill9(session.worker.as_ref().expect("it has one"));
    let died = |event: &netsky_kernel::rpc::Event| {
        event.kind == EventKind::Died && event.session.as_ref() == Some(&session.name)
    };
    events.find(LONG, died).expect("lives").expect("told");
}

#[test]
fn t12_i11_who_escaped_is_gone_after_a_kill_and_so_is_the_group() {
    let mut world = World::new();
    let mut client = world.anchor();
    let (session, escaped) = with_escaper(&world, &mut client, "agent0");
    if to_be_had() {
        let members = std::fs::read_to_string(group(&session).join("cgroup.procs")).expect("it is there");
        let has = |id: &ProcessId| members.lines().any(|pid| pid == id.pid.to_string());
        assert!(has(&escaped) && has(session.program.as_ref().expect("runs")), "{members}");
        assert!(!has(session.worker.as_ref().expect("runs")), "the worker is no part of it");
    }
    let ended = client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    assert!(!is_alive(&escaped));
    assert_eq!(ended.cgroup, None, "nothing of it may live");
    assert!(session.cgroup.is_none_or(|group| !is_there(&group)));
}

#[test]
fn t12_i11_who_escaped_is_gone_after_the_death_of_the_worker() {
    if !to_be_had() {
        return;
    }
    let mut world = World::new();
    let mut client = world.anchor();
    let (session, escaped) = with_escaper(&world, &mut client, "agent0");
    worker_dies(&world, &session);
    assert!(!is_alive(&escaped), "it bears no mark and has no ancestor: only the group has it");
    assert!(!is_there(&group(&session)));
}

#[test]
fn t12_i11_who_escaped_is_gone_once_an_anchor_starts_that_finds_the_worker_dead() {
    if !to_be_had() {
        return;
    }
    let mut world = World::new();
    let mut client = world.anchor();
    let (session, escaped) = with_escaper(&world, &mut client, "agent0");
    world.kill_anchor();
    kill9(session.worker.as_ref().expect("it has one"));
    assert!(is_alive(&escaped), "nobody is there to end it");
    let _client = world.anchor();
    event(&world.root, 0, "agent0", &[EventKind::Orphaned]);
    assert!(!is_alive(&escaped));
    assert!(!is_there(&group(&session)));
}

#[test]
fn t12_i11_a_kernel_that_kills_no_group_at_once_is_helped_by_a_freeze() {
    if !to_be_had() {
        return;
    }
    let mut world = World::new();
    let mut command = world.serve();
    command.env("NETSKY_CGROUP", "old");
    let mut client = world.anchor_by(command);
    let (session, escaped) = with_escaper(&world, &mut client, "agent0");
    worker_dies(&world, &session);
    assert!(!is_alive(&escaped));
    assert!(!is_there(&group(&session)));
}

#[test]
fn t12_i11_who_has_lost_its_main_thread_is_ended_with_its_group_on_every_kernel() {
    if !to_be_had() {
        return;
    }
    for kernel in ["", "old"] {
        let mut world = World::new();
        let mut command = world.serve();
        command.env("NETSKY_CGROUP", kernel);
        let mut client = world.anchor_by(command);
        let file = world.root.with_file_name("headless");
        // Only the group has it: it bears no mark and its ancestors die first.
        let line =
            format!("(env -i setsid {PROGRAM} headless {} &); exec sleep 1000", file.to_str().expect("text"));
        let session = spawn(&mut client, &shell("agent0", &line));
        let headless = until("it has lost it", || {
            let text = std::fs::read_to_string(&file).ok()?;
            process::identify(text.strip_suffix('\n')?.parse().ok()?)
        });
        worker_dies(&world, &session);
        assert!(!is_alive(&headless), "{kernel:?}");
        assert!(!is_there(&group(&session)), "{kernel:?}");
    }
}

#[test]
fn t12_i11_a_group_that_a_program_made_in_its_own_hides_nobody() {
    if !to_be_had() {
        return;
    }
    let mut world = World::new();
    let mut client = world.anchor();
    for (name, kind) in [("agent0", "domain"), ("agent1", "threaded")] {
        let (session, escaped) = with_escaper(&world, &mut client, name);
        let hidden = group(&session).join("hidden");
        std::fs::create_dir(&hidden).expect("ours");
        if kind == "threaded" {
            // Its list of processes cannot be read: they are in the one above.
            std::fs::write(hidden.join("cgroup.type"), kind).expect("ours");
        }
        std::fs::write(hidden.join("cgroup.procs"), escaped.pid.to_string()).expect("ours");
        worker_dies(&world, &session);
        assert!(!is_alive(&escaped), "{kind}");
        assert!(!is_there(&group(&session)), "{kind}");
    }
}

#[test]
fn what_stands_apart_is_moved_out_with_what_it_started_before_a_group_is_killed() {
    for kernel in ["", "old"] {
        let mut world = World::new();
        let mut command = world.serve();
        command.env("NETSKY_CGROUP", kernel);
        let mut client = world.anchor_by(command);
        let file = world.root.with_file_name("apart");
        // A daemon, and what it started: as an anchor with its worker, without the mark of the session around it.
        let line = "env -u OSTK_MARK -u OSTK_SESSION OSTK_APART=1 setsid sh -c 'env -i sleep 300 & echo $$ $! > \"$0.new\"; \
            mv \"$0.new\" \"$0\"; wait' \"$PID\" & exec sleep 1000";
        let mut spec = shell("agent0", line);
        spec.env.insert("PID".to_owned(), file.to_str().expect("text").to_owned());
        let session = spawn(&mut client, &spec);
        let pids = until("they run", || std::fs::read_to_string(&file).ok());
        let apart: Vec<ProcessId> = pids
            .split_whitespace()
            .map(|pid| process::identify(pid.parse().expect("a pid")).expect("lives"))
            .collect();
        client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
        let survived =
            apart.iter().map(|id| process::signal(id, Signal::KILL).expect("ours")).collect::<Vec<_>>();
        assert_eq!(survived, [true, true], "{kernel:?}");
        assert!(session.cgroup.is_none_or(|group| !is_there(&group)), "{kernel:?}");
    }
}

#[test]
fn a_group_that_cannot_be_had_is_said_once_and_done_without() {
    if !to_be_had() {
        return;
    }
    // No room, read-only, not allowed, gone between two steps; a kill and a removal that are refused.
    for fault in ["make=28", "make=30", "make=13", "enter=19", "kill=5", "remove=16"] {
        let mut world = World::new();
        let mut command = world.serve();
        command.env("NETSKY_CGROUP", fault);
        let mut client = world.anchor_by(command);
        let (session, escaped) = with_escaper(&world, &mut client, "agent0");
        let starts_without = fault.starts_with("make") || fault.starts_with("enter");
        assert_eq!(session.cgroup.is_none(), starts_without, "{fault}");
        client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
        assert!(!is_alive(&escaped), "{fault}: by descent, as ever");
        assert_eq!(marked(&session), [], "{fault}");
        let log = std::fs::read_to_string(world.layout().log()).expect("the worker's words");
        assert_eq!(log.lines().filter(|line| line.contains("cgroup")).count(), 1, "{fault}: {log}");
        world.kill_anchor();
        // The next one removes what was left.
        let _client = world.anchor();
        let path = Place::find()
            .and_then(|place| place.of(&world.root, &mark(&session.lineage, session.generation)));
        assert!(!is_there(&path.expect("to be had")), "{fault}");
    }
}

#[test]
fn where_no_group_is_to_be_had_a_session_says_so_and_its_marked_tree_is_ended() {
    let mut world = World::new();
    let mut command = world.serve();
    command.env("NETSKY_CGROUP", "off");
    let mut client = world.anchor_by(command);
    let (session, escaped) = with_escaper(&world, &mut client, "agent0");
    assert_eq!(serde_json::to_value(&session).expect("plain data")["cgroup"], serde_json::Value::Null);
    client.kill(&session.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    assert!(!is_alive(&escaped));
    assert_eq!(marked(&session), []);
}

#[test]
fn a_group_that_is_not_this_generations_is_neither_entered_nor_killed() {
    if !to_be_had() {
        return;
    }
    let mut world = World::new();
    let mut client = world.anchor();
    let (first, escaped) = with_escaper(&world, &mut client, "agent0");
    let second = spawn(&mut client, &sleeper("agent1"));
    world.kill_anchor();
    // As a file says that was changed: the one session is told to be in the other's group.
    let meta = world.layout().meta(&second.name);
    let text = std::fs::read_to_string(&meta).expect("reads");
    let own = group(&second).to_str().expect("text").to_owned();
    let text = text.replace(&own, group(&first).to_str().expect("text"));
    std::fs::write(&meta, text).expect("ours");
    kill9(second.worker.as_ref().expect("it has one"));
    let mut client = world.anchor();
    event(&world.root, 0, "agent1", &[EventKind::Orphaned]);
    assert!(is_alive(&escaped) && is_alive(first.program.as_ref().expect("runs")));
    client.kill(&first.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    let own =
        Group::of(Path::new(&own), &world.root, &mark(&second.lineage, second.generation)).expect("its own");
    own.sweep(LONG).expect("removed");
}
