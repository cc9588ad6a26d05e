//! What a transport is given.

use jiff::Timestamp;
use netsky_model::paging::{Condition, TEST};
use serde::Serialize;

/// One page, as `command` and `webhook` get it and as `file` keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page {
    /// Format version.
    pub v: u64,
    /// The condition: one page each, and a repeat has the same.
    pub key: String,
    /// What it is, at most 1,000 characters, none of which drives a terminal.
    pub text: String,
    /// When it was raised last.
    pub raised: Timestamp,
    /// How often it was raised.
    pub times: u64,
    /// Whether the owner may have it already.
    pub repeated: bool,
    /// Whether it only tests the transports.
    pub test: bool,
    /// Which home it comes from.
    pub home: String,
}

impl Page {
    pub(crate) fn of(key: &str, condition: &Condition, repeated: bool, home: String) -> Page {
        Page {
            v: 1,
            key: netsky_model::render::line(key),
            text: condition.text.clone(),
            raised: condition.raised,
            times: condition.times,
            repeated: repeated || condition.sent.is_some(),
            test: key == TEST,
            home,
        }
    }

    /// As one line of JSON; a page is made of nothing that does not encode.
    pub(crate) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What it is about, as a header may hold it.
    pub(crate) fn title(&self) -> String {
        let key = self.key.chars().take(100);
        let plain = key.map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' });
        let again = if self.repeated { " (again)" } else { "" };
        format!("netsky: {}{again}", plain.collect::<String>())
    }
}
