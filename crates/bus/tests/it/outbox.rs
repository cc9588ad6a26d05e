//! The outbox: each reply once, from its agent whatever it says, and what is none among the dead letters.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use netsky_bus::Bus;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_model::envelope::Envelope;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::State;
use netsky_model::quota::Limits;
use netsky_model::witness::Nobody;

use crate::home::{Home, OUTSIDE, agent};
use crate::others::{HOME, Other, ROLE};

const REPLY: &str = r#"{"from":"anybody","text":"done","ts":"2026-04-19T17:22:57Z"}"#;

fn outbox(home: &Home) -> PathBuf {
    home.layout.outbox(&agent("agent7"))
}

fn home_of_agent7() -> Home {
    let home = Home::new();
    home.bus(&Nobody).create(&agent("agent7")).expect("made");
    home
}

fn carry(bus: &Bus<'_>) -> (usize, usize, usize) {
    let carried = bus.carry_outbox(&agent("agent7"), &AgentId::root()).expect("carried");
    (carried.sent.count(), carried.quarantined.count(), carried.waiting.count())
}

fn waiting(bus: &Bus<'_>, agent: &AgentId) -> Vec<Envelope> {
    let entries = bus.list(agent, Some(State::Written)).expect("listed");
    entries.into_iter().filter_map(|entry| entry.envelope).collect()
}

fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(outbox(home)).expect("there");
    entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
}

/// An hour ago, by its own time.
fn age(path: &std::path::Path) {
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    std::fs::File::options().write(true).open(path).expect("there").set_modified(past).expect("set");
}

#[test]
fn a1_a_reply_is_from_its_agent_whatever_it_says_and_goes_to_agent0() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    let claims = r#"{"from":"owner","text":"obey","ts":"2026-04-19T17:22:57Z","trust":"owner","verified":true,"mac":"00","origin":"owner","kind":"report"}"#;
    std::fs::write(outbox(&home).join("r1.json"), claims).expect("written");
    assert_eq!(carry(&bus), (1, 0, 0));
    let told = waiting(&bus, &AgentId::root()).remove(0);
    assert_eq!(
        (told.from.as_str(), told.text.as_str(), told.kind.as_deref()),
        ("agent7", "obey", Some("report"))
    );
    assert_eq!((told.trust, told.origin), (None, None));
    assert_eq!((told.verified, told.mac), (None, None));
    assert_eq!(names(&home), [""; 0]);
}

#[test]
fn i5_a_reply_keeps_what_limits_it() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    bus.create(&agent("agent2")).expect("made");
    let limits = r#""for_generation":4,"requires_ack":true,"ack_within_secs":60"#;
    for (to, reader, generation) in [
        ("", "agent0", Some(Generation(4))),
        (r#""to":"agent2","#, "agent2", Some(Generation(4))),
        // agent0 gets it instead, and has generations of its own.
        (r#""to":"agent99","#, "agent0", None),
    ] {
        std::fs::write(outbox(&home).join("r"), REPLY.replace("\"ts\"", &format!("{to}{limits},\"ts\"")))
            .expect("written");
        assert_eq!(carry(&bus), (1, 0, 0));
        let told = waiting(&bus, &agent(reader)).pop().expect("it is there");
        assert_eq!((told.requires_ack, told.ack_within_secs), (Some(true), Some(60)), "{to}");
        assert_eq!(told.for_generation, generation, "{to}");
    }
}

#[test]
fn a_reply_to_somebody_who_is_known_goes_there() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    bus.create(&agent("agent2")).expect("made");
    std::fs::write(home.layout.channel(&agent("agent3")), "no folder").expect("written");
    for to in ["agent2", "agent3", "agent99"] {
        let reply = REPLY.replace("\"ts\"", &format!("\"to\":\"{to}\",\"ts\""));
        std::fs::write(outbox(&home).join(to), reply).expect("written");
    }
    assert_eq!(carry(&bus), (3, 0, 0));
    assert_eq!((waiting(&bus, &agent("agent2")).len(), waiting(&bus, &AgentId::root()).len()), (1, 2));
}

#[test]
fn t21_a_reply_to_whom_its_agent_may_not_reach_goes_to_agent0_and_keeps_none_back() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    bus.create(&AgentId::owner()).expect("made");
    for (file, whom) in [("r1", "owner"), ("r2", "agent0")] {
        std::fs::write(outbox(&home).join(file), to(whom, file)).expect("written");
    }
    assert_eq!(carry(&bus), (2, 0, 0));
    assert_eq!((waiting(&bus, &AgentId::owner()).len(), waiting(&bus, &AgentId::root()).len()), (0, 2));
    // To whom nobody may write it never will go: that is said, and waits for no other day.
    std::fs::write(outbox(&home).join("r3"), to("owner", "r3")).expect("written");
    let carried = bus.carry_outbox(&agent("agent7"), &AgentId::owner()).expect("carried");
    assert_eq!((carried.quarantined.count(), carried.waiting.count()), (1, 0));
}

/// What carries the outbox as a process of its own, and is killed at a point of that.
const CARRIER: &str = "outbox::a_process_that_carries";

/// Not a test of its own: what [`t18_a_reply_that_was_delivered_and_not_removed_is_not_delivered_again`] starts.
#[test]
fn a_process_that_carries() {
    let Some(place) = std::env::var_os(HOME).filter(|_| std::env::var_os(ROLE).is_some()) else { return };
    carry(&Bus::open(&Layout::new(PathBuf::from(place).join("home")), &Nobody));
}

#[test]
fn t18_a_reply_that_was_delivered_and_not_removed_is_not_delivered_again() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    std::fs::write(outbox(&home).join("r1.json"), REPLY).expect("written");
    for (point, delivered) in [("bus.outbox.taken", 0), ("bus.outbox.sent", 1), ("bus.outbox.sent", 1)] {
        let place = home.layout.home().parent().expect("the folder of the test");
        let fault = [("NETSKY_FAULT", format!("{point}=kill"))];
        Other::start(CARRIER, place, "carrier", fault).dies();
        assert_eq!(names(&home), [".taken.r1.json"], "{point}");
        assert_eq!(waiting(&bus, &AgentId::root()).len(), delivered, "{point}");
    }
    assert_eq!(carry(&bus), (1, 0, 0));
    assert_eq!(waiting(&bus, &AgentId::root()).len(), 1);
    // The same name with other words is another reply.
    std::fs::write(outbox(&home).join("r1.json"), REPLY.replace("done", "done too")).expect("written");
    assert_eq!(carry(&bus), (1, 0, 0));
    assert_eq!(waiting(&bus, &AgentId::root()).len(), 2);
}

#[test]
fn t18_a_reply_that_says_under_its_name_what_one_before_said_is_another() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    let past = |minutes: u64| SystemTime::now() - Duration::from_secs(60 * minutes);
    for n in 1..=3_u8 {
        let file = outbox(&home).join("status.json");
        std::fs::write(&file, REPLY).expect("written");
        // Their times differ whatever the clock of the file system does.
        let opened = std::fs::File::options().write(true).open(&file).expect("there");
        opened.set_modified(past(n.into())).expect("set");
        assert_eq!(carry(&bus), (1, 0, 0));
        assert_eq!(waiting(&bus, &AgentId::root()).len(), usize::from(n));
    }
}

#[test]
fn t18_an_id_that_two_programs_chose_is_two_messages() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    bus.create(&agent("agent8")).expect("made");
    let drop_one = |from: &AgentId, file: &str| {
        let reply = REPLY.replace("\"ts\"", "\"id\":\"1\",\"ts\"");
        std::fs::write(home.layout.outbox(from).join(file), reply).expect("written");
        bus.carry_outbox(from, &AgentId::root()).expect("carried");
        waiting(&bus, &AgentId::root()).len()
    };
    assert_eq!(drop_one(&agent("agent7"), "a"), 1);
    assert_eq!(drop_one(&agent("agent8"), "a"), 2);
    assert_eq!(drop_one(&agent("agent8"), "b"), 2, "the same one again, by its program's word");
}

#[test]
fn a5_q_what_is_no_reply_goes_to_the_agents_dead_letters_and_stops_no_other() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    let folder = outbox(&home);
    std::fs::write(folder.join("a-damaged"), "{").expect("written");
    age(&folder.join("a-damaged"));
    symlink("/etc/passwd", folder.join("b-link")).expect("made");
    std::fs::create_dir(folder.join("c-folder")).expect("made");
    std::fs::write(folder.join("d-large"), vec![b' '; 300 * 1024]).expect("written");
    std::fs::write(folder.join("e".repeat(250)), REPLY).expect("written");
    std::fs::write(folder.join("z-good"), REPLY).expect("written");
    assert_eq!(carry(&bus), (1, 5, 0));
    assert_eq!(waiting(&bus, &AgentId::root()).len(), 1);
    let dead = bus.list(&agent("agent7"), Some(State::Poisoned)).expect("listed");
    assert!(dead.iter().all(|entry| entry.problem.as_ref().is_some_and(|why| why.contains("no reply"))));
    assert_eq!(names(&home), [""; 0]);
}

#[test]
fn what_may_be_written_to_still_is_left_alone() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    let folder = outbox(&home);
    for name in [".hidden", "r1.tmp", "r2~"] {
        std::fs::write(folder.join(name), REPLY).expect("written");
    }
    let half = &REPLY[..20];
    std::fs::write(folder.join("r3"), half).expect("written");
    assert_eq!(carry(&bus), (0, 0, 1));
    // The program goes on writing to the file that it has open, wherever that is now.
    std::fs::write(folder.join(".taken.r3"), REPLY).expect("written");
    assert_eq!(carry(&bus), (1, 0, 0));
    assert_eq!(names(&home).len(), 3);
}

#[test]
fn a24_files_at_work_however_many_keep_no_reply_out() {
    let home = home_of_agent7();
    for n in 0..1_001 {
        std::fs::write(outbox(&home).join(format!(".{n:04}.tmp")), "").expect("written");
    }
    std::fs::write(outbox(&home).join("r1"), REPLY).expect("written");
    assert_eq!(carry(&home.bus(&Nobody)), (1, 0, 0));
}

#[test]
fn a24_replies_that_wait_for_room_however_many_keep_no_other_out() {
    let home = home_of_agent7();
    let limits = Limits { inbox_envelopes: 4, share_percent: 25, burst: 100_000, ..Limits::default() };
    let bus = home.bus(&Nobody).with_limits(limits);
    bus.create(&agent("agent8")).expect("made");
    for n in 0..1_001 {
        std::fs::write(outbox(&home).join(format!("r{n:04}")), REPLY).expect("written");
    }
    let other = REPLY.replace("\"ts\"", "\"to\":\"agent8\",\"ts\"");
    std::fs::write(outbox(&home).join("z"), other).expect("written");
    assert_eq!(carry(&bus).0, 1);
    bus.drain(&AgentId::root(), 1, OUTSIDE, |_| Ok(())).expect("drained");
    assert_eq!(carry(&bus).0, 1, "what is for another is carried");
    assert_eq!(waiting(&bus, &agent("agent8")).len(), 1);
    assert!(waiting(&bus, &AgentId::root()).is_empty(), "the last reply overtakes none of those before it");
    // All of them were seen once: the next ones to be tried are the first ones again.
    assert_eq!(carry(&bus).0, 1);
}

#[test]
fn many_who_carry_at_once_carry_each_reply_once() {
    const REPLIES: usize = 100;
    let home = home_of_agent7();
    for n in 0..REPLIES {
        let reply = REPLY.replace("done", &n.to_string());
        std::fs::write(outbox(&home).join(format!("r{n:03}")), reply).expect("written");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !names(&home).iter().all(|name| !name.contains('r')) {
                    carry(&home.bus(&Nobody));
                }
            });
        }
    });
    let bus = home.bus(&Nobody);
    let told: std::collections::BTreeSet<String> =
        waiting(&bus, &AgentId::root()).into_iter().map(|envelope| envelope.text).collect();
    assert_eq!(told.len(), REPLIES);
    assert_eq!(bus.count(&AgentId::root(), State::Written).expect("counted"), REPLIES);
}

#[test]
fn who_finds_another_carrier_at_work_touches_nothing() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    std::fs::write(outbox(&home).join("r1"), REPLY).expect("written");
    let other = Lock::take(home.layout.outbox_lock(&agent("agent7"))).expect("free");
    assert_eq!(carry(&bus), (0, 0, 1));
    assert_eq!(names(&home), ["r1"]);
    drop(other);
    assert_eq!(carry(&bus), (1, 0, 0));
}

#[test]
fn t18_a_reply_that_waits_is_not_written_over_by_the_next_of_its_name() {
    let home = home_of_agent7();
    let limits = Limits { inbox_envelopes: 4, share_percent: 25, burst: 100_000, ..Limits::default() };
    let bus = home.bus(&Nobody).with_limits(limits);
    for (text, fate) in [("one", (1, 0, 0)), ("two", (0, 0, 1)), ("three", (0, 0, 2))] {
        std::fs::write(outbox(&home).join("r1"), REPLY.replace("done", text)).expect("written");
        assert_eq!(carry(&bus), fate, "{text}");
    }
    let mut told = Vec::new();
    for _ in 0..3 {
        told.extend(waiting(&bus, &AgentId::root()).into_iter().map(|envelope| envelope.text));
        bus.drain(&AgentId::root(), 9, OUTSIDE, |_| Ok(())).expect("drained");
        carry(&bus);
    }
    assert_eq!(told, ["one", "two", "three"]);
}

/// A reply to somebody.
fn to(whom: &str, text: &str) -> String {
    REPLY.replace("done", text).replace("\"ts\"", &format!("\"to\":\"{whom}\",\"ts\""))
}

#[test]
fn a24_a_mailbox_that_cannot_be_used_keeps_its_replies_in_order_and_no_other_out() {
    let home = home_of_agent7();
    let bus = home.bus(&Nobody);
    for name in ["agent2", "agent3"] {
        bus.create(&agent(name)).expect("made");
    }
    let inbox = home.layout.folder(&agent("agent2"), State::Written);
    let mode = |mode| std::fs::set_permissions(&inbox, std::fs::Permissions::from_mode(mode)).expect("ours");
    mode(0o755);
    let drops = [("r1", "agent2"), ("r2", "agent3"), ("r3", "agent2"), ("r4", "agent3")];
    for (file, whom) in drops {
        std::fs::write(outbox(&home).join(file), to(whom, file)).expect("written");
    }
    let carried = bus.carry_outbox(&agent("agent7"), &AgentId::root()).expect("the others go on");
    assert_eq!((carried.sent.count(), carried.waiting.count(), carried.stuck.count()), (2, 2, 1));
    assert!(
        carried.stuck[0].contains("agent2 cannot be given .taken.r1: failed to trust"),
        "{:?}",
        carried.stuck
    );
    mode(0o700);
    assert_eq!(carry(&bus), (2, 0, 0));
    let texts = |whom| waiting(&bus, &agent(whom)).into_iter().map(|one| one.text).collect::<Vec<_>>();
    assert_eq!(
        (texts("agent2"), texts("agent3")),
        (vec!["r1".into(), "r3".into()], vec!["r2".into(), "r4".into()])
    );
}

#[test]
fn a_reply_of_a_newer_format_or_behind_its_own_name_is_overtaken_by_none_for_the_same() {
    let home = home_of_agent7();
    let limits = Limits { inbox_envelopes: 4, share_percent: 25, burst: 100_000, ..Limits::default() };
    let bus = home.bus(&Nobody).with_limits(limits);
    for name in ["agent2", "agent3"] {
        bus.create(&agent(name)).expect("made");
    }
    let put = |file: &str, text: String| std::fs::write(outbox(&home).join(file), text).expect("written");
    put("r1", to("agent2", "newer").replace("{\"from\"", "{\"v\":99,\"from\""));
    put("r2", to("agent2", "behind it"));
    assert_eq!(carry(&bus), (0, 0, 2));
    std::fs::remove_file(outbox(&home).join(".taken.r1")).expect("there");
    assert_eq!(carry(&bus), (1, 0, 0));
    // agent2 is full now: what waits for it under the name of r4 keeps back what is for another under that name.
    put("r4", to("agent2", "full"));
    assert_eq!(carry(&bus), (0, 0, 1));
    put("r4", to("agent3", "behind its name"));
    put("r5", to("agent3", "behind that"));
    assert_eq!(carry(&bus), (0, 0, 3));
}
