//! What is no envelope goes aside with its reason; the neighbours are drained at once.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use netsky_bus::Error;
use netsky_disk::process;
use netsky_model::envelope::MAX_BYTES;
use netsky_model::id::{AgentId, EnvelopeId, Generation, Sender};
use netsky_model::life::State;
use netsky_model::name::{Name, Stage};
use netsky_model::process::ProcessId;
use netsky_model::witness::Nobody;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::home::{Home, OUTSIDE, agent, draft, drain};

const NAME: &str = "00000000000000000042-x.json";

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
}

/// How much this thread has read so far, of whatever.
fn bytes_read() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/io").expect("the kernel counts it");
    let count = told.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("the kernel counts it");
    count.parse().expect("a number")
}

/// Drops something under a well-formed name into the inbox and drains it with its neighbours.
fn dropped(what: &str, make: impl FnOnce(&Path), reason: &str) {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("before")).expect("sent");
    make(&home.folder(State::Written).join(NAME));
    for n in 0..20 {
        bus.send(draft(&n.to_string())).expect("sent");
    }
    let read = bytes_read();
    let mut texts = Vec::new();
    let drained = bus
        .drain(&AgentId::root(), usize::MAX, crate::home::OUTSIDE, |claim| {
            texts.push(claim.envelope().text.clone());
            Ok(())
        })
        .expect("drained");
    let read = bytes_read() - read;
    assert!(read < 4 * MAX_BYTES as u64, "{what}: {read} bytes were read");
    assert_eq!(texts.len(), 21, "{what}");
    assert_eq!(drained.aside.quarantined.len(), 1, "{what}");
    assert!(
        drained.aside.quarantined[0].reason.contains(reason),
        "{what}: {}",
        drained.aside.quarantined[0].reason
    );
    assert_eq!(home.names(State::Poisoned), [NAME], "{what}");
    assert!(home.reason(NAME).contains(reason), "{what}");
    assert_eq!(home.counts(), [0, 0, 21, 0, 1], "{what}");
}

#[test]
fn a5_every_kind_of_file_is_put_aside_and_the_rest_drained_by_the_same_call() {
    dropped("folder", |path| std::fs::create_dir(path).expect("made"), "not a regular file");
    dropped("pipe", fifo, "not a regular file");
    dropped(
        "link",
        |path| std::os::unix::fs::symlink("/etc/passwd", path).expect("made"),
        "not a regular file",
    );
    dropped(
        "link to nothing",
        |path| std::os::unix::fs::symlink("/nowhere", path).expect("made"),
        "not a regular file",
    );
    dropped("socket", |path| drop(UnixListener::bind(path).expect("bound")), "not a regular file");
    dropped(
        "hard link",
        |path| {
            let other = path.with_file_name("../../other");
            std::fs::write(&other, "{}").expect("written");
            std::fs::hard_link(other, path).expect("linked");
        },
        "2 hard links",
    );
    if rustix::process::geteuid().is_root() {
        dropped(
            "foreign owner",
            |path| {
                std::fs::write(path, "{}").expect("written");
                std::os::unix::fs::chown(path, Some(65_534), None).expect("we are root");
            },
            "owned by uid 65534",
        );
    } else {
        crate::skipped::skipped("root: a file of a foreign owner");
    }
}

#[test]
fn a5_what_a_list_says_of_an_intruder_is_why_it_is_put_aside() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    let inbox = home.folder(State::Written);
    std::fs::create_dir(inbox.join(".hidden")).expect("made");
    fifo(&inbox.join("pipe"));
    std::fs::File::create(inbox.join("large")).and_then(|file| file.set_len(1 << 30)).expect("sparse");
    std::fs::write(inbox.join("linked"), "{}").expect("written");
    std::fs::hard_link(inbox.join("linked"), inbox.join("twice")).expect("linked");
    std::fs::write(inbox.join("note"), "{}").expect("written");
    fifo(&inbox.join("00000000000000000001-one-1.json"));
    std::fs::write(inbox.join("00000000000000000002-two-1.json"), "{}").expect("written");
    let said = |state| {
        let listed = bus.list(&AgentId::root(), Some(state)).expect("listed").into_iter();
        listed.map(|entry| (entry.file, entry.problem.expect("none is a message"))).collect::<Vec<_>>()
    };
    let listed = said(State::Written);
    assert_eq!((listed.len(), drain(&bus)), (8, Vec::new()));
    assert_eq!(said(State::Poisoned), listed);
}

#[test]
fn a12_a_gigabyte_and_broken_bytes_are_put_aside_without_being_read() {
    let gigabyte = |path: &Path| {
        let file = std::fs::File::create(path).expect("made");
        file.set_len(1 << 30).expect("sparse");
    };
    dropped("gigabyte", gigabyte, "1073741824 bytes are over the limit");
    let write = |bytes: &'static [u8]| move |path: &Path| std::fs::write(path, bytes).expect("written");
    dropped("empty", write(b""), "not an envelope");
    dropped("zeros", write(&[0; 100]), "not an envelope");
    dropped("half", write(br#"{"from":"agent1","te"#), "not an envelope");
    dropped(
        "key twice",
        write(br#"{"from":"a","text":"t","text":"u","ts":"2026-04-19T17:22:57Z"}"#),
        "twice",
    );
    dropped(
        "other id",
        write(br#"{"id":"y","from":"a","text":"t","ts":"2026-04-19T17:22:57Z"}"#),
        "under the name of x",
    );
    dropped(
        "digest",
        write(br#"{"from":"a","text":"t","ts":"2026-04-19T17:22:57Z","digest":"00"}"#),
        "digest does not match",
    );
    dropped(
        "over the cap",
        |path| std::fs::write(path, vec![b' '; MAX_BYTES + 1]).expect("written"),
        "over the limit",
    );
}

#[test]
fn the_packet_of_the_seeds_is_surfaced_with_the_id_of_its_name() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    let packet = br#"{"from":"agentinfinity","text":"agent0 session 4 close","ts":"2026-04-19T17:22:57Z"}"#;
    std::fs::write(home.folder(State::Written).join(NAME), packet).expect("written");
    let claim = bus.claim(&AgentId::root(), 1, OUTSIDE).expect("claimed").claims.remove(0);
    assert!(claim.rendered().contains(" id=\"x\""));
    assert_eq!(claim.envelope().text, "agent0 session 4 close");
}

#[test]
fn a6_names_that_are_none_are_put_aside_under_names_that_can_be_printed() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.send(draft("good")).expect("sent");
    let long = "n".repeat(255);
    let names: [&[u8]; 8] = [
        b"notes.txt",
        b".hidden",
        b"\xff\xfe.json",
        b"a\x1b[31m.json",
        b"new\nline",
        long.as_bytes(),
        b"x.json",
        b"-rf",
    ];
    for name in names {
        std::fs::write(home.folder(State::Written).join(std::ffi::OsStr::from_bytes(name)), "{}")
            .expect("written");
    }
    assert_eq!(drain(&bus), [("good".to_owned(), 1)]);
    let poisoned = home.names(State::Poisoned);
    assert_eq!(poisoned.len(), names.len());
    for name in poisoned {
        assert!(name.chars().all(|c| c.is_ascii_graphic()), "{name:?}");
        assert!(home.reason(&name).contains("not one of the bus"));
    }
    assert_eq!(home.counts(), [0, 0, 1, 0, 8]);
}

#[test]
fn the_same_bad_name_twice_keeps_both() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    for _ in 0..2 {
        std::fs::write(home.folder(State::Written).join("junk"), "{}").expect("written");
        drain(&bus);
    }
    assert_eq!(home.names(State::Poisoned).len(), 2);
}

#[test]
fn fm_claim_two_racers_put_the_same_damage_aside_once_with_its_reason() {
    let home = Home::new();
    home.bus(&Nobody).create(&AgentId::root()).expect("made");
    for n in 0..40 {
        std::fs::write(home.folder(State::Written).join(format!("junk-{n}")), "{}").expect("written");
        std::fs::write(home.folder(State::Written).join(format!("{n:020}-x{n}.json")), "{}")
            .expect("written");
    }
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| assert_eq!(drain(&home.bus(&Nobody)), []));
        }
    });
    let poisoned = home.names(State::Poisoned);
    assert_eq!((poisoned.len(), home.counts()), (80, [0, 0, 0, 0, 80]));
    for name in poisoned {
        assert!(!home.reason(&name).is_empty());
    }
}

#[test]
fn a_newer_format_is_left_alone_and_told() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    let newer = br#"{"v":2,"from":"a","text":"t","ts":"2026-04-19T17:22:57Z"}"#;
    std::fs::write(home.folder(State::Written).join(NAME), newer).expect("written");
    bus.send(draft("known")).expect("sent");
    let batch = bus.claim(&AgentId::root(), 9, OUTSIDE).expect("claimed");
    assert_eq!((batch.claims.len(), &batch.aside.newer[..]), (1, &[NAME.to_owned()][..]));
    let id = Name::parse(NAME).expect("a name").key.id;
    let acked = bus.ack(&AgentId::root(), id.as_str());
    assert!(matches!(acked, Err(Error::Newer { .. })), "nobody can have read it: {acked:?}");
    assert_eq!(home.names(State::Written), [NAME]);
    // Nor where a later program took it.
    let dead = ProcessId { boot_id: "ffffffff".to_owned(), ..process::me() };
    let mut before = (State::Written, NAME.to_owned());
    for (state, stage) in
        [(State::Delivered, Stage::Taken(Generation(1))), (State::Claimed, Stage::Claimed(dead))]
    {
        let taken = Name::parse(NAME).expect("a name").to(stage).to_string();
        home.forge((before.0, &before.1), (state, &taken));
        let acked = bus.ack(&AgentId::root(), id.as_str());
        assert!(matches!(acked, Err(Error::Newer { state: there, .. }) if there == state), "{acked:?}");
        assert!(home.names(state).contains(&taken));
        before = (state, taken);
    }
}

#[test]
fn a5_fm_ack_fm_forward_what_waits_and_cannot_be_read_goes_aside_as_by_a_drain() {
    let large = |path: &Path| {
        std::fs::File::create(path).and_then(|file| file.set_len(MAX_BYTES as u64 + 1)).expect("sparse");
    };
    for (make, why) in [(fifo as fn(&Path), "not a regular file"), (large, "over the limit")] {
        for verb in ["ack", "forward"] {
            let home = Home::new();
            let bus = home.bus(&Nobody);
            let (me, to) = (AgentId::root(), agent("agent2"));
            bus.create(&me).and_then(|()| bus.create(&to)).expect("made");
            make(&home.folder(State::Written).join(NAME));
            let ended = match verb {
                "ack" => bus.ack(&me, "x").map(drop),
                _ => bus.forward(&me, "x", &to, &Sender::from(me.clone())).map(drop),
            };
            assert!(matches!(ended, Err(Error::Quarantined { .. })), "{verb} {why}: {ended:?}");
            assert_eq!(home.counts(), [0, 0, 0, 0, 1], "{verb} {why}");
            assert!(home.reason(NAME).contains(why), "{verb}: {}", home.reason(NAME));
        }
    }
}

/// A small generator with a fixed seed: failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[(self.next() % from.len() as u64) as usize]
    }
}

#[test]
fn a6_of_two_thousand_bad_ids_none_is_accepted_and_no_path_is_made_of_one() {
    let parts = [
        "..", "/", "\\", "\0", " ", "A", "é", "\u{202e}", "\n", "%2f", "~", "$HOME", ".", "agent0", "-",
        "\u{1b}",
    ];
    let mut random = Random(0x5eed);
    let mut bad = 0;
    while bad < 2_000 {
        let text: String = (0..1 + random.next() % 6).map(|_| random.pick(&parts)).collect();
        let tame = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !text.starts_with('-');
        if tame {
            continue;
        }
        bad += 1;
        assert!(text.parse::<AgentId>().is_err(), "{text:?}");
        assert!(text.parse::<EnvelopeId>().is_err(), "{text:?}");
        assert!(text.parse::<Sender>().is_err(), "{text:?}");
        assert!(AgentId::from_shorthand(&text).is_err(), "{text:?}");
    }
    assert!(agent("agent0").as_str().len() < 64);
}

#[test]
fn a5_q_a_file_that_is_called_like_a_reason_is_a_dead_letter_like_any_other() {
    let home = Home::new();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::root()).expect("made");
    std::fs::write(home.folder(State::Written).join("x.reason"), "anything").expect("written");
    assert_eq!(drain(&bus), []);
    let mut shown = Vec::new();
    bus.each_dead_letter(&AgentId::root(), |file, _| shown.push(file.to_owned())).expect("listed");
    let [name] = &shown[..] else { panic!("{shown:?}") };
    assert!(home.reason(name).contains("its name is not one of the bus"));
    let removed = bus.remove_finished(&AgentId::root(), State::Poisoned, 9, |_| true).expect("removed");
    assert_eq!((removed.envelopes, home.counts()), (1, [0; 5]));
}
