//! Loops under clocks that step, sleep and boot, and beside a walk by the second.

use std::collections::BTreeSet;

use netsky_model::id::AgentId;

use super::*;

const HOUR: i64 = 3600;
const START: i64 = 1_800_000_000;

/// A machine whose clocks a test moves.
#[derive(Clone)]
struct Machine {
    wall: i64,
    boot_ms: u64,
    boot: u32,
}

impl Machine {
    fn new() -> Machine {
        Machine { wall: START, boot_ms: 50_000, boot: 1 }
    }

    fn now(&self) -> Stamp {
        let wall = Timestamp::from_second(self.wall).expect("in range");
        Stamp { wall, boot_ms: self.boot_ms, boot_id: format!("{:08x}", self.boot) }
    }

    /// Time passes, also while it sleeps.
    fn pass(&mut self, secs: i64) {
        self.wall += secs;
        self.boot_ms += secs.unsigned_abs() * 1000;
    }

    fn reboot(&mut self, secs: i64) {
        self.wall += secs;
        (self.boot_ms, self.boot) = (1000, self.boot + 1);
    }
}

fn made(interval: Option<u64>, machine: &Machine) -> Loop {
    let interval = interval.map(Duration::from_secs);
    Loop::new(
        "loop-7f3c2a10".parse().expect("one"),
        AgentId::root(),
        "check".to_owned(),
        interval,
        &machine.now(),
    )
}

/// A tick: what it sends, if anything.
fn tick(entry: &mut Loop, machine: &Machine) -> Option<Fire> {
    let now = machine.now();
    match entry.look(&now) {
        Look::Due(fire) => {
            entry.fired(&fire, &now);
            Some(fire)
        }
        Look::Stepped => {
            entry.recompute(&now);
            None
        }
        Look::Waits | Look::Sleeps => None,
    }
}

fn secs(entry: &Loop) -> i64 {
    entry.next_fire_utc.as_second() - START
}

#[test]
fn a_fixed_loop_fires_each_interval_and_keeps_its_phase() {
    let mut machine = Machine::new();
    let mut entry = made(Some(900), &machine);
    let mut fired = Vec::new();
    for _ in 0..60 {
        machine.pass(61);
        fired.extend(tick(&mut entry, &machine).map(|fire| (fire.slot.as_second() - START, fire.further)));
    }
    assert_eq!(fired, [(900, 0), (1800, 0), (2700, 0), (3600, 0)], "however late its ticks are");
}

#[test]
fn a_dynamic_loop_fires_once_and_waits_to_be_rescheduled() {
    let mut machine = Machine::new();
    let mut entry = made(None, &machine);
    assert_eq!((secs(&entry), entry.standing()), (1500, Standing::Armed));
    machine.pass(1499);
    assert_eq!(entry.look(&machine.now()), Look::Waits);
    machine.pass(1);
    assert!(tick(&mut entry, &machine).is_some(), "due means not after now");
    assert_eq!((entry.armed, secs(&entry), entry.standing()), (Some(false), 3000, Standing::Waiting));
    machine.pass(100_000);
    assert_eq!(entry.look(&machine.now()), Look::Sleeps);
    entry.arm(&machine.now(), Duration::ZERO);
    assert!(matches!(entry.look(&machine.now()), Look::Due(_)), "at once");
    entry.arm(&machine.now(), Duration::from_secs(300));
    machine.pass(299);
    assert_eq!(entry.look(&machine.now()), Look::Waits);
    machine.pass(1);
    entry.keep_alive = true;
    assert!(tick(&mut entry, &machine).is_some());
    assert_eq!((entry.armed, entry.standing()), (None, Standing::Armed), "it arms itself");
}

#[test]
fn t5_an_outage_is_one_catch_up_that_says_how_many_passed() {
    let mut machine = Machine::new();
    let mut entry = made(Some(900), &machine);
    let asleep = |machine: &mut Machine| machine.pass(8 * HOUR);
    let off = |machine: &mut Machine| machine.reboot(8 * HOUR);
    for outage in [&asleep as &dyn Fn(&mut Machine), &off] {
        let next = entry.next_fire_utc;
        outage(&mut machine);
        let fire = tick(&mut entry, &machine).expect("one");
        assert_eq!((fire.slot, fire.further, entry.missed), (next, 31, 31));
        assert_eq!(tick(&mut entry, &machine), None, "and not another");
        assert!(entry.next_fire_utc > machine.now().wall);
        machine.pass(900);
        assert_eq!(tick(&mut entry, &machine).map(|fire| fire.further), Some(0));
    }
}

#[test]
fn t18_what_is_not_read_yet_stands_for_what_comes_meanwhile() {
    let mut machine = Machine::new();
    let mut entry = made(Some(900), &machine);
    machine.pass(900);
    let first = tick(&mut entry, &machine).expect("due");
    for _ in 0..31 {
        machine.pass(900);
        let Look::Due(fire) = entry.look(&machine.now()) else { panic!("due") };
        entry.coalesced(&fire, &machine.now());
    }
    assert_eq!(
        (entry.missed, entry.last_id.clone()),
        (31, Some(entry.envelope(first.slot))),
        "eight hours of quarters, one message"
    );
    machine.pass(900);
    tick(&mut entry, &machine).expect("it was read");
    assert_eq!(entry.missed, 0);
}

#[test]
fn t9_no_step_of_the_wall_clock_makes_an_instant_fire_twice_or_a_loop_stop() {
    for (step, interval) in [
        (-3 * HOUR, 900),
        (-4 * HOUR, 900),
        (-2 * HOUR, 3600),
        (3 * HOUR, 900),
        (-24 * HOUR, 900),
        (24 * HOUR, 60),
    ] {
        let mut machine = Machine::new();
        let mut entry = made(Some(interval), &machine);
        let (mut slots, mut envelopes, mut fires) = (Vec::new(), BTreeSet::new(), 0);
        for minute in 0..600 {
            machine.pass(60);
            if minute == 300 {
                machine.wall += step;
            }
            let mut before = entry.clone();
            if let Some(fire) = tick(&mut entry, &machine) {
                fires += 1;
                slots.push(fire.slot);
                before.clock_steps = entry.clock_steps;
                assert!(envelopes.insert(before.envelope(fire.slot)), "{step}: {:?} twice", fire.slot);
            }
        }
        let real = 600 * 60 / interval;
        assert!((real - 1..=real + 1).contains(&fires), "{step}: it goes on, {fires} of {real}");
        let ahead = entry.next_fire_utc.as_second() - machine.wall;
        assert!(ahead <= i64::try_from(interval).expect("small") + 3 * HOUR, "{step}: {ahead}");
        assert_eq!(entry.clock_steps, u64::from(step < -3 * HOUR), "{step}");
        let repeated = slots.len() - slots.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(repeated > 0, step == -4 * HOUR, "{step}: only what was wrong before comes again");
    }
}

#[test]
fn t9_a_delay_is_as_long_as_it_was_said_whatever_the_wall_clock_does() {
    for step in [-3 * HOUR, 3 * HOUR, -24 * HOUR, 24 * HOUR] {
        let mut machine = Machine::new();
        let mut entry = made(None, &machine);
        machine.pass(1000);
        machine.wall += step;
        assert_eq!(tick(&mut entry, &machine), None, "{step}");
        machine.pass(499);
        assert_eq!(tick(&mut entry, &machine), None, "{step}");
        machine.pass(1);
        assert!(tick(&mut entry, &machine).is_some(), "{step}");
    }
}

#[test]
fn t9_on_another_boot_a_wall_clock_that_went_back_by_hours_holds_up_nothing_for_long() {
    for interval in [None, Some(900)] {
        let mut machine = Machine::new();
        let mut entry = made(interval, &machine);
        machine.reboot(-30 * HOUR);
        assert_eq!(entry.look(&machine.now()), Look::Stepped);
        assert_eq!(tick(&mut entry, &machine), None, "nothing is made up for");
        machine.pass(1500);
        assert!(tick(&mut entry, &machine).is_some());
    }
}

#[test]
fn what_a_person_wrote_into_a_file_is_taken_by_the_wall_clock() {
    let mut machine = Machine::new();
    let mut entry = made(Some(900), &machine);
    let day = machine.wall + 24 * HOUR + 7;
    entry.next_fire_utc = Timestamp::from_second(day).expect("in range");
    machine.pass(23 * HOUR);
    assert_eq!(entry.look(&machine.now()), Look::Waits, "no step of a clock");
    machine.pass(HOUR + 7);
    assert_eq!(tick(&mut entry, &machine).map(|fire| fire.slot.as_second()), Some(day));
    assert_eq!(secs(&entry) % 900, 0, "back in its phase");
}

#[test]
fn fm_loop_fire_kill_an_instant_that_a_hand_put_before_the_making_is_told_once() {
    let machine = Machine::new();
    let mut entry = made(Some(24 * 3600), &machine);
    let later = Machine { wall: START + 10, boot_ms: machine.boot_ms + 10_000, ..machine };
    entry.next_fire_utc = Timestamp::from_second(START - HOUR / 2).expect("in range");
    let Look::Due(fire) = entry.look(&later.now()) else { panic!("it is due") };
    entry.had_fired(&fire, fire.further, &later.now());
    assert_eq!((secs(&entry), entry.look(&later.now())), (24 * HOUR, Look::Waits));
}

#[test]
fn who_is_paused_or_expired_fires_nothing_and_what_passed_is_not_made_up_for() {
    let mut machine = Machine::new();
    let mut entry = made(Some(900), &machine);
    entry.paused = true;
    machine.pass(10_000);
    assert_eq!(entry.look(&machine.now()), Look::Sleeps);
    entry.resume(&machine.now());
    assert_eq!((entry.look(&machine.now()), secs(&entry)), (Look::Waits, 10_800));
    entry.expires_utc = Some(entry.next_fire_utc);
    machine.pass(800);
    assert_eq!((entry.look(&machine.now()), entry.standing()), (Look::Sleeps, Standing::Expired));
}

#[test]
fn t9_a_wall_clock_that_went_back_brings_no_instant_again_to_who_resumes_or_changes_the_interval() {
    for by_interval in [false, true] {
        let mut machine = Machine::new();
        let mut entry = made(Some(900), &machine);
        for _ in 0..4 {
            machine.pass(900);
            assert!(tick(&mut entry, &machine).is_some());
        }
        let last = machine.wall;
        entry.paused = !by_interval;
        machine.pass(1_000);
        machine.wall -= HOUR;
        if by_interval {
            entry.set_interval(Duration::from_secs(60), &machine.now());
        } else {
            entry.resume(&machine.now());
        }
        assert!(secs(&entry) + START > last, "an instant that it fired for: {entry:?}");
        machine.pass(900);
        assert!(matches!(entry.look(&machine.now()), Look::Due(_)), "it comes within an interval: {entry:?}");
    }
}

#[test]
fn who_is_not_paused_loses_nothing_by_being_resumed() {
    let mut machine = Machine::new();
    let mut entry = made(Some(900), &machine);
    machine.pass(1_000);
    entry.resume(&machine.now());
    assert!(matches!(entry.look(&machine.now()), Look::Due(_)));
}

#[test]
fn t3_a_loop_that_is_rescheduled_at_once_twice_in_a_second_fires_twice() {
    let machine = Machine::new();
    let mut entry = made(None, &machine);
    let mut told = Vec::new();
    for _ in 0..2 {
        entry.arm(&machine.now(), Duration::ZERO);
        let slot = entry.next_fire_utc;
        entry.fired(&Fire { slot, further: 0 }, &machine.now());
        told.push(entry.envelope(slot));
    }
    assert_ne!(told[0], told[1]);
}

/// The same by walking every second: slow, and nothing to be clever about.
#[test]
fn t5_what_fires_is_what_a_walk_by_the_second_fires() {
    for (interval, ticks) in [(7_u64, 5_i64), (60, 60), (90, 61), (13, 40)] {
        let mut machine = Machine::new();
        let mut entry = made(Some(interval), &machine);
        let (mut owed, mut total) = (0_u64, 0_u64);
        for second in 1..=4000_i64 {
            machine.pass(1);
            owed += u64::from(second.unsigned_abs().is_multiple_of(interval));
            if second % ticks != 0 {
                continue;
            }
            match tick(&mut entry, &machine) {
                Some(fire) => {
                    assert_eq!(fire.further + 1, owed, "{interval} {ticks} at {second}");
                    (owed, total) = (0, total + fire.further + 1);
                }
                None => assert_eq!(owed, 0, "{interval} {ticks} at {second}"),
            }
        }
        assert_eq!(total + owed, 4000 / interval);
    }
}
