//! The rules of a cron expression once more, as plainly as they can be said: a walk over every minute. Shares nothing with
//! what it is held against, neither the reading of fields nor the search.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// An expression of five fields without names, `L`, `W` and `#`.
pub(super) struct Reference {
    fields: [Vec<bool>; 5],
    either_day: bool,
    fixed: bool,
}

const LIMITS: [(usize, usize); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)];

impl Reference {
    pub(super) fn new(text: &str) -> Reference {
        let texts: Vec<&str> = text.split(' ').collect();
        let mut fields: [Vec<bool>; 5] = std::array::from_fn(|at| set(texts[at], LIMITS[at]));
        fields[4][0] |= fields[4][7];
        let is_star = |at: usize| texts[at].starts_with('*');
        Reference { fields, either_day: !is_star(2) && !is_star(4), fixed: !is_star(0) && !is_star(1) }
    }

    fn fits(&self, at: DateTime) -> bool {
        let [minutes, hours, days, months, weekdays] = &self.fields;
        let [minute, hour, day, month] =
            [at.minute(), at.hour(), at.day(), at.month()].map(|value| value as usize);
        let (day, weekday) = (days[day], weekdays[at.weekday().to_sunday_zero_offset() as usize]);
        let on_day = if self.either_day { day || weekday } else { day && weekday };
        minutes[minute] && hours[hour] && months[month] && on_day
    }

    fn comes(&self, left_out: &[DateTime], civil: DateTime, at: Timestamp, zone: &TimeZone) -> bool {
        if !self.fixed {
            return self.fits(civil);
        }
        // The clock has shown this time before: once is enough. And it left out what lies between two minutes: the one behind
        // that stands for all of it.
        self.fits(civil) && !has_been(civil, at, zone) || left_out.iter().any(|civil| self.fits(*civil))
    }
}

/// Of each, every instant after `from` and not after `to`, both whole minutes; so many minutes a step.
pub(super) fn walk(
    all: &[Reference],
    (from, to): (Timestamp, Timestamp),
    minutes: usize,
    zone: &TimeZone,
) -> Vec<Vec<Timestamp>> {
    let mut found = vec![Vec::new(); all.len()];
    let mut before = zone.to_datetime(from);
    for minute in (from.as_second() / 60..=to.as_second() / 60).step_by(minutes).skip(1) {
        let at = Timestamp::from_second(minute * 60).expect("in range");
        let civil = zone.to_datetime(at);
        let left_out = left_out(before, minutes, civil);
        for (reference, found) in all.iter().zip(&mut found) {
            found.extend(reference.comes(&left_out, civil, at, zone).then_some(at));
        }
        before = civil;
    }
    found
}

fn has_been(civil: DateTime, at: Timestamp, zone: &TimeZone) -> bool {
    (1..=180).any(|minutes| {
        let earlier = Timestamp::from_second(at.as_second() - minutes * 60).expect("in range");
        zone.to_datetime(earlier) == civil
    })
}

/// The times that the clock left out between two looks at it.
fn left_out(before: DateTime, minutes: usize, after: DateTime) -> Vec<DateTime> {
    let next = |at: &DateTime, minutes: usize| at.checked_add(jiff::Span::new().minutes(minutes as i64)).ok();
    let first = next(&before, minutes).expect("in range");
    std::iter::successors(Some(first), |at| next(at, 1)).take_while(|at| *at < after).collect()
}

fn set(text: &str, (least, most): (usize, usize)) -> Vec<bool> {
    let mut set = vec![false; 61];
    for item in text.split(',') {
        let (range, step) = item.split_once('/').unwrap_or((item, "1"));
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (from.parse().expect("a number"), to.parse().expect("a number")),
            None if range == "*" => (least, most),
            None => (range.parse().expect("a number"), range.parse().expect("a number")),
        };
        for value in (from..=to).step_by(step.parse().expect("a number")) {
            set[value] = true;
        }
    }
    set
}
