//! A cron expression: what it says, and when it comes next in a zone.
//!
//! Promise: five fields by the rules of Vixie cron, a sixth for seconds before them where somebody wants one. A time of day
//! that is fixed comes once a day that has it, also where the clocks change; a wildcard in minute or hour follows the clock
//! on the wall. What never comes is no expression.
//!
//! The fields are read by croner, which knows names, steps and the days of a month. Instants are ours: croner 4.0.3 takes
//! `0 2,14 * * *` and `*/5 2 * * *` for the same sort of job, drops the first in a gap and runs it twice in an overlap.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// Most bytes of an expression.
pub const LONGEST: usize = 200;
/// How far a search goes: of the calendar nothing takes longer than a 29 February on one day of the week.
const YEARS: i16 = 41;

/// Names for expressions.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A field, as people call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// What it may hold, for people.
    takes: &'static str,
    /// Words that may stand for its numbers.
    pub(super) words: &'static [&'static str],
    /// Letters that mean something.
    marks: &'static str,
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// All of them, seconds first.
pub(super) const FIELDS: [Field; 6] = [
    Field { name: "second", takes: "0 to 59", words: &[], marks: "" },
    Field { name: "minute", takes: "0 to 59", words: &[], marks: "" },
    Field { name: "hour", takes: "0 to 23", words: &[], marks: "" },
    Field {
        name: "day of month",
        takes: "1 to 31, L for the last, 15W for the workday next to it",
        words: &[],
        marks: "LW",
    },
    Field { name: "month", takes: "1 to 12 or JAN to DEC", words: MONTHS, marks: "" },
    Field {
        name: "day of week",
        takes: "0 to 7 or SUN to SAT, 5#2 for the second Friday, 5L for the last",
        words: DAYS,
        marks: "L#",
    },
];

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schedule {text:?}: {why}")]
pub struct BadExpr {
    text: String,
    why: String,
}

/// An expression.
#[derive(Debug, Clone)]
pub struct Expr {
    text: String,
    cron: Box<Cron>,
    hours: Vec<i8>,
    minutes: Vec<i8>,
    seconds: Vec<i8>,
    follows_the_wall: bool,
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Expr {
    type Err = BadExpr;

    fn from_str(text: &str) -> Result<Expr, BadExpr> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let bad = |why: String| BadExpr { text: text.chars().take(80).collect(), why };
        if text.len() > LONGEST {
            return Err(bad(format!("it has {} bytes, at most {LONGEST} are read", text.len())));
        }
        let whole = expanded(&text).map_err(bad)?;
        let fields: Vec<&str> = whole.split(' ').collect();
        if !matches!(fields.len(), 5 | 6) || whole.is_empty() {
            let count = fields.iter().filter(|field| !field.is_empty()).count();
            return Err(bad(format!(
                "it has {count} fields and takes 5 (minute, hour, day of month, month, day of week), or 6 with seconds first"
            )));
        }
        let named =
            || fields.iter().enumerate().map(|(at, text)| (FIELDS[at + 6 - fields.len()], at + 1, *text));
        named().try_for_each(|(field, at, text)| check(field, at, text)).map_err(bad)?;
        let parsed = parser(&fields).parse(&whole);
        let cron = parsed.map_err(|error| {
            // Which field that was it does not say.
            let alone = named().find_map(|(field, at, text)| check_alone(field, at, text).err());
            bad(alone.unwrap_or_else(|| error.to_string()))
        })?;
        let expr = Expr::new(text.clone(), cron, &fields);
        // No year but one in four has a 29 February, and none a 30.
        match expr.next_civil(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)) {
            Some(_) => Ok(expr),
            None => Err(bad("it names no day that ever comes".to_owned())),
        }
    }
}

fn expanded(text: &str) -> Result<String, String> {
    if !text.starts_with('@') {
        return Ok(text.to_owned());
    }
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, expr)| (*expr).to_owned()).ok_or_else(|| {
        let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
        format!("{text} is not known; there are {}", names.join(", "))
    })
}

/// By Vixie's rule day of month and day of week are alternatives where neither begins with `*`; croner takes `*/2` for a
/// restriction like any other.
fn parser(fields: &[&str]) -> CronParser {
    let [.., day, _, weekday] = fields else { return CronParser::new() };
    let both = day.starts_with('*') || weekday.starts_with('*');
    CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).dom_and_dow(both).build()
}

impl Field {
    fn is_wrong(self, at: usize, text: &str, why: &str) -> String {
        format!("field {at} ({}) is {text:?}: {why}; it takes {}", self.name, self.takes)
    }
}

/// Whether one field has only what may stand there. croner puts numbers in the place of names wherever they stand, and passes
/// by what is empty.
fn check(field: Field, at: usize, text: &str) -> Result<(), String> {
    let bad = |why: &str| field.is_wrong(at, text, why);
    let upper = text.to_ascii_uppercase();
    for item in upper.split(',') {
        if item.is_empty() {
            return Err(bad("nothing stands on one side of a comma"));
        }
        if let Some(odd) = item.chars().find(|c| !c.is_ascii_alphanumeric() && !"*-/#".contains(*c)) {
            return Err(bad(&format!("{odd:?} means nothing here")));
        }
        for part in item.split(['-', '/', '#']) {
            let plain = part.trim_end_matches(|c| field.marks.contains(c));
            let is_number = plain.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number && plain != "*" && !field.words.contains(&plain) {
                return Err(bad(&format!("{part:?} means nothing here")));
            }
        }
    }
    Ok(())
}

/// Whether one field reads by itself.
fn check_alone(field: Field, at: usize, text: &str) -> Result<(), String> {
    let position = FIELDS.iter().position(|known| *known == field).unwrap_or_default();
    let mut alone = ["*"; 6];
    alone[position] = text;
    let parsed = CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Disallowed)
        .build()
        .parse(&alone.join(" "));
    parsed.map(drop).map_err(|error| {
        let said = error.to_string();
        let said = said.split_once(": ").map_or(said.as_str(), |(_, said)| said);
        field.is_wrong(at, text, said.trim_end_matches('.'))
    })
}

impl Expr {
    fn new(text: String, cron: Cron, fields: &[&str]) -> Expr {
        let values = |field: &croner::CronComponent| {
            field.values().into_iter().map(|value| value as i8).collect::<Vec<_>>()
        };
        let [.., minute, hour, _, _, _] = fields else { unreachable!("five fields are there") };
        let follows_the_wall = minute.starts_with('*') || hour.starts_with('*');
        let pattern = &cron.pattern;
        let (hours, minutes, seconds) =
            (values(&pattern.hours), values(&pattern.minutes), values(&pattern.seconds));
        Expr { text, cron: Box::new(cron), hours, minutes, seconds, follows_the_wall }
    }

    /// Whether it follows the clock on the wall where that changes, as wildcards in minute and hour do.
    pub fn follows_the_wall(&self) -> bool {
        self.follows_the_wall
    }

    /// The fields, seconds first where they are given.
    pub(super) fn fields(&self) -> Vec<(Field, String)> {
        let whole = expanded(&self.text).unwrap_or_default();
        let texts: Vec<&str> = whole.split(' ').collect();
        let fields = FIELDS.into_iter().skip(6 - texts.len());
        fields.zip(texts.into_iter().map(str::to_owned)).collect()
    }

    pub(super) fn pattern(&self) -> &croner::CronPattern {
        &self.cron.pattern
    }

    /// The first instant after `after` at which it comes.
    ///
    /// One stretch of a constant offset after the other: within it the wall clock runs as time does.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let last_year = zone.to_datetime(after).year().checked_add(YEARS)?;
        // Slots are whole seconds: what comes within this second has come.
        let mut from = Timestamp::from_second(after.as_second()).ok()?;
        let mut is_over = true;
        loop {
            let offset = zone.to_offset(from);
            let end = zone.following(from).next().map(|change| (change.timestamp(), change.offset()));
            let mut civil = offset.to_datetime(from).checked_add(i64::from(is_over).seconds()).ok()?;
            is_over = false;
            if civil.year() > last_year {
                return None;
            }
            while let Some(found) = self.next_civil(civil) {
                let Ok(at) = offset.to_timestamp(found) else { return None };
                if end.is_some_and(|(end, _)| at >= end) {
                    break;
                }
                if self.follows_the_wall || !is_second_time(found, at, zone) {
                    return Some(at);
                }
                civil = found.checked_add(1.second()).ok()?;
            }
            let (end, next_offset) = end?;
            if !self.follows_the_wall
                && self.is_due_between(offset.to_datetime(end), next_offset.to_datetime(end))
            {
                return Some(end);
            }
            from = end;
        }
    }

    /// Whether a time of day of it lies in a gap: from the first of these on, and before the second.
    fn is_due_between(&self, from: DateTime, to: DateTime) -> bool {
        from < to && self.next_civil(from).is_some_and(|found| found < to)
    }

    /// The first time on a calendar and a clock without zone, from this one on.
    fn next_civil(&self, from: DateTime) -> Option<DateTime> {
        let last_year = from.year().checked_add(YEARS)?;
        let mut date = from.date();
        let mut least = from.time();
        while date.year() <= last_year {
            if !self.cron.pattern.month_match(date.month() as u32).ok()? {
                date = date.last_of_month().tomorrow().ok()?;
                least = Time::midnight();
                continue;
            }
            if self.has_day(date)
                && let Some(time) = self.next_time(least)
            {
                return Some(date.to_datetime(time));
            }
            date = date.tomorrow().ok()?;
            least = Time::midnight();
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let weekday = Weekday::from_days_from_sunday(date.weekday().to_sunday_zero_offset() as u32);
        let pattern = &self.cron.pattern;
        pattern
            .day_match(date.year().into(), date.month() as u32, date.day() as u32, weekday)
            .unwrap_or(false)
    }

    /// The first time of a day, from this one on.
    fn next_time(&self, least: Time) -> Option<Time> {
        for &hour in self.hours.iter().filter(|hour| **hour >= least.hour()) {
            let least_minute = if hour == least.hour() { least.minute() } else { 0 };
            for &minute in self.minutes.iter().filter(|minute| **minute >= least_minute) {
                let is_first = hour == least.hour() && minute == least.minute();
                let least_second = if is_first { least.second() } else { 0 };
                if let Some(second) = self.seconds.iter().find(|second| **second >= least_second) {
                    return Time::new(hour, minute, *second, 0).ok();
                }
            }
        }
        None
    }
}

/// Whether the clock has shown this time of the day before.
fn is_second_time(civil: DateTime, at: Timestamp, zone: &TimeZone) -> bool {
    zone.to_ambiguous_timestamp(civil).earlier().is_ok_and(|earlier| earlier < at)
}

/// An offset as people write it: `+01:00`.
pub fn offset_text(offset: Offset) -> String {
    let minutes = offset.seconds() / 60;
    format!("{}{:02}:{:02}", if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60, minutes.abs() % 60)
}
