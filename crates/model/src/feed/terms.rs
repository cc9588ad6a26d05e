//! `[owner]` of `config.toml`: how the owner wants to be told of what can wait.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Deserializer};

use crate::duration;
use crate::paging::{Transport, trouble_of};

/// Most digests an hour that anybody may ask for.
const LARGEST: u32 = 1_000;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// Tried in this order until one takes the digest; those of pages if none.
    pub transports: Vec<Transport>,
    /// How long the first milestone waits for others.
    #[serde(deserialize_with = "wait")]
    pub digest: Duration,
    /// When no digest is sent.
    pub quiet: Vec<Window>,
    /// In which zone those hours are.
    pub tz: String,
    /// Whether pages wait for their end too.
    pub hold_pages: bool,
    /// Most digests an hour.
    pub most: u32,
    /// Whether this constellation speaks to the owner: `[constellation]` says it.
    #[serde(skip)]
    pub root: bool,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            transports: Vec::new(),
            digest: Duration::from_secs(10 * 60),
            quiet: Vec::new(),
            tz: "UTC".to_owned(),
            hold_pages: false,
            most: 20,
            root: true,
        }
    }
}

fn wait<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    match String::deserialize(from)?.as_str() {
        "0" => Ok(Duration::ZERO),
        text => {
            let text: StrDeserializer<'_, D::Error> = text.into_deserializer();
            duration::unquoted(text)
        }
    }
}

impl Terms {
    /// What reads and is of no use; whether the zone is one only a machine can say.
    pub fn trouble(&self) -> Option<String> {
        if !(1..=LARGEST).contains(&self.most) {
            return Some(format!("[owner] most is {} and must be 1 to {LARGEST}", self.most));
        }
        trouble_of("owner", &self.transports)
    }

    /// Whether an instant lies in a quiet hour.
    pub fn is_quiet(&self, now: Timestamp, zone: &TimeZone) -> bool {
        let time = zone.to_datetime(now).time();
        let minute = u16::from(time.hour().unsigned_abs()) * 60 + u16::from(time.minute().unsigned_abs());
        self.quiet.iter().any(|window| window.has(minute))
    }
}

/// A part of each day: `"22:00-07:00"`, its end left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Minutes of the day.
    from: u16,
    to: u16,
}

impl Window {
    fn has(self, minute: u16) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            // Over midnight.
            false => minute >= self.from || minute < self.to,
        }
    }

    fn parse(text: &str) -> Option<Window> {
        let (from, to) = text.split_once('-')?;
        let window = Window { from: minute(from)?, to: minute(to)? };
        (window.from != window.to).then_some(window)
    }
}

/// `07:05` as minutes of the day.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two = |digits: &str| {
        let is_two = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|_| is_two)
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Window, D::Error> {
        let text = String::deserialize(from)?;
        Window::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("expected a part of a day (such as \"22:00-07:00\")"))
    }
}
