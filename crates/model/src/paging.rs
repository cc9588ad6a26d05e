//! Pages: what the owner must hear of, how far each condition's page got, and whether it is due.
//!
//! Promise: a page is due until a transport took it; then once more whenever its condition is raised again, but not within
//! the cool-down, and while it lasts. Pure: `owner` looks, asks here, and sends.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::duration;
use crate::render;
use crate::stamp::Stamp;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long a page waits that the owner may have; twice that each time that it was sent again.
const DOUBT: Duration = Duration::from_secs(60);

/// Milliseconds by which the two clocks part without a step: they are read one after the other, and a sleep rounds.
const STEP: u64 = 5_000;

/// Longest text of a page, in characters: what a telephone shows, and what the smallest service takes.
pub const LONGEST: usize = 1_000;
/// Most attempts that are kept of one page; the failures before them are counted.
pub const TRIES: usize = 8;
/// The kind of the facts that are pages.
pub const PAGE: &str = "page";
/// The condition of the weekly test.
pub const TEST: &str = "page-test";
/// How the conditions begin that somebody escalates.
pub const ESCALATED: &str = "escalate/";

/// `[page]` of `config.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Paging {
    /// Tried in this order until one takes the page.
    pub transports: Vec<Transport>,
    /// How long nothing is sent of a condition that was paged for.
    #[serde(deserialize_with = "duration::unquoted")]
    pub cool_down: Duration,
    /// When a condition that lasts is paged for again.
    #[serde(deserialize_with = "duration::unquoted")]
    pub again: Duration,
    /// How often every transport is given a test page.
    #[serde(deserialize_with = "duration::unquoted")]
    pub test: Duration,
    /// Whether these stand in for settings that are there and do not read: what takes a page by them is not what was asked for.
    #[serde(skip)]
    pub stand_in: bool,
    /// Whether this constellation is not the one that speaks to the owner.
    #[serde(skip)]
    pub muted: bool,
}

impl Default for Paging {
    fn default() -> Paging {
        let (again, test) = (HOUR * 24, HOUR * 24 * 7);
        Paging { transports: Vec::new(), cool_down: HOUR, again, test, stand_in: false, muted: false }
    }
}

/// One way to the owner.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Transport {
    /// A program that is given the page on its standard input; 0 means that it took it.
    Command {
        /// Program, by its path, and arguments.
        argv: Vec<String>,
    },
    /// POST of the page as JSON.
    Webhook {
        /// Where to.
        url: String,
        /// With what the body is signed (HMAC-SHA256).
        secret: Option<Secret>,
    },
    /// Publish to a topic of ntfy.
    Ntfy {
        /// Server and topic.
        url: String,
        /// The access token.
        secret: Option<Secret>,
    },
    /// Append a line to a file.
    File {
        /// Which; `logs/pages.jsonl` if none.
        path: Option<PathBuf>,
    },
    /// A message of Messages, on macOS.
    Imessage {
        /// For whom: a number or an address that is known to it.
        to: String,
        /// What runs its script; the system's own if none.
        program: Option<PathBuf>,
    },
}

impl Transport {
    /// What kind it is, in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Transport::Command { .. } => "command",
            Transport::Webhook { .. } => "webhook",
            Transport::Ntfy { .. } => "ntfy",
            Transport::File { .. } => "file",
            Transport::Imessage { .. } => "imessage",
        }
    }

    /// Why it can never take a page.
    fn trouble(&self) -> Option<&'static str> {
        match self {
            Transport::Command { argv } => {
                let is_path = argv.first().is_some_and(|program| program.starts_with('/'));
                (!is_path).then_some("argv begins with the path of a program, from the root on")
            }
            Transport::Webhook { url, secret } | Transport::Ntfy { url, secret } => {
                let is_plain = url.starts_with("http://");
                if !is_plain && !url.starts_with("https://") {
                    return Some("url begins with https:// or http://");
                }
                let stays = ["127.0.0.1", "localhost", "[::1]"];
                let leaks = matches!(self, Transport::Ntfy { .. })
                    && is_plain
                    && secret.is_some()
                    && !stays.contains(&host(url));
                leaks.then_some("a token goes over https:// only")
            }
            Transport::Imessage { .. } if !cfg!(target_os = "macos") => Some("imessage is for macOS"),
            Transport::Imessage { to, .. } if to.trim().is_empty() || to.contains(['\n', '\r']) => {
                Some("to is one number or address")
            }
            Transport::File { path } | Transport::Imessage { program: path, .. } => path
                .as_ref()
                .is_some_and(|path| !path.is_absolute())
                .then_some("path begins at the root, or is left out"),
        }
    }
}

/// The host of an address, as whoever connects reads it.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = place.rsplit('@').next().unwrap_or_default();
    match place.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => place,
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and addresses are secrets to many services.
        f.write_str(self.word())
    }
}

/// Where a secret is read each time that it is used.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Secret {
    /// The contents of a file, without white space at its ends.
    File(PathBuf),
    /// What a program prints.
    Command(Vec<String>),
}

/// Which of a list of transports can never take anything, and why.
pub(crate) fn trouble_of(section: &str, transports: &[Transport]) -> Option<String> {
    let wrong = |(at, transport): (usize, &Transport)| {
        Some(format!("[[{section}.transports]] {}: {}", at + 1, transport.trouble()?))
    };
    transports.iter().enumerate().find_map(wrong)
}

impl Paging {
    /// What reads and is of no use.
    pub fn trouble(&self) -> Option<String> {
        trouble_of("page", &self.transports)
    }

    /// Whether this constellation pages for a condition. One that is not the root passes on what somebody escalates, and
    /// nothing else.
    pub fn tells(&self, condition: &str) -> bool {
        !self.muted || condition.starts_with(ESCALATED)
    }

    /// Whether the transports are to be tested.
    pub fn is_test_due(&self, last: &Stamp, now: &Stamp) -> bool {
        !self.muted && !self.transports.is_empty() && is_over(self.test, last, now)
    }
}

/// A condition that was paged for, and how far its page got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What it is, in characters that are harmless anywhere.
    pub text: String,
    /// When it was raised last, for people.
    pub raised: Timestamp,
    /// How often.
    pub times: u64,
    /// Which occurrence raised it last, of one that has names for them: told again it is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<String>,
    /// Whether a transport may have got the page since, and nothing of that was written down.
    pub begun: bool,
    /// How long it has to wait then; none the first time after a death.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// When a transport took its page last.
    pub sent: Option<Stamp>,
    /// Whether that stood in for the transports that were asked for: they get it once their settings read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stood_in: bool,
    /// Whether it was raised after that.
    pub anew: bool,
    /// Attempts in vain since a transport took it.
    pub failures: u32,
    /// The last attempts.
    pub tries: Vec<Try>,
}

/// A page that the owner may have: sent at every tick it could ring all night.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// How often it was sent again.
    pub times: u32,
    /// When it was sent last.
    pub since: Stamp,
}

impl Doubt {
    /// Sent again at that instant: how often it was before is kept.
    pub(crate) fn renewed(doubt: &mut Option<Doubt>, now: Stamp) -> &mut Doubt {
        let times = doubt.as_ref().map_or(0, |doubt| doubt.times);
        doubt.insert(Doubt { times, since: now })
    }

    /// Whether it may be sent again, after at most so long.
    pub(crate) fn is_over(&self, most: Duration, now: &Stamp) -> bool {
        let wait = DOUBT.saturating_mul(2_u32.saturating_pow(self.times)).min(most);
        is_over(wait, &self.since, now)
    }
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// Which transport: its place in the configuration, and its kind.
    pub transport: String,
    /// When it ended.
    pub at: Stamp,
    /// Why the transport did not take it; none if it did.
    pub error: Option<String>,
}

impl Try {
    /// The last attempts with one more, of which so many are kept.
    pub(crate) fn keep(tries: &mut Vec<Try>, tried: Try) {
        tries.push(tried);
        let over = tries.len().saturating_sub(TRIES);
        tries.drain(..over);
    }

    /// Why the last was in vain; none if it was not.
    pub(crate) fn why(tries: &[Try]) -> Option<String> {
        let last = tries.last()?;
        Some(format!("{}: {}", last.transport, last.error.as_ref()?))
    }
}

/// What is to be done about a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Send its page.
    Send {
        /// The owner may have it already.
        repeated: bool,
    },
    /// It was raised again within its cool-down: later.
    Held,
    /// The owner may have it: later.
    Doubted,
    /// The owner knows.
    Done,
}

impl Condition {
    /// One that was raised for the first time.
    pub fn raised(text: &str, at: Timestamp) -> Condition {
        Condition {
            text: harmless(text),
            raised: at,
            times: 1,
            occurrence: None,
            begun: false,
            doubt: None,
            sent: None,
            stood_in: false,
            anew: false,
            failures: 0,
            tries: Vec::new(),
        }
    }

    /// It was raised again.
    pub fn raise(&mut self, text: &str, at: Timestamp) {
        self.text = harmless(text);
        self.raised = at;
        self.times += 1;
        self.anew = self.sent.is_some();
    }

    /// Whether its page is due; `lasts` says that the condition is there still.
    pub fn verdict(&self, terms: &Paging, now: &Stamp, lasts: bool) -> Verdict {
        let send = Verdict::Send { repeated: self.begun || self.doubt.is_some() };
        if self.begun
            && let Some(doubt) = &self.doubt
        {
            return if doubt.is_over(terms.cool_down, now) { send } else { Verdict::Doubted };
        }
        let Some(sent) = &self.sent else { return send };
        if self.stood_in && !terms.stand_in {
            return Verdict::Send { repeated: true };
        }
        // It was begun, so it was due.
        if self.begun {
            return send;
        }
        if self.anew {
            return if is_over(terms.cool_down, sent, now) { send } else { Verdict::Held };
        }
        if lasts && is_over(terms.again, sent, now) { send } else { Verdict::Done }
    }

    /// An attempt begins. Whoever finds it so after our death sends it again: at once the first time, then ever later.
    pub fn begin(&mut self, now: Stamp) {
        if self.begun {
            self.doubted(now).times += 1;
        }
        self.begun = true;
    }

    fn doubted(&mut self, now: Stamp) -> &mut Doubt {
        Doubt::renewed(&mut self.doubt, now)
    }

    /// An attempt ended.
    pub fn tried(&mut self, tried: Try) {
        Try::keep(&mut self.tries, tried);
    }

    /// A transport took it; `stood_in` for those that were asked for.
    pub fn took(&mut self, now: Stamp, stood_in: bool) {
        (self.sent, self.stood_in) = (Some(now), stood_in);
        (self.begun, self.doubt, self.anew, self.failures) = (false, None, false, 0);
    }

    /// A transport took it, as was noted beside; what was raised after that is to be told, and what may have been.
    pub fn took_beside(&mut self, at: &Stamp, now: &Stamp) {
        if self.sent.as_ref().is_none_or(|sent| at.since(sent) > Duration::ZERO) {
            self.took(at.clone(), false);
            self.anew = self.raised > at.wall || may_have_stepped(at, now);
        }
    }

    /// None did; `doubtful` where one may have all the same.
    pub fn in_vain(&mut self, doubtful: bool, now: Stamp) {
        if doubtful {
            self.doubted(now);
        }
        self.begun = doubtful;
        self.failures += 1;
    }

    /// Why it was not taken last.
    pub fn why(&self) -> Option<String> {
        Try::why(&self.tries)
    }
}

/// Whether the wall clock parted from the boot clock between two instants: then it does not say what was before what.
fn may_have_stepped(from: &Stamp, to: &Stamp) -> bool {
    let apart = |stamp: &Stamp| stamp.wall.as_millisecond().saturating_sub_unsigned(stamp.boot_ms);
    from.boot_id != to.boot_id || apart(from).abs_diff(apart(to)) > STEP
}

/// Whether so much time is over since an instant. A page too many is better than none: what lies ahead is over.
pub fn is_over(time: Duration, since: &Stamp, now: &Stamp) -> bool {
    now.age_of(since).is_none_or(|age| age >= time)
}

/// Text as any terminal, telephone or agent may be shown it, cut.
pub fn harmless(text: &str) -> String {
    let shown = render::text(text);
    match shown.char_indices().nth(LONGEST) {
        Some(_) => shown.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => shown,
    }
}

#[cfg(test)]
mod tests;
