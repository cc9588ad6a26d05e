//! Running consumers and waiters whose lock, folders or home somebody removes, replaces or moves away under them.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{ChildStderr, Command, Stdio};

use netsky_disk::fs::Dir;
use netsky_disk::lock::{Hold, Seized};
use netsky_disk::process::{Signal, is_stopped, me};
use netsky_model::life::MAX_ATTEMPTS;
use netsky_model::name::{Name, Stage};
use netsky_model::process::ProcessId;

use crate::bad_input::{as_nobody, give_to_nobody, give_up_root};
use crate::bus_home::{Home, surfacings};
use crate::screen::{netsky, program};
use crate::watch::{Consumer, home, is_in, send, until};

/// A consumer of agent7, with the lines that it says on standard error.
fn consumer(home: &Home, change: impl FnOnce(&mut Command)) -> (Consumer, BufReader<ChildStderr>) {
    let mut command = program(home, &["channel", "watch", "agent7"]);
    command.stderr(Stdio::piped());
    change(&mut command);
    let mut consumer = Consumer::start(command);
    let err = consumer.child.stderr.take().expect("piped");
    (consumer, BufReader::new(err))
}

fn line(said: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    line
}

/// Whether a process watches a folder by now.
fn watches(pid: u32) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    fds.filter_map(|fd| fs::read_to_string(fd.path()).ok()).any(|text| text.contains("inotify wd:"))
}

/// Whether it sleeps in its watch, and does not look about still.
fn rests(pid: u32) -> bool {
    watches(pid)
        && (0..10).all(|_| {
            netsky_disk::clock::pause(std::time::Duration::from_millis(10));
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") S "))
        })
}

#[test]
fn t2_a_consumer_whose_lock_lost_its_name_ends_and_takes_nothing_more() {
    for replaced in [false, true] {
        let home = home();
        let (mut first, mut said) = consumer(&home, |_| ());
        assert!(first.line().contains("id=\"first\""));
        until(&home, "the record", || is_in(&home, "delivered", "first"));
        let lock = home.channel("agent7", "consumer.lock");
        fs::remove_file(&lock).expect("there");
        if replaced {
            fs::write(&lock, "").expect("written");
        }
        send(&home, "second");
        let shown = first.line();
        if !shown.is_empty() {
            first.signal(Signal::KILL);
        }
        assert_eq!((shown.as_str(), first.end().0.code()), ("", Some(1)), "it took what is not its own");
        assert_eq!(
            line(&mut said),
            "netsky: this process is no longer the consumer of agent7: its lock file was removed or replaced; \
             it took nothing more; start it again where none runs\n"
        );
        assert!(is_in(&home, "inbox", "second"));
    }
}

#[test]
fn a_consumer_and_a_waiter_see_an_inbox_that_was_replaced() {
    let home = home();
    let mut consumer = Consumer::of(&home, &[]);
    assert!(consumer.line().contains("id=\"first\""));
    let inbox = home.channel("agent7", "inbox");
    fs::rename(&inbox, home.channel("agent7", "inbox.old")).expect("moved");
    send(&home, "second");
    assert!(consumer.line().contains("id=\"second\""));
    consumer.signal(Signal::TERM);
    consumer.end();
    let waiter = program(&home, &["channel", "wait", "agent7", "--timeout", "60s"]).spawn().expect("starts");
    until(&home, "its wait", || watches(waiter.id()));
    fs::remove_dir(&inbox).expect("it is empty");
    send(&home, "third");
    assert!(waiter.wait_with_output().expect("it ends").status.success(), "it never saw the new inbox");
}

#[test]
fn who_waits_or_watches_in_a_home_that_is_moved_away_ends_with_that() {
    for verb in [&["channel", "watch", "agent7"][..], &["channel", "wait", "agent7", "--timeout", "60s"]] {
        let home = home();
        netsky(&home, &["channel", "drain", "agent7"]).works();
        let mut running = program(&home, verb);
        let running = running.stderr(Stdio::piped()).spawn().expect("it starts");
        until(&home, "its wait", || rests(running.id()));
        let elsewhere = home.path().join("../moved");
        fs::rename(home.path(), &elsewhere).expect("moved");
        let ended = running.wait_with_output().expect("it ends");
        let said = String::from_utf8(ended.stderr).expect("text");
        assert_eq!(ended.status.code(), Some(3), "{verb:?}: {said}");
        let path = home.path().display().to_string();
        assert_eq!(
            said,
            format!("netsky: there is no home at {path}; it was removed or moved away while this ran\n")
        );
        assert!(!home.path().exists(), "no ghost stands in its place");
    }
}

#[test]
fn what_a_newer_program_must_read_is_told_when_a_consumer_meets_it_and_at_its_end_if_it_is_there() {
    for is_taken in [false, true] {
        let home = home();
        let (mut consumer, mut said) = consumer(&home, |_| ());
        assert!(consumer.line().contains("id=\"first\""));
        let newer = r#"{"v":2,"from":"a","text":"t","ts":"2026-04-19T17:22:57Z"}"#;
        let file = home.channel("agent7", "inbox").join("00000000000000000042-x.json");
        fs::write(&file, newer).expect("written");
        assert_eq!(
            line(&mut said),
            "netsky: 00000000000000000042-x.json is of a newer format and stays in the inbox; drain it with the \
             newer program\n"
        );
        send(&home, "second");
        assert!(consumer.line().contains("id=\"second\""), "the others go on");
        if is_taken {
            fs::remove_file(file).expect("there");
        }
        consumer.signal(Signal::TERM);
        let (code, last) = (consumer.end().0.code(), line(&mut said));
        assert_eq!(
            (code, last.contains("was left in the inbox")),
            (Some(if is_taken { 0 } else { 4 }), !is_taken)
        );
    }
}

#[test]
fn t2_a_claim_that_is_released_before_it_is_shown_is_told_and_comes_before_what_was_sent_after_it() {
    let home = home();
    send(&home, "second");
    let (mut consumer, mut said) = consumer(&home, |command| {
        command.env("NETSKY_FAULT", "bus.claim.synced=stop");
    });
    let id = consumer.id();
    until(&home, "its stop", || is_stopped(&id));
    netsky(&home, &["channel", "release", "agent7", "first"]).works();
    consumer.signal(Signal::CONT);
    assert_eq!(
        line(&mut said),
        "netsky: envelope first was taken from this process before it was shown; the others go on\n"
    );
    let shown = consumer.line();
    assert!(shown.contains("id=\"first\"") && shown.contains("attempt=\"2\""), "{shown}");
    let shown = consumer.line();
    assert!(shown.contains("id=\"second\""), "{shown}");
    consumer.signal(Signal::TERM);
    assert_eq!(consumer.end().0.code(), Some(0));
}

#[test]
fn fm_owner_page_a_page_that_is_not_recorded_is_told_by_a_watch_at_the_time_and_beside_its_error() {
    let home = home();
    let lock = home.path().join("record/lock");
    fs::create_dir_all(&lock).expect("in its place");
    let (mut consumer, mut said) = consumer(&home, |_| ());
    assert!(consumer.line().contains("id=\"first\""));
    for n in [1, 2] {
        let file = format!("0000000000000000004{n}-torn-{n}.json");
        fs::write(home.path().join("torn"), "{").expect("written");
        fs::rename(home.path().join("torn"), home.channel("agent7", "inbox").join(&file)).expect("moved");
        until(&home, "its burial", || home.channel("agent7", "poison").join(&file).exists());
    }
    consumer.signal(Signal::TERM);
    assert_eq!(consumer.end().0.code(), Some(7));
    for n in [1, 2] {
        let told = line(&mut said);
        let page = format!("netsky: the page of poison/agent7/torn-{n} could not be recorded: ");
        assert!(told.starts_with(&page) && told.ends_with("; a tick pages for it\n"), "{told}");
    }
    let last = line(&mut said);
    assert!(last.starts_with("netsky: quarantined 00000000000000000041-torn-1.json of agent7"), "{last}");
    assert!(last.contains("the page of poison/agent7/torn-1 could not be recorded"), "{last}");
    assert_eq!(line(&mut said), "");
}

#[test]
fn t2_what_another_process_has_in_its_hands_stops_no_drain_of_the_others() {
    for json in [&[][..], &["--json"]] {
        let home = home();
        netsky(&home, &["channel", "send", "agent7", "x", "--from", "agent0", "--id", "other"]).works();
        let [first, _] = &home.files("agent7", "inbox").expect("there")[..] else { panic!("two wait") };
        let inbox = Dir::open(home.channel("agent7", "inbox")).expect("there");
        // As who releases it and is stopped.
        let Ok(Seized::Held(_hold)) = Hold::take(&inbox, first) else { panic!("nobody has it") };
        let drained = netsky(&home, &[&["channel", "drain", "agent7"], json].concat());
        assert!(drained.out.contains("other") && !drained.out.contains("first"), "{}", drained.out);
        assert_eq!(
            (drained.code, drained.err.as_str()),
            (
                5,
                "netsky: envelope first of agent7 is in the hands of another process; it waits as it did, with what \
                 its sender sent after it; everything else was drained\n"
            )
        );
        assert_eq!(&home.files("agent7", "inbox").expect("there")[..], std::slice::from_ref(first));
    }
}

fn chmod(home: &Home, folder: &str, mode: u32) {
    fs::set_permissions(home.channel("agent7", folder), Permissions::from_mode(mode)).expect("ours");
}

/// What every test here of modes needs: a home that belongs to a user whom they bind, and who may run the program.
fn of_nobody(home: &Home) -> bool {
    give_to_nobody(home.path().parent().expect("its throwaway folder"));
    as_nobody(home, &["channel", "list", "agent7"]).is_some_and(|said| said.code == 0)
}

#[test]
fn fm_claim_permissions_a_dead_claim_that_cannot_be_moved_stops_no_other_and_is_told() {
    let home = home();
    send(&home, "second");
    let [first, second] = &home.files("agent7", "inbox").expect("there")[..] else { panic!("two wait") };
    let dead = ProcessId { boot_id: "ffffffff".to_owned(), ..me() };
    let claim = |file: &str| {
        let name = Name::parse(file).expect("a name").to(Stage::Claimed(dead.clone()));
        home.channel("agent7", "claimed").join(name.to_string())
    };
    let inbox = home.channel("agent7", "inbox");
    fs::rename(inbox.join(second), claim(second)).expect("moved");
    fs::remove_file(inbox.join(first)).expect("there");
    // A folder that its owner may not write stays where it is.
    fs::create_dir(claim(first)).expect("made");
    fs::set_permissions(claim(first), Permissions::from_mode(0o500)).expect("ours");
    if !of_nobody(&home) {
        return;
    }
    let drained = as_nobody(&home, &["channel", "drain", "agent7"]).expect("it ran before");
    assert!(drained.out.contains("id=\"second\""), "{}", drained.err);
    assert_eq!(drained.code, 4, "{}", drained.err);
    assert!(drained.err.contains("failed to move $HOME/channels/agent/agent7/claimed/"), "{}", drained.err);
}

#[test]
fn fm_claim_permissions_a_folder_that_lets_nothing_in_is_named() {
    let home = home();
    chmod(&home, "claimed", 0o500);
    if !of_nobody(&home) {
        return;
    }
    let drained = as_nobody(&home, &["channel", "drain", "agent7"]).expect("it ran before");
    drained
        .fails_with(4, &["failed to change folder $HOME/channels/agent/agent7/claimed: Permission denied"]);
    assert!(is_in(&home, "inbox", "first"));
}

#[test]
fn fm_claim_permissions_a_wait_for_what_no_drain_can_take_fails_as_the_drain() {
    // What is none waits in whatever order the folder gives it; a drain comes to the message first.
    for (folder, message, junk) in
        [("inbox", true, 0), ("inbox", false, 1), ("claimed", true, 0), ("delivered", true, 16)]
    {
        let home = home();
        if !message {
            netsky(&home, &["channel", "drain", "agent7"]).works();
        }
        for n in 0..junk {
            fs::write(home.channel("agent7", "inbox").join(format!("x-{n}.json")), "{").expect("written");
        }
        chmod(&home, folder, 0o500);
        if !of_nobody(&home) {
            return;
        }
        let refused =
            format!("failed to change folder $HOME/channels/agent/agent7/{folder}: Permission denied");
        for verb in ["drain", "wait"] {
            as_nobody(&home, &["channel", verb, "agent7"]).expect("it ran before").fails_with(4, &[&refused]);
        }
    }
}

#[test]
fn fm_claim_permissions_a_wait_sleeps_over_what_no_drain_can_put_aside() {
    let home = home();
    fs::write(home.channel("agent7", "inbox").join("junk"), "").expect("written");
    chmod(&home, "poison", 0o500);
    if !of_nobody(&home) {
        return;
    }
    let says = |verb: &str| as_nobody(&home, &["channel", verb, "agent7"]).expect("it ran before");
    let refused = "failed to change folder $HOME/channels/agent/agent7/poison: Permission denied";
    says("wait").works();
    let drained = says("drain");
    assert!(drained.out.contains("id=\"first\""), "the other goes on: {}", drained.err);
    assert!(drained.code == 4 && drained.err.contains(refused), "{}", drained.err);
    // What is passed by is no mail: a loop of both would never rest.
    as_nobody(&home, &["channel", "wait", "agent7", "--timeout", "1s"])
        .expect("it ran before")
        .fails_with(5, &["nothing arrived for agent7 within 1.0s"]);
    chmod(&home, "poison", 0o700);
    says("wait").works();
    assert_eq!(says("drain").code, 7);
}

#[test]
fn fm_poison_permissions_what_has_no_room_for_its_reason_stops_nothing_behind_it() {
    let home = home();
    fs::write(home.channel("agent7", "inbox").join("00-junk"), "").expect("written");
    chmod(&home, "tmp", 0o755);
    let drained = netsky(&home, &["channel", "drain", "agent7"]);
    assert!(drained.out.contains("id=\"first\""), "the other goes on: {}", drained.err);
    assert!(drained.code == 7 && drained.err.contains("a reason could not be written"), "{}", drained.err);
    assert!(home.channel("agent7", "poison").join("00-junk").exists());
}

#[test]
fn a_wait_beside_a_poison_that_is_no_folder_fails_as_the_drain() {
    let home = home();
    let poison = home.channel("agent7", "poison");
    fs::remove_dir(&poison).expect("it is empty");
    fs::write(&poison, "").expect("written");
    fs::write(home.channel("agent7", "inbox").join("junk"), "").expect("written");
    // What comes before it is taken.
    netsky(&home, &["channel", "wait", "agent7"]).works();
    assert!(netsky(&home, &["channel", "drain", "agent7"]).out.contains("id=\"first\""));
    let says = [&["drain", "agent7"][..], &["wait", "agent7", "--timeout", "5s"]].map(|verb| {
        let said = netsky(&home, &[&["channel"], verb].concat());
        assert!(said.err.contains("agent7/poison"), "{verb:?}: {}", said.err);
        (said.code, said.err)
    });
    assert_eq!(says[0], says[1]);
    assert_ne!(says[0].0, 0);
}

#[test]
fn fm_deliver_permissions_what_cannot_be_recorded_is_not_shown_and_costs_no_attempt() {
    let home = home();
    chmod(&home, "delivered", 0o500);
    if !of_nobody(&home) {
        return;
    }
    let refused = "failed to change folder $HOME/channels/agent/agent7/delivered: Permission denied";
    let readers =
        [&["drain", "agent7"][..], &["drain", "agent7", "--json"], &["watch", "agent7", "--", "cat"]];
    for reader in readers {
        for _ in 0..MAX_ATTEMPTS {
            let args = [&["channel"], reader].concat();
            let said = as_nobody(&home, &args).expect("it ran before");
            assert!(!said.out.contains("hello"), "{reader:?}: {}", said.out);
            assert_eq!(said.code, 4, "{reader:?}: {}", said.err);
            assert!(format!("{}{}", said.out, said.err).contains(refused), "{reader:?}: {}", said.err);
        }
    }
    chmod(&home, "delivered", 0o700);
    let drained = as_nobody(&home, &["channel", "drain", "agent7"]).expect("it ran before");
    let seen = surfacings(drained.works());
    assert_eq!((&*seen[0].id, seen[0].attempt, seen[0].redelivered), ("first", 1, false));
    chmod(&home, "delivered", 0o500);
    for args in [&["channel", "drain", "agent7"][..], &["channel", "drain", "agent7", "--json"]] {
        as_nobody(&home, args).expect("it ran before").works();
    }
}

#[test]
fn fm_ack_permissions_what_cannot_be_acked_is_given_to_no_command_that_would() {
    let home = home();
    chmod(&home, "acked", 0o500);
    if !of_nobody(&home) {
        return;
    }
    let says = |args: &[&str]| {
        let all = [&["channel", "watch", "agent7", "--max", "1"], args].concat();
        as_nobody(&home, &all).expect("it ran before")
    };
    for _ in 0..MAX_ATTEMPTS {
        let refused = "failed to change folder $HOME/channels/agent/agent7/acked: Permission denied";
        says(&["--", "cat"]).fails_with(4, &[refused]);
    }
    // Nor does what only prints.
    let seen = surfacings(says(&[]).works());
    assert_eq!((&*seen[0].id, seen[0].attempt), ("first", 1));
    let sends = ["channel", "send", "agent7", "x", "--from", "owner", "--id", "second"];
    as_nobody(&home, &sends).expect("it ran before").works();
    let seen = surfacings(says(&["--no-ack", "--", "cat"]).works());
    assert_eq!((&*seen[0].id, seen[0].attempt, seen[0].redelivered), ("second", 1, false));
}

#[test]
fn fm_claim_permissions_a_watch_says_at_once_and_once_what_it_passes_by() {
    let home = home();
    chmod(&home, "inbox", 0o500);
    if !of_nobody(&home) {
        return;
    }
    let (consumer, mut said) = consumer(&home, |command| {
        command.env("NETSKY_FAULT", "bus.consume.idle=stop@3");
        give_up_root(command);
    });
    let inbox = home.channel("agent7", "inbox").display().to_string();
    let passed = format!("netsky: failed to change folder {inbox}: Permission denied (os error 13)");
    assert_eq!(line(&mut said), format!("{passed}; it stays where it is, the others go on\n"));
    let id = consumer.id();
    until(&home, "its third look", || is_stopped(&id));
    consumer.signal(Signal::TERM);
    consumer.signal(Signal::CONT);
    assert_eq!(consumer.end().0.code(), Some(4));
    let last = line(&mut said);
    assert!(!last.contains("more failed too"), "one file, however often it was met: {last}");
    assert_eq!(line(&mut said), "");
}

#[test]
fn fm_claim_permissions_a_watch_ends_well_once_it_has_taken_what_it_had_passed_by() {
    let home = home();
    chmod(&home, "claimed", 0o500);
    if !of_nobody(&home) {
        return;
    }
    let (mut consumer, mut said) = consumer(&home, give_up_root);
    assert!(line(&mut said).ends_with("; it stays where it is, the others go on\n"));
    chmod(&home, "claimed", 0o700);
    assert!(consumer.line().contains("id=\"first\""));
    until(&home, "its record", || is_in(&home, "delivered", "first"));
    consumer.signal(Signal::TERM);
    assert_eq!((consumer.end().0.code(), line(&mut said).as_str()), (Some(0), ""));
}

#[test]
fn fm_poison_permissions_a_watch_that_ends_before_it_met_the_file_again_still_tells_of_it() {
    let home = home();
    netsky(&home, &["channel", "drain", "agent7"]).works();
    fs::write(home.channel("agent7", "inbox").join("junk"), "x").expect("written");
    chmod(&home, "poison", 0o500);
    if !of_nobody(&home) {
        return;
    }
    let mut command = program(&home, &["channel", "watch", "agent7", "--max", "1"]);
    give_up_root(&mut command);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(watch.stderr.take().expect("piped"));
    assert!(line(&mut said).ends_with("; it stays where it is, the others go on\n"));
    let sends = ["channel", "send", "agent7", "later", "--from", "owner"];
    as_nobody(&home, &sends).expect("the watch is nobody's too").works();
    assert_eq!(watch.wait().expect("it ends").code(), Some(4));
    let last = line(&mut said);
    assert!(
        last.contains("poison: Permission denied") && last.contains("; junk was left where it is"),
        "{last}"
    );
}

#[test]
fn d1_fm_claim_permissions_a_watch_tells_at_its_end_of_what_the_dead_hold_and_it_could_not_give_back() {
    let home = home();
    let mut dead = Consumer::of(&home, &["--", "/bin/sh", "-c", "echo; exec sleep 1000 >/dev/null 2>&1"]);
    dead.line();
    dead.signal(Signal::KILL);
    dead.end();
    chmod(&home, "claimed", 0o500);
    if !of_nobody(&home) {
        return;
    }
    let (consumer, mut said) = consumer(&home, give_up_root);
    assert!(line(&mut said).ends_with("; it stays where it is, the others go on\n"));
    consumer.signal(Signal::TERM);
    let (code, last) = (consumer.end().0.code(), line(&mut said));
    assert!(code == Some(4) && last.contains("was left where it is; the folder"), "{code:?}: {last}");
}

#[test]
fn a_consumer_makes_the_folders_that_its_channel_lost() {
    let verbs = [
        &["channel", "drain", "agent7"][..],
        &["channel", "watch", "agent7", "--max", "1"],
        &["channel", "wait", "agent7"],
    ];
    for folder in ["claimed", "delivered", "tmp", "poison"] {
        for verb in verbs {
            let home = home();
            fs::remove_dir(home.channel("agent7", folder)).expect("it is empty");
            netsky(&home, verb).works();
        }
    }
}
