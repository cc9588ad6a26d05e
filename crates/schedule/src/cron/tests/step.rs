//! The step alone: what is due after late looks, sleeps, boots and steps of the calendar.

use jiff::{SignedDuration, Timestamp};
use netsky_model::stamp::Stamp;

use super::super::{At, Due, Entry, Known, LATE, clocks, parse};

fn entry(schedule: &str, more: &str) -> Entry {
    let text = format!(
        "[[entries]]\nid = \"e\"\nagent = \"agent0\"\nprompt = \"x\"\nschedule = \"{schedule}\"\n{more}\n"
    );
    let mut entries = parse(text.as_bytes()).expect("a list");
    assert_eq!(entries.broken, []);
    entries.good.remove(0)
}

fn seen(before: Option<&Known>, entry: &Entry, now: Timestamp, stepped: bool) -> (Known, Option<Due>) {
    Known::look(before, entry, At { now, stepped, late: LATE })
}

fn at(text: &str) -> Timestamp {
    format!("2026-03-10T{text}Z").parse().expect("an instant")
}

/// What is kept of an entry whose first look was at that time.
fn begun(entry: &Entry, now: Timestamp) -> Known {
    let (known, due) = seen(None, entry, now, false);
    assert_eq!(due, None, "nothing is due for who begins");
    known
}

fn look(known: &mut Known, entry: &Entry, now: Timestamp) -> Option<Due> {
    let (later, due) = seen(Some(known), entry, now, false);
    *known = later;
    if let Some(due) = due {
        known.fired(entry, due, now);
    }
    due
}

#[test]
fn must_show_5_eight_hours_that_nobody_looked_are_one_envelope_that_tells_of_the_others() {
    let entry = entry("*/15 * * * *", "");
    let mut known = begun(&entry, at("08:00:10"));
    assert_eq!(known.next_fire_utc, Some(at("08:15:00")));
    assert_eq!(look(&mut known, &entry, at("08:14:59")), None);
    let due = look(&mut known, &entry, at("16:15:30")).expect("due");
    assert_eq!((due.slot, due.further, due.missed), (at("08:15:00"), 32, 32));
    assert_eq!((known.next_fire_utc, known.missed), (Some(at("16:30:00")), 32));
    let due = look(&mut known, &entry, at("16:30:00")).expect("due at its very second");
    assert_eq!((due.slot, due.missed, known.missed), (at("16:30:00"), 0, 0));
}

#[test]
fn what_is_older_than_its_window_is_counted_and_told_with_the_next() {
    let entry = entry("0 11 * * *", "catch_up_window = \"1h\"");
    let mut known = begun(&entry, at("10:00:00"));
    assert_eq!(look(&mut known, &entry, at("13:00:00")), None);
    assert_eq!((known.missed, known.untold), (1, 1));
    let tomorrow = at("11:00:20") + SignedDuration::from_hours(24);
    assert_eq!(look(&mut known, &entry, tomorrow).map(|due| (due.further, due.missed)), Some((0, 1)));
    assert_eq!((known.missed, known.untold), (1, 0));
    // A minute is no outage, however small the window.
    let entry = self::entry("0 11 * * *", "catch_up_window = \"1s\"");
    let mut known = begun(&entry, at("10:00:00"));
    assert!(look(&mut known, &entry, at("11:01:59")).is_some());
}

#[test]
fn who_skips_is_told_what_is_due_now_alone() {
    let entry = entry("*/15 * * * *", "catch_up = \"skip\"");
    let mut known = begun(&entry, at("08:00:10"));
    assert_eq!(look(&mut known, &entry, at("12:20:00")), None);
    assert_eq!((known.missed, known.untold, known.next_fire_utc), (17, 17, Some(at("12:30:00"))));
    let due = look(&mut known, &entry, at("16:01:00")).expect("the one at four");
    assert_eq!((due.slot, due.further, due.missed), (at("16:00:00"), 0, 31));
    assert_eq!((known.missed, known.untold), (31, 0));
    assert_eq!(look(&mut known, &entry, at("16:16:00")).map(|due| due.missed), Some(0));
}

#[test]
fn what_waits_unread_stands_for_what_comes_after_it() {
    let entry = entry("*/15 * * * *", "");
    let mut known = begun(&entry, at("08:00:10"));
    look(&mut known, &entry, at("08:15:00")).expect("due");
    for quarter in 2..=32 {
        let now = at("08:00:01") + SignedDuration::from_mins(15 * quarter);
        let (mut later, due) = seen(Some(&known), &entry, now, false);
        later.coalesced(&entry, due.expect("due"), now);
        known = later;
    }
    assert_eq!((known.missed, known.last_slot_utc), (31, Some(at("08:15:00"))));
    assert_eq!(
        look(&mut known, &entry, at("16:15:00")).map(|due| due.missed),
        Some(0),
        "it was told of them"
    );
    assert_eq!(known.missed, 0);
}

#[test]
fn t3_what_was_told_before_a_death_is_not_told_again_and_what_came_since_is() {
    let entry = entry("*/15 * * * *", "");
    let mut known = begun(&entry, at("08:00:10"));
    let (_, due) = seen(Some(&known), &entry, at("08:15:10"), false);
    let told = due.expect("due").slot;
    // Nobody kept that. The next one finds the same instant, however late.
    let (later, due) = seen(Some(&known), &entry, at("09:20:00"), false);
    known = later;
    let due = due.expect("due");
    assert_eq!((due.slot, due.further), (told, 4));
    // What it placed told of that instant alone.
    let placed = Due { further: 0, missed: 0, ..due };
    known.had_fired(&entry, placed, at("09:20:00"));
    assert_eq!((known.last_slot_utc, known.next_fire_utc), (Some(told), Some(at("08:30:00"))));
    let due = look(&mut known, &entry, at("09:20:00")).expect("what came since");
    assert_eq!((due.slot, due.further, due.missed), (at("08:30:00"), 3, 3));
}

#[test]
fn t3_a_catch_up_that_was_placed_before_a_death_is_the_only_one() {
    let entry = entry("*/15 * * * *", "");
    let mut known = begun(&entry, at("08:00:10"));
    let due = look(&mut known, &entry, at("09:20:00")).expect("due");
    assert_eq!((due.slot, due.further), (at("08:15:00"), 4));
    known.had_fired(&entry, due, at("09:21:00"));
    assert_eq!((known.missed, known.next_fire_utc), (4, Some(at("09:30:00"))));
    assert_eq!(look(&mut known, &entry, at("09:21:00")), None, "all of them were told of");
}

#[test]
fn what_is_skipped_when_it_is_late_is_late_by_the_interval_of_looks_and_never_for_what_could_not_be_told() {
    let entry = entry("0 11 * * *", "catch_up = \"skip\"");
    let known = begun(&entry, at("08:00:10"));
    let due = |known: &Known, minutes, now| {
        let late = SignedDuration::from_mins(minutes);
        Known::look(Some(known), &entry, At { now: at(now), stepped: false, late }).1.map(|due| due.slot)
    };
    assert_eq!(due(&known, 2, "11:07:00"), None);
    assert_eq!(due(&known, 20, "11:07:00"), Some(at("11:00:00")), "a look each ten minutes");
    let narrow = self::entry("0 11 * * *", "catch_up_window = \"1m\"");
    let (known_narrow, at_late) = (begun(&narrow, at("08:00:10")), SignedDuration::from_mins(20));
    let look = At { now: at("11:07:00"), stepped: false, late: at_late };
    assert!(Known::look(Some(&known_narrow), &narrow, look).1.is_some(), "it is no outage");
    let (mut failed, first) = seen(Some(&known), &entry, at("11:00:10"), false);
    assert!(first.is_some());
    failed.failed("no room");
    assert_eq!(due(&failed, 2, "11:30:00"), Some(at("11:00:00")), "it stays due");
}

#[test]
fn what_an_entry_said_last_stands_for_what_comes_by_another_schedule_too() {
    let old = entry("*/15 * * * *", "");
    let mut known = begun(&old, at("08:00:10"));
    let due = look(&mut known, &old, at("08:15:10")).expect("due");
    known.fired(&old, due, at("08:15:10"));
    let (later, _) = seen(Some(&known), &entry("*/10 * * * *", ""), at("08:16:00"), false);
    assert!(later.last_id.is_some() && later.last_id == known.last_id);
}

#[test]
fn what_fails_stays_due_with_its_reason() {
    let entry = entry("*/15 * * * *", "");
    let mut known = begun(&entry, at("08:00:10"));
    let (later, due) = seen(Some(&known), &entry, at("08:15:10"), false);
    known = later;
    known.failed("no room");
    assert_eq!(
        (known.next_fire_utc, known.last_error.as_deref()),
        (due.map(|due| due.slot), Some("no room"))
    );
    let due = look(&mut known, &entry, at("08:31:00")).expect("due still");
    assert_eq!((due.slot, due.further, known.last_error.as_deref()), (at("08:15:00"), 1, None));
}

#[test]
fn another_schedule_or_zone_and_one_that_counts_again_begin_anew() {
    let old = entry("*/15 * * * *", "");
    let mut known = begun(&old, at("08:00:10"));
    for changed in [entry("*/10 * * * *", ""), entry("*/15 * * * *", "tz = \"Asia/Kolkata\"")] {
        let (known, due) = seen(Some(&known), &changed, at("09:01:00"), false);
        assert_eq!((due, known.missed), (None, 0), "nothing is caught up");
        assert!(known.next_fire_utc > Some(at("09:01:00")));
    }
    let off = entry("*/15 * * * *", "enabled = false");
    assert_eq!(look(&mut known, &off, at("09:01:00")), None);
    assert_eq!(known.next_fire_utc, None);
    assert_eq!(look(&mut known, &old, at("10:01:00")), None);
    assert_eq!((known.next_fire_utc, known.missed), (Some(at("10:15:00")), 0));
}

#[test]
fn one_that_was_made_since_the_last_tick_has_what_came_in_between() {
    let entry = |made: &str| entry("0 11 * * *", &format!("created_utc = {made:?}"));
    let first = |made: &str, now| seen(None, &entry(made), now, false).1.map(|due| due.slot);
    assert_eq!(first("2026-03-10T10:59:30Z", at("11:00:10")), Some(at("11:00:00")));
    assert_eq!(first("2026-03-10T10:00:00Z", at("11:00:10")), None, "whose state was lost begins from now");
    assert_eq!(first("2026-03-10T11:00:05Z", at("11:00:10")), None);
    assert_eq!(first("2030-01-01T00:00:00Z", at("11:00:10")), None);
}

fn stamp(wall_s: i64, boot_s: u64, boot: &str) -> Stamp {
    let wall = Timestamp::from_second(1_800_000_000 + wall_s).expect("in range");
    Stamp { wall, boot_ms: boot_s * 1000, boot_id: boot.to_owned() }
}

#[test]
fn t9_a_calendar_that_was_set_is_told_from_time_that_passed() {
    let hour = 60 * 60;
    let before = stamp(0, 1_000, "b1");
    for (now, stepped, keep) in [
        (stamp(60, 1_060, "b1"), None, false),
        // It slept.
        (stamp(8 * hour, 1_000 + 8 * hour as u64, "b1"), None, false),
        (stamp(60 + 3 * hour, 1_060, "b1"), None, true),
        (stamp(60 - 3 * hour, 1_060, "b1"), None, true),
        (stamp(60 + 4 * hour, 1_060, "b1"), Some(4 * hour), true),
        (stamp(60 - 24 * hour, 1_060, "b1"), Some(-24 * hour), true),
        // It slept, and was set back for as long.
        (stamp(0, 1_000 + 8 * hour as u64, "b1"), Some(-8 * hour), true),
        // Another boot may have been off for any time, and may not have gone back.
        (stamp(100 * hour, 5, "b2"), None, true),
        (stamp(-2 * hour, 5, "b2"), None, true),
        (stamp(-4 * hour, 5, "b2"), Some(-4 * hour), true),
    ] {
        let found = clocks(Some(&before), &now);
        let stepped = stepped.map(SignedDuration::from_secs);
        assert_eq!((found.stepped, found.keep), (stepped, keep), "{now:?}");
    }
    assert_eq!((clocks(None, &before).stepped, clocks(None, &before).keep), (None, true));
}

#[test]
fn t9_after_a_step_all_begins_anew_and_a_small_one_back_tells_nothing_again() {
    let entry = entry("*/15 * * * *", "");
    let mut known = begun(&entry, at("12:00:10"));
    look(&mut known, &entry, at("12:15:00")).expect("due");
    // Two hours back: what is next stays next.
    for minute in 0..136 {
        let now = at("10:16:00") + SignedDuration::from_mins(minute);
        let due = look(&mut known, &entry, now);
        assert_eq!(due.map(|due| due.slot), (minute == 134).then(|| at("12:30:00")), "{now}");
    }
    // A day forward, and all of that is nobody's.
    let (known, due) = seen(Some(&known), &entry, at("20:01:00"), true);
    assert_eq!((due, known.next_fire_utc, known.missed), (None, Some(at("20:15:00")), 0));
    let (known, due) = seen(Some(&known), &entry, at("06:01:00"), true);
    assert_eq!((due, known.next_fire_utc), (None, Some(at("06:15:00"))), "and a day back it is soon again");
}

#[test]
fn a_year_of_seconds_is_counted_in_a_moment() {
    let entry = entry("* * * * * *", "");
    let known = begun(&entry, at("08:00:00"));
    let now = at("08:00:00") + SignedDuration::from_hours(24 * 365);
    let (known, due) = seen(Some(&known), &entry, now, false);
    assert_eq!(due.map(|due| (due.slot, due.further)), Some((at("08:00:01"), 99_999)));
    assert!(known.next_fire_utc == Some(at("08:00:01")));
}

/// A simple model: every instant of a schedule is told, or counted with one that is told, once.
#[test]
fn must_show_4_every_instant_of_ten_years_is_told_or_counted_once_however_the_looks_come() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let all = ["30 2 * * *", "0 */2 * * *", "0,30 1-3 * * *", "@hourly"];
    for zone in
        ["Europe/Berlin", "America/St_Johns", "Africa/Casablanca", "Antarctica/Troll", "America/Havana"]
    {
        for schedule in all {
            let entry = entry(schedule, &format!("tz = \"{zone}\"\ncatch_up_window = \"9999d\""));
            let begin: Timestamp = "2025-01-01T00:00:00Z".parse().expect("an instant");
            let end: Timestamp = "2035-12-31T00:00:00Z".parse().expect("an instant");
            let (mut known, mut now, mut told, mut last) = (begun(&entry, begin), begin, 0, begin);
            while now < end {
                // Mostly at once, sometimes late, and now and then after days.
                let wait = match random(20) {
                    0 => 60 + random(60 * 60 * 24 * 3),
                    1..4 => 60 + random(60 * 90),
                    _ => 60 * 20,
                };
                now += SignedDuration::from_secs(wait as i64);
                let Some(due) = look(&mut known, &entry, now) else { continue };
                assert!(
                    due.slot > last && due.slot <= now,
                    "{schedule} in {zone}: {} after {last}",
                    due.slot
                );
                last = due.slot;
                told += 1 + due.missed;
                assert!(look(&mut known, &entry, now).is_none(), "one catch-up for an outage");
            }
            let all =
                std::iter::successors(entry.next(begin), |at| entry.next(*at)).take_while(|at| *at <= now);
            assert_eq!(told, all.count() as u64, "{schedule} in {zone}");
        }
    }
}
