//! What a transport is given.

use jiff::Timestamp;
use netsky_disk::clock;
use netsky_disk::layout::Layout;
use netsky_model::feed::Event;
use netsky_model::paging::{Condition, TEST};
use serde::Serialize;

/// One page or digest, as `command` and `webhook` get it and as `file` keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page {
    /// Format version.
    pub v: u64,
    /// The condition: one page each, and a repeat has the same. Of a digest its first and its last event.
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
    /// By which it is known again where it went: what is sent again has the same.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What a digest tells of, each event whole and in the order of the record; none of a page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

impl Page {
    /// Of nothing yet.
    pub(crate) fn blank(layout: &Layout) -> Page {
        Page {
            v: 1,
            key: String::new(),
            text: String::new(),
            raised: clock::wall(),
            times: 1,
            repeated: false,
            test: false,
            home: layout.home().display().to_string(),
            reference: String::new(),
            events: Vec::new(),
        }
    }

    pub(crate) fn of(layout: &Layout, key: &str, condition: &Condition, repeated: bool) -> Page {
        let page = Page {
            key: netsky_model::render::line(key),
            text: condition.text.clone(),
            raised: condition.raised,
            times: condition.times,
            // A test that is due is another than the one of the week before.
            repeated: repeated || (condition.sent.is_some() && key != TEST),
            test: key == TEST,
            ..Page::blank(layout)
        };
        // Of a condition that lasts the page before was another.
        page.named(condition.sent.as_ref().map(|sent| sent.wall))
    }

    /// The same with the name that it has wherever it goes; `after` tells it from one that says the same.
    pub(crate) fn named(mut self, after: Option<Timestamp>) -> Page {
        let said = (&self.home, &self.key, self.raised, self.times, after);
        let said = serde_json::to_vec(&said).unwrap_or_default();
        self.reference = blake3::hash(&said).to_hex()[..16].to_owned();
        self
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

    /// How loud it is, in the words of ntfy.
    pub(crate) fn priority(&self) -> &'static str {
        match (self.test, self.events.is_empty()) {
            (true, _) => "low",
            (false, true) => "urgent",
            (false, false) => "default",
        }
    }

    /// The word that ntfy keeps with it.
    pub(crate) fn tag(&self) -> String {
        format!("netsky-{}", self.reference)
    }
}
