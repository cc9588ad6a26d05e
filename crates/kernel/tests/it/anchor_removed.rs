//! A root that is taken away under those who serve it, whole or in part.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::process::{self, PidFd, Signal, is_alive};
use netsky_kernel::client::{Client, ClientError};
use netsky_kernel::rpc::{SessionState, SessionView};
use netsky_kernel::session::{End, Meta, Phase};
use netsky_model::process::ProcessId;

use crate::anchor_world::*;

/// An anchor that looks at its root ten times a second, as its workers do, with one session.
fn quick(world: &mut World) -> (Client, SessionView) {
    let mut serve = world.serve();
    serve.env("OSTK_HEARTBEAT_MS", "100");
    let mut client = world.anchor_by(serve);
    let session = spawn(&mut client, &sleeper("agent0"));
    (client, session)
}

/// The anchor, the worker and the program.
fn processes(client: &Client, session: &SessionView) -> [ProcessId; 3] {
    let worker = session.worker.clone().expect("it has one");
    [client.hello().anchor.clone(), worker, session.program.clone().expect("it runs")]
}

fn end(all: &[ProcessId]) {
    for id in all {
        let gone = PidFd::open(id).expect("looked at").is_none_or(|held| held.wait(LONG).expect("waited"));
        assert!(gone, "{id:?} is still there");
    }
}

fn aside(world: &World) -> PathBuf {
    let aside = world.root.with_extension("aside");
    std::fs::rename(&world.root, &aside).expect("moved");
    aside
}

#[test]
fn i11_a_root_that_was_moved_ends_and_is_not_made_again() {
    let mut world = World::new();
    let (client, session) = quick(&mut world);
    let all = processes(&client, &session);
    let aside = aside(&world);
    end(&all);
    assert!(!world.root.exists(), "somebody made it again");
    assert!(!aside.join("ostk.sock").exists() || Client::connect(&aside).is_err());
}

#[test]
fn i11_an_anchor_without_sessions_ends_with_its_root() {
    let mut world = World::new();
    let mut serve = world.serve();
    serve.env("OSTK_HEARTBEAT_MS", "100");
    let client = world.anchor_by(serve);
    let anchor = client.hello().anchor.clone();
    aside(&world);
    end(&[anchor]);
}

#[test]
fn i11_an_anchor_that_came_into_a_home_while_it_was_removed_ends_with_it() {
    let mut world = World::new();
    let folder = world.root.parent().expect("a folder");
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).expect("ours");
    let home = Layout::new(folder);
    Home::init(&home).expect("made");
    let mut serve = world.serve();
    serve.env("OSTK_HEARTBEAT_MS", "100");
    let client = world.anchor_by(serve);
    let anchor = client.hello().anchor.clone();
    std::fs::remove_file(home.home_json()).expect("removed");
    end(&[anchor]);
}

#[test]
fn i11_a_root_that_was_half_removed_ends() {
    let mut world = World::new();
    let (client, session) = quick(&mut world);
    let all = processes(&client, &session);
    // As far as `rm -rf` comes that meets a file which was made meanwhile.
    for gone in [world.layout().lock(), world.layout().worker_lock(&session.name)] {
        std::fs::remove_file(gone).expect("removed");
    }
    end(&all);
    let meta = std::fs::read(world.layout().meta(&session.name)).expect("it is still there");
    let phase = Meta::parse(&meta).expect("reads").phase;
    let taken_away = |how: &End| matches!(how, End::Signalled { signal: 15, asked: false });
    assert!(matches!(&phase, Phase::Ended { how, .. } if taken_away(how)), "nobody asked for it: {phase:?}");
}

#[test]
fn t16_an_anchor_whose_root_is_another_by_now_touches_nothing_of_it() {
    let mut world = World::new();
    let (client, session) = quick(&mut world);
    let all = processes(&client, &session);
    // It finds out only when there is another.
    signal(&all[0], Signal::STOP);
    until("it is stopped", || process::is_stopped(&all[0]).then_some(()));
    aside(&world);
    end(&all[1..]);
    let mut second = world.anchor();
    let ours = spawn(&mut second, &sleeper("agent0"));
    let meta = || std::fs::read(world.layout().meta(&ours.name)).expect("reads");
    let before = meta();
    signal(&all[0], Signal::CONT);
    end(&all[..1]);
    assert_eq!(Client::connect(&world.root).expect("its socket is there").hello(), second.hello());
    assert_eq!(meta(), before);
    assert_eq!(second.show(&ours.name).expect("known").state, SessionState::Active);
    assert!(is_alive(ours.program.as_ref().expect("it runs")));
    let audit = netsky_kernel::audit::journal(&world.layout().journal(), |_, _| {});
    assert_eq!(audit.expect("reads").expect("is there").broken, [] as [u64; 0]);
}

#[test]
fn t16_a_socket_that_was_removed_is_bound_again_by_the_same_anchor() {
    let mut world = World::new();
    let (client, session) = quick(&mut world);
    for _ in 0..2 {
        std::fs::remove_file(world.layout().sock()).expect("removed");
        let mut again = until("it is reached again", || Client::connect(&world.root).ok());
        assert_eq!(again.hello(), client.hello());
        assert_eq!(again.show(&session.name).expect("known").program, session.program);
    }
}

#[test]
fn a_stopped_anchor_is_named_and_so_is_one_without_its_socket() {
    let mut world = World::new();
    let client = world.anchor();
    let anchor = client.hello().anchor.clone();
    let told = |error: ClientError| error.to_string();
    signal(&anchor, Signal::STOP);
    until("it is stopped", || process::is_stopped(&anchor).then_some(()));
    let said = told(Client::connect(&world.root).expect_err("it does not answer"));
    assert!(said.contains(&format!("(pid {}) is stopped and did not answer", anchor.pid)), "{said}");
    signal(&anchor, Signal::CONT);
    until("it answers", || Client::connect(&world.root).ok());
    world.kill_anchor();

    std::fs::remove_file(world.layout().sock()).expect("removed");
    let mut lock = Lock::try_take(world.layout().lock()).expect("ours").expect("free");
    lock.note(&process::me()).expect("written");
    let said = told(Client::ensure(&world.root, Path::new(PROGRAM)).expect_err("nobody answers"));
    assert!(said.contains(&format!("(pid {}) has lost its socket and", std::process::id())), "{said}");
}

#[test]
fn an_anchor_that_cannot_serve_is_not_waited_for_and_its_last_words_are_told() {
    let world = World::new();
    netsky_disk::fs::Dir::create(&world.root).expect("made");
    std::fs::write(world.layout().agents(), "no folder").expect("written");
    match Client::ensure(&world.root, Path::new(PROGRAM)) {
        Err(ClientError::Ends { why, .. }) => assert!(why.contains("agents"), "{why}"),
        other => panic!("{other:?}"),
    }
    std::fs::remove_file(world.layout().agents()).expect("removed");
}

#[test]
fn a_root_is_not_made_where_its_home_is_gone() {
    let world = World::named("home/.ostk");
    Client::ensure(&world.root, Path::new(PROGRAM)).expect_err("there is no home");
    assert_eq!(world.serve().output().expect("it runs").status.code(), Some(4));
    assert!(!world.root.parent().expect("a home").exists());
}

#[test]
fn a_root_that_may_not_be_written_is_refused_at_once() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        crate::skipped::skipped("an ordinary user: root writes everywhere");
        return;
    }
    let world = World::new();
    Client::ensure(&world.root, Path::new(PROGRAM)).expect("an anchor").shutdown(true).expect("stops");
    let let_us = |mode| std::fs::set_permissions(&world.root, PermissionsExt::from_mode(mode)).expect("ours");
    let_us(0o500);
    let refused = Client::ensure(&world.root, Path::new(PROGRAM));
    let_us(0o700);
    assert!(matches!(&refused, Err(ClientError::Disk(error)) if error.is_denied()), "{refused:?}");
}
