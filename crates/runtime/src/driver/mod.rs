//! What every driver is: how one kind of program is started, spoken to and understood.
//!
//! Promise: a [`Driver`] has no clock, no file and no thread. Lines of its program go in, bytes for the program and what was
//! learnt come out, and the same lines say the same again: whoever drives may die at any point, read on from an earlier
//! line, and harm nothing. It is plain data, kept beside the offset up to which it has read.
//!
//! Leaves to others: bytes and deaths (`drivers`), mail (`bus`), what a program may cost or own (`watchdog`, `owner`).

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use netsky_disk::fs::Dir;
use netsky_kernel::drain::Usage;
use netsky_kernel::session::Io;
use netsky_model::desired::{Desired, Receipts};
use netsky_model::render;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

mod claude;
mod codex;
mod command;
mod doing;
mod key;

pub use doing::{Ask, AskKind, Doing, SeveralFit, Wedge};
pub use key::MessageKey;

/// Which program of its kind to start, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Environment beyond that of the wish.
    pub env: BTreeMap<String, String>,
    /// Terminal or pipes.
    pub io: Io,
}

/// The program's own name for a conversation, and whether it has been told anything in it: only then there is one to go
/// on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The program's name for it.
    pub id: String,
    /// Whether it was begun.
    #[serde(default)]
    pub begun: bool,
}

/// What a start is made from.
#[derive(Debug, Clone, Copy)]
pub struct StartFrom<'a> {
    /// What should run.
    pub desired: &'a Desired,
    /// The conversation to go on with; none to begin one.
    pub conversation: Option<&'a Conversation>,
    /// The name of a conversation that is begun now, where its starter gives it one: a fresh UUID.
    pub fresh: &'a str,
    /// What it is told of itself, beside its own system prompt.
    pub prompt: &'a str,
}

/// One message for a program: one envelope, or words of netsky itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// What tells it from all others, in every generation.
    pub key: MessageKey,
    /// What the program is shown.
    pub text: String,
}

/// Whether a program can be given a message at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It waits for one.
    Free,
    /// It is at work: what may interrupt goes in, all else waits.
    Steers,
    /// It takes nothing.
    None,
}

/// Bytes for the program, under a name by which they go in at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Unique within one generation; the same bytes twice have the same name.
    pub once: String,
    /// One line, its end included.
    pub bytes: Vec<u8>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum Outcome {
    /// The model had its last word.
    Done,
    /// Somebody stopped it.
    Interrupted,
    /// The program gave up.
    Failed {
        /// What netsky does about it.
        trouble: Trouble,
        /// The program's words.
        why: String,
    },
}

/// Why a turn failed, as far as it decides what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Keys or a login that no longer hold: nothing is sent before somebody has mended that.
    Auth,
    /// The provider is busy, or wants a pause.
    Overloaded,
    /// The model is not there, or not for this account.
    Model,
    /// No answer came.
    Silent,
    /// Anything else.
    Other,
}

impl Trouble {
    /// What it means and what to do, where nobody but a person mends it.
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Trouble::Auth => Some(
                "its keys or its login do not hold (log in and `netsky agent retry` it, or give the slot its key under [agents.<agent>.env], then `netsky agent stop` and `netsky agent` it)",
            ),
            Trouble::Model => Some(
                "its model is not there, or not for this account (choose another by `--model`, after a `netsky agent stop` or `down`)",
            ),
            Trouble::Overloaded | Trouble::Silent | Trouble::Other => None,
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Trouble::Auth => "auth",
            Trouble::Overloaded => "overloaded",
            Trouble::Model => "model",
            Trouble::Silent => "silent",
            Trouble::Other => "other",
        }
    }
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// How.
    pub outcome: Outcome,
    /// Which messages it has dealt with, or was about to; each is told in one turn.
    pub messages: Vec<MessageKey>,
    /// What it took.
    pub usage: Usage,
    /// The program's own name for it, or a number that only rises.
    pub id: String,
}

/// One thing that a driver has learnt from its program.
#[derive(Debug, Clone, PartialEq)]
pub enum Learnt {
    /// It runs, speaks, and takes messages.
    Up {
        /// Its version, as it says.
        version: Option<String>,
    },
    /// Which conversation this is.
    Conversation(Conversation),
    /// Which model answers.
    Model(String),
    /// Nobody wants a message any more that it had not begun.
    Settled(MessageKey),
    /// It will not take a message under the name that it was given, and has forgotten nothing: it comes again under another.
    Untaken(MessageKey),
    /// A turn begins.
    TurnBegan,
    /// A turn is over.
    TurnEnded(TurnEnd),
    /// How much of its context is used, in per cent.
    Context(u8),
    /// It has made its context smaller by itself: what it knew is a summary now.
    Compacted,
    /// What it does has changed; see [`Driver::doing`].
    Doing,
    /// It asks somebody something.
    Asked(Ask),
    /// What it asked is answered, or nobody waits for it any more.
    Withdrawn {
        /// Which.
        id: String,
    },
    /// Something for people to read.
    Said(Entry),
    /// It says something that this driver does not know.
    Unknown(String),
    /// It cannot go on with the conversation that it was started for.
    NoConversation(String),
}

/// One entry of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Entry {
    /// What was put before it.
    User {
        /// The text.
        text: String,
    },
    /// What the model says.
    Agent {
        /// The text, in markdown.
        text: String,
    },
    /// A tool that it uses.
    Tool {
        /// Its name.
        name: String,
        /// What it is given, on one line.
        input: String,
    },
    /// What came back.
    Result {
        /// Whether it failed.
        failed: bool,
        /// The text.
        text: String,
    },
    /// What the program says of itself.
    Note {
        /// The text.
        text: String,
    },
}

/// What came of one step of a driver.
#[derive(Debug, Default)]
pub struct Out {
    /// For the program, in order.
    pub writes: Vec<Write>,
    /// What was learnt, in order.
    pub learnt: Vec<Learnt>,
}

impl Out {
    pub(crate) fn write(&mut self, once: impl Into<String>, line: &serde_json::Value) {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        self.writes.push(Write { once: once.into(), bytes });
    }

    pub(crate) fn learn(&mut self, learnt: Learnt) {
        self.learnt.push(learnt);
    }
}

/// An answer to what a program asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Which question.
    pub ask: String,
    /// Yes or no.
    pub allow: bool,
    /// Words for the program: why not, or the answer to a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What stands between two questions of one ask, and between the answers to them.
pub const BETWEEN: &str = " / ";

impl Answer {
    /// The words to each question of an ask; none where there are none.
    pub(crate) fn to_each(&self, ask: &Ask) -> Vec<&str> {
        let Some(text) = &self.text else { return Vec::new() };
        match ask.questions() {
            0 | 1 => vec![text],
            _ => text.split(BETWEEN).collect(),
        }
    }
}

/// Kinds of programs that are driven by netsky-drivers.
const DRIVEN: [&str; 2] = ["claude", "codex"];

/// The kind of program that speaks for itself.
pub const COMMAND: &str = "command";

/// Every kind of program that a slot can have.
pub const RUNTIMES: [&str; 3] = [COMMAND, "claude", "codex"];

/// Beginnings of variables by which driven programs tell their children whose they are.
const ANOTHERS: [&str; 5] = [
    "CLAUDE_PID",
    "CLAUDE_CODE_SESSION_",
    "CLAUDE_CODE_MESSAGING_",
    "CLAUDE_CODE_RESUME_INTERRUPTED_TURN",
    "CODEX_SANDBOX",
];

/// What a program of a kind inherits from this process's environment beside what every agent does: where its provider is,
/// its keys, its own settings.
pub fn inherited(runtime: &str) -> BTreeMap<String, String> {
    let names: &[&str] = match runtime {
        "claude" => &claude::INHERITED,
        "codex" => &codex::INHERITED,
        _ => &[],
    };
    // What such a program tells those that it starts is about itself: `up` may be said in its shell.
    let is_anothers = |key: &str| ANOTHERS.iter().any(|prefix| key.starts_with(prefix));
    let fits = |key: &str| {
        names.iter().any(|name| match name.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == *name,
        })
    };
    let mut environment = crate::inherited();
    environment.extend(netsky_disk::env::texts().filter(|(key, _)| fits(key) && !is_anothers(key)));
    environment
}

/// Whether netsky-drivers speaks to programs of this kind.
pub fn is_driven(runtime: &str) -> bool {
    DRIVEN.contains(&runtime)
}

/// Whether what an agent was shown is not done with before somebody says so: netsky-drivers does for whom it drives, whatever
/// the wish says.
pub fn has_receipts(desired: &Desired) -> bool {
    is_driven(&desired.runtime) || desired.receipts == Receipts::Ack
}

/// The program of a slot that says no more than its kind.
pub fn default_argv(runtime: &str) -> Option<Vec<String>> {
    is_driven(runtime).then(|| vec![runtime.to_owned()])
}

/// How a program of the wished kind is started.
pub(crate) fn start(from: &StartFrom<'_>) -> Start {
    match from.desired.runtime.as_str() {
        "claude" => claude::start(from),
        "codex" => codex::start(from),
        _ => command::start(from),
    }
}

/// Whether a conversation of that name is there to go on with.
///
/// # Errors
/// Where it would be cannot be looked into: that says nothing of it.
pub fn has_conversation(desired: &Desired, id: &str) -> netsky_disk::Result<bool> {
    keeps_conversation(&desired.runtime, &desired.env, id)
}

/// As [`has_conversation`], of a session as it was started.
pub(crate) fn keeps_conversation(
    runtime: &str,
    env: &BTreeMap<String, String>,
    id: &str,
) -> netsky_disk::Result<bool> {
    match runtime {
        "claude" => claude::has_conversation(env, id),
        "codex" => codex::has_conversation(env, id),
        _ => Ok(false),
    }
}

/// What is in a folder; nothing where there is none, or a link to one.
fn names(folder: &Path) -> netsky_disk::Result<Vec<String>> {
    match Dir::look_into(folder) {
        Err(error) if error.is_not_found() || error.is_no_folder() => Ok(Vec::new()),
        opened => opened?.names(),
    }
}

/// Most keys of finished messages that a driver remembers: more than come back after any death.
const FINISHED: usize = 512;

/// Most messages of which is remembered that they were given in vain: more than wait in any inbox after so many failures.
const IN_VAIN: usize = 512;

/// How often a message was given in vain, also one that was dealt with: cut, it comes again. The newest of them last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "KeptTries")]
struct Tries(VecDeque<(MessageKey, u32)>);

/// As they are kept: the first drivers of Codex had no order.
#[derive(Deserialize)]
#[serde(untagged)]
enum KeptTries {
    InOrder(VecDeque<(MessageKey, u32)>),
    Named(BTreeMap<MessageKey, u32>),
}

impl From<KeptTries> for Tries {
    fn from(kept: KeptTries) -> Tries {
        match kept {
            KeptTries::InOrder(tries) => Tries(tries),
            KeptTries::Named(tries) => Tries(tries.into_iter().collect()),
        }
    }
}

impl Tries {
    fn of(&self, key: &MessageKey) -> u32 {
        self.0.iter().find(|(tried, _)| tried == key).map_or(0, |(_, times)| *times)
    }

    fn set(&mut self, key: MessageKey, times: u32) {
        self.0.retain(|(tried, _)| *tried != key);
        keep_newest((key, times), &mut self.0, IN_VAIN);
    }

    fn keys(&self) -> impl Iterator<Item = &MessageKey> {
        self.0.iter().map(|(key, _)| key)
    }
}

/// Most tools that run, and questions that wait, of which a driver knows: no program that works has so many.
const MOST: usize = 64;

/// Keeps what is newest, and so many of what came before.
pub(crate) fn keep_newest<T>(newest: T, kept: &mut VecDeque<T>, most: usize) {
    while kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(newest);
}

/// Most bytes of all questions that wait, as they are kept: a book has them twice, and has to be read again.
const ASKS: usize = 192 << 10;

/// Most bytes of what one question says: its answer says it again.
const QUESTION: usize = 128 << 10;

/// Whether one more question can be kept. One that cannot is refused at once: nobody would ever answer it.
fn has_room_for(asks: &[Ask], ask: &Ask) -> bool {
    let bytes = |ask: &Ask| serde_json::to_vec(ask).map_or(usize::MAX, |json| json.len());
    asks.len() < MOST && asks.iter().chain([ask]).fold(0, |sum, ask| bytes(ask).saturating_add(sum)) <= ASKS
}

/// What it is told that asks more than can be kept.
const NO_ROOM: &str = "netsky keeps no more questions than it has: ask again when one is answered";

/// A text in which nothing is a mention to a program: what stands behind such a sign at the beginning of a word it would read, call
/// or load, in the name of whoever runs it, and ask nobody. A sign before anything but a name is none.
fn without_mentions(text: &str, signs: &[char], is_name: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_in_word = before.is_some_and(|c: char| c.is_alphanumeric() || ".-_+".contains(c));
        match signs.contains(&c) && !is_in_word && chars.peek().copied().is_some_and(is_name) {
            true => out.push_str(&format!("&#x{:x};", u32::from(c))),
            false => out.push(c),
        }
        before = Some(c);
    }
    out
}

/// As it is, up to so many bytes; of what is longer its beginning, as a text.
fn cut_to(most: usize, value: &serde_json::Value) -> serde_json::Value {
    let text = value.to_string();
    match text.len() > most {
        true => serde_json::Value::String(format!("{}…", &text[..text.floor_char_boundary(most)])),
        false => value.clone(),
    }
}

/// Whether a program's name for a conversation may stand in the name of a file.
fn is_part_of_a_path(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The driver of a kind of program, with what it remembers; none where nobody drives it.
pub(crate) fn driver_of(runtime: &str, memory: &serde_json::Value) -> Option<Box<dyn Driver>> {
    match runtime {
        "claude" => Some(Box::new(claude::Claude::remember(memory))),
        "codex" => Some(Box::new(codex::Codex::remember(memory))),
        _ => None,
    }
}

/// One kind of program, driven.
pub trait Driver: Send {
    /// Another generation begins, in this conversation: what was under way is not any more.
    fn begin(&mut self, conversation: Option<&Conversation>);

    /// The program is met: whatever has to be said to it before anything else, and again to one that may not have it.
    fn greet(&mut self, out: &mut Out);

    /// One line of its output, without its end, as it is read at `now`. Whether that is progress: an answer to
    /// [`Driver::probe`] is none.
    fn line(&mut self, line: &[u8], now: Timestamp, out: &mut Out) -> bool;

    /// Output was lost before the next line: what is not known any more is asked for.
    fn gap(&mut self, out: &mut Out);

    /// Whether it can be given a message now.
    fn room(&self) -> Room;

    /// Whether several messages that it is given one after the other are taken one after the other, none in the middle of
    /// what another made it say.
    fn queues(&self) -> bool;

    /// How many messages it has in its hands.
    fn holds(&self) -> usize;

    /// Put a message before it; `steer` where it is at work and is not to wait for the end of that.
    fn deliver(&mut self, message: &Message, steer: bool, out: &mut Out);

    /// Stop the turn.
    fn interrupt(&mut self, out: &mut Out);

    /// Answer what it asks; nothing where it does not ask that (any more).
    fn answer(&mut self, answer: &Answer, out: &mut Out);

    /// Ask whether it still listens; what comes back is told by [`Driver::heard`].
    fn probe(&mut self, number: u64, out: &mut Out);

    /// The highest probe that was answered.
    fn heard(&self) -> u64;

    /// What it does.
    fn doing(&self) -> &Doing;

    /// What it is if nothing comes for too long in what it does now; none where that may take any time.
    fn silence(&self) -> Option<Wedge>;

    /// Where its program keeps the conversation, as an earlier generation left it.
    ///
    /// # Errors
    /// Where it would be cannot be looked into.
    fn transcript(&self, env: &BTreeMap<String, String>) -> netsky_disk::Result<Option<PathBuf>>;

    /// One line of that: what had become of messages when the program ended.
    fn recall(&mut self, line: &[u8]);

    /// There is no more of it.
    fn recalled(&mut self);

    /// What it asks and nobody has answered.
    fn asks(&self) -> &[Ask];

    /// Whether a message with this key was dealt with.
    fn has_finished(&self, key: &MessageKey) -> bool;

    /// A message is to be sent again though it was before: what is known of it is forgotten.
    fn forget(&mut self, key: &MessageKey);

    /// Its memory, to be kept.
    fn memory(&self) -> serde_json::Value;
}

/// Whether what a program calls a thing by is short enough to be remembered, and as long in a book: theirs are a few dozen
/// letters, digits and signs.
fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
    (1..=256).contains(&id.len()) && id.bytes().all(is_plain)
}

/// What of a program's text fits a line for people, without what could drive a terminal: so many characters, and as many bytes
/// as those of any living script have.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 400;
    let line = render::line(text);
    let end = line.char_indices().nth(MOST).map_or(line.len(), |(at, _)| at);
    match line.floor_char_boundary(end.min(3 * MOST)) {
        end if end < line.len() => format!("{}…", &line[..end]),
        _ => line,
    }
}

/// What an earlier driver kept; it may have been another build. Of what does not read, one field does not take the others with
/// it: whoever forgets that its program is up is not told so again.
fn remember<T: DeserializeOwned + Default>(memory: &serde_json::Value) -> T {
    if let Ok(whole) = T::deserialize(memory) {
        return whole;
    }
    let reads = |field: &(&String, &serde_json::Value)| {
        T::deserialize(&serde_json::json!({ field.0: field.1 })).is_ok()
    };
    let fields = memory.as_object().into_iter().flatten().filter(reads);
    let fields: serde_json::Map<String, serde_json::Value> =
        fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    T::deserialize(serde_json::Value::Object(fields)).unwrap_or_default()
}
