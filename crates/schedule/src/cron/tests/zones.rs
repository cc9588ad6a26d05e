//! What an expression means where clocks change, against the plain walk of `reference`, and the table of it in the docs.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::super::{Expr, offset_text};
use super::reference::{Reference, walk};

/// Zones whose clocks change by an hour, by two and by half an hour, at midnight, before Ramadan, back in summer, and never.
const ZONES: [&str; 12] = [
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Los_Angeles",
    "America/Santiago",
    "America/Havana",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Asia/Kolkata",
];

/// All of them in minutes that five divides, as it does the offsets of all these zones.
const SPARSE: [&str; 13] = [
    "0 * * * *",
    "0 */2 * * *",
    "0 11 * * *",
    "30 2 * * *",
    "0,15,30,45 0-3 * * *",
    "30 2,14 * * *",
    "0 0 * * *",
    "15 1 * * 0",
    "*/20 2 * * *",
    "30 1 1-7 * 0",
    "45 2 */2 * 1-5",
    "0 0 29 2 *",
    "5 0-23/3 13 * 5",
];

const DENSE: [&str; 5] =
    ["* * * * *", "*/5 * * * *", "* 2 * * *", "0-59/7 1-3 * 3,10,11 *", "1,2,59 * 1-31/2 * 7"];

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or_else(|error| panic!("this machine has no zones: {error}"))
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn found(expr: &Expr, (from, to): (Timestamp, Timestamp), zone: &TimeZone) -> Vec<Timestamp> {
    std::iter::successors(expr.next(from, zone), |at| expr.next(*at, zone))
        .take_while(|at| *at <= to)
        .collect()
}

/// Holds the expressions against the walk; how many instants both found.
fn agree(texts: &[&str], range: (Timestamp, Timestamp), minutes: usize, name: &str) -> usize {
    let zone = zone(name);
    let references: Vec<Reference> = texts.iter().map(|text| Reference::new(text)).collect();
    let mut count = 0;
    for (text, expected) in texts.iter().zip(walk(&references, range, minutes, &zone)) {
        let expr: Expr = text.parse().expect("an expression");
        let found = found(&expr, range, &zone);
        let odd = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert!(
            found == expected,
            "{text:?} in {name} after {}: {odd:?}, {} of {}",
            range.0,
            found.len(),
            expected.len()
        );
        // Whoever asks in the second before it hears of it, and who asks at it of the next.
        for at in found.iter().take(500) {
            let before = *at - SignedDuration::from_millis(700);
            assert_eq!(expr.next(before, &zone), Some(*at), "{text:?} in {name}, asked at {before}");
        }
        count += found.len();
    }
    count
}

/// Every change of clocks from 2025 to 2035.
fn changes(name: &str) -> Vec<Timestamp> {
    let zone = zone(name);
    let changes = zone.following(at("2025-01-01T00:00:00Z")).map(|change| change.timestamp());
    changes.take_while(|change| *change < at("2036-01-01T00:00:00Z")).collect()
}

#[test]
fn must_show_4_around_every_change_of_clocks_in_twelve_zones() {
    let all: Vec<&str> = SPARSE.iter().chain(&DENSE).copied().collect();
    let margin = SignedDuration::from_hours(30);
    let (mut count, mut walked) = (0, 0);
    for name in ZONES {
        for change in changes(name) {
            count += agree(&all, (change - margin, change + margin), 1, name);
            walked += 1;
        }
    }
    assert!(walked >= 200 && count > 1_000_000, "{walked} changes, {count} instants");
}

#[test]
fn must_show_4_ten_years_of_twelve_zones_have_no_instant_twice_and_none_too_few() {
    let range = (at("2025-01-01T00:00:00Z"), at("2035-12-31T23:59:00Z"));
    let half = |names: &'static [&'static str]| {
        std::thread::spawn(move || names.iter().map(|name| agree(&SPARSE, range, 5, name)).sum::<usize>())
    };
    let (first, second) = ZONES.split_at_checked(6).expect("twelve");
    let [first, second] = [first.to_vec(), second.to_vec()].map(|names| half(names.leak()));
    let count = first.join().expect("they agree") + second.join().expect("they agree");
    assert!(count > 2_000_000, "{count}");
}

/// The cases that the docs show: an expression, a zone, the day of a change, and what that change is.
const CASES: [(&str, &str, &str); 14] = [
    ("30 2 * * *", "Europe/Berlin", "2026-03-29"),
    ("0,30 2 * * *", "Europe/Berlin", "2026-03-29"),
    ("30 2,14 * * *", "Europe/Berlin", "2026-03-29"),
    ("0 2,3 * * *", "Europe/Berlin", "2026-03-29"),
    ("*/30 2 * * *", "Europe/Berlin", "2026-03-29"),
    ("*/30 1-3 * * *", "Europe/Berlin", "2026-03-29"),
    ("30 2 * * *", "Europe/Berlin", "2026-10-25"),
    ("0,30 2 * * *", "Europe/Berlin", "2026-10-25"),
    ("*/30 2 * * *", "Europe/Berlin", "2026-10-25"),
    ("30 1 * * *", "America/New_York", "2026-11-01"),
    ("0 0 * * *", "America/Havana", "2026-03-08"),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04"),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05"),
    ("30 1 * * *", "Antarctica/Troll", "2026-03-29"),
];

fn table() -> String {
    let mut table = String::from(
        "| schedule | zone | day | the clock | comes at | which is in UTC |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for (text, name, day) in CASES {
        let (zone, expr): (_, Expr) = (zone(name), text.parse().expect("an expression"));
        let date: jiff::civil::Date = day.parse().expect("a day");
        let start = zone.to_datetime(date.to_zoned(zone.clone()).expect("a day of the zone").timestamp());
        let begin = start.to_zoned(zone.clone()).expect("its start").timestamp();
        let end = date.tomorrow().and_then(|day| day.to_zoned(zone.clone())).expect("its end").timestamp();
        let just_before = begin - SignedDuration::from_secs(1);
        let change = zone.following(just_before).next().expect("a change").timestamp();
        let [from, to] =
            [change - SignedDuration::from_secs(1), change].map(|at| zone.to_datetime(at).time());
        let from = from.wrapping_add(SignedDuration::from_secs(1));
        let found = found(&expr, (just_before, end - SignedDuration::from_secs(1)), &zone);
        let local = |at: &Timestamp| {
            format!("{} {}", zone.to_datetime(*at).strftime("%H:%M"), offset_text(zone.to_offset(*at)))
        };
        let [local, utc] = [
            found.iter().map(local).collect::<Vec<_>>().join(", "),
            found.iter().map(|at| at.strftime("%H:%M").to_string()).collect::<Vec<_>>().join(", "),
        ];
        let none = |text: String| if text.is_empty() { "not that day".to_owned() } else { text };
        let goes = format!("{} → {}", from.strftime("%H:%M"), to.strftime("%H:%M"));
        table.push_str(&format!(
            "| `{text}` | {name} | {day} | {goes} | {} | {} |\n",
            none(local),
            none(utc)
        ));
    }
    table
}

#[test]
fn must_show_4_the_table_in_the_docs_is_what_happens() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cron.md");
    let kept = std::fs::read_to_string(page).expect("docs/cron.md is there");
    let table = table();
    assert!(kept.contains(&table), "the table of docs/cron.md is stale; it is:\n\n{table}");
}

#[test]
fn seconds_stand_first_where_there_are_six_fields() {
    let expr: Expr = "*/20 59 23 31 12 *".parse().expect("six fields");
    let found = found(&expr, (at("2026-12-31T23:58:00.5Z"), at("2027-01-01T00:00:00Z")), &TimeZone::UTC);
    let seconds: Vec<i64> = found.iter().map(|at| at.as_second() % 60).collect();
    assert_eq!(seconds, [0, 20, 40]);
}

#[test]
fn days_are_either_of_two_fields_unless_one_begins_with_a_star() {
    let days = |text: &str| -> Vec<i8> {
        let expr: Expr = text.parse().expect("an expression");
        let range = (at("2026-01-31T23:59:59Z"), at("2026-02-28T23:59:59Z"));
        found(&expr, range, &TimeZone::UTC).iter().map(|at| TimeZone::UTC.to_datetime(*at).day()).collect()
    };
    // 1 February 2026 is a Sunday.
    assert_eq!(days("0 0 10 * SUN"), [1, 8, 10, 15, 22]);
    assert_eq!(days("0 0 */7 * sun"), [1, 8, 15, 22]);
    assert_eq!(days("0 0 10 * *"), [10]);
    assert_eq!(days("0 0 1-20 * */2"), [1, 3, 5, 7, 8, 10, 12, 14, 15, 17, 19]);
    assert_eq!(days("0 0 L * *"), [28]);
    assert_eq!(days("0 0 * FEB 5#2"), [13]);
    assert_eq!(days("0 0 * * fril"), [27]);
    assert_eq!(days("0 0 LW,14W * *"), [13, 27]);
    assert_eq!(days("@weekly"), [1, 8, 15, 22]);
}

#[test]
fn what_is_no_expression_says_which_field() {
    for (text, told) in [
        ("", "it has 0 fields and takes 5"),
        ("* * * *", "it has 4 fields and takes 5"),
        ("* * * * * * *", "it has 7 fields"),
        ("60 * * * *", "field 1 (minute) is \"60\": Number out of bounds; it takes 0 to 59"),
        ("0 24 * * *", "field 2 (hour) is \"24\""),
        ("0 0 0 * *", "field 3 (day of month) is \"0\""),
        ("0 0 * 13 *", "field 4 (month) is \"13\""),
        ("0 0 * * 8", "field 5 (day of week) is \"8\""),
        ("0 0 0 0 0 0", "field 4 (day of month) is \"0\""),
        ("MON * * * *", "field 1 (minute) is \"MON\": \"MON\" means nothing here"),
        ("0 0 * JAN1 *", "\"JAN1\" means nothing here"),
        ("0 0 L5 * *", "\"L5\" means nothing here"),
        ("0 0 * * 5-", "field 5 (day of week) is \"5-\""),
        ("** * * * *", "\"**\" means nothing here"),
        ("0 0 * * MONDAY", "\"MONDAY\" means nothing here"),
        ("0 0 * SUN *", "field 4 (month)"),
        ("0 , * * *", "nothing stands on one side of a comma"),
        ("1,,2 * * * *", "nothing stands on one side of a comma"),
        ("0 5/15 * * *", "field 2 (hour) is \"5/15\""),
        ("*/0 * * * *", "Step cannot be zero"),
        ("0 0 ? * *", "'?' means nothing here"),
        ("0 0 * * +1", "'+' means nothing here"),
        ("0 0 * * 5-1", "Range out of bounds"),
        ("0 0 30 2 *", "it names no day that ever comes"),
        ("@reboot", "@reboot is not known; there are @yearly"),
        ("99999999999999999999 * * * *", "field 1 (minute)"),
        ("é * * * *", "'é' means nothing here"),
    ] {
        let told_is = text.parse::<Expr>().expect_err(text).to_string();
        assert!(told_is.contains(told) && told_is.lines().count() == 1, "{text:?}: {told_is}");
    }
    assert!("*".repeat(300).parse::<Expr>().expect_err("too long").to_string().contains("300 bytes"));
}

#[test]
fn an_expression_is_told_in_words() {
    let says = |text: &str| {
        let words = text.parse::<Expr>().expect("an expression").words();
        words.fields.into_iter().map(|field| format!("{}: {}", field.field, field.says)).collect::<Vec<_>>()
    };
    assert_eq!(
        says("*/15 9-17 1,15W JAN-MAR 7"),
        [
            "minute: every 15th one, from the first",
            "hour: 9 to 17",
            "day of month: 1, the workday nearest to the 15th",
            "month: JAN to MAR",
            "day of week: SUN"
        ]
    );
    assert_eq!(says("0 0 0 LW 2 5#2,mon")[5], "day of week: the 2nd FRI of the month, MON");
    assert_eq!(says("@hourly")[0], "minute: 0");
}
