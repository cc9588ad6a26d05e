//! `cron.toml`: the owner's entries, read one by one. What does not read of one is told with its line and keeps no other from
//! being read; where the whole file is no TOML, the last copy that was one stands in for it.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{Error, state};
use netsky_model::duration;
use netsky_model::id::AgentId;
use serde::Serialize;
use toml_edit::{Document, Item, TableLike};

use super::Expr;

/// Most entries.
pub const MOST: usize = 1_000;
/// Most bytes of a prompt: an envelope holds it, whatever its characters cost in JSON.
pub const LONGEST_PROMPT: usize = 40 * 1024;
/// How long after its time an entry is caught up where it does not say.
pub const WINDOW: &str = "24h";
/// Longest wait for whoever edits the file: the next tick keeps it as well.
const AN_EDIT: Duration = Duration::from_secs(1);
/// The key of the list.
pub(super) const ENTRIES: &str = "entries";

/// The name of an entry: `cron-<8 hex>`, or a word of its owner's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct EntryId(String);

impl EntryId {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for EntryId {
    type Err = String;

    fn from_str(text: &str) -> Result<EntryId, String> {
        let fits = text.parse::<AgentId>().is_ok();
        let shown: String = text.chars().take(80).collect();
        fits.then(|| EntryId(text.to_owned()))
            .ok_or_else(|| format!("id {shown:?} is not [a-z0-9][a-z0-9-]{{0,63}}"))
    }
}

/// What becomes of times that passed by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CatchUp {
    /// One envelope stands for all of them.
    #[default]
    Once,
    /// They are counted.
    Skip,
}

impl CatchUp {
    /// The word in files.
    pub fn word(self) -> &'static str {
        match self {
            CatchUp::Once => "once",
            CatchUp::Skip => "skip",
        }
    }
}

impl std::str::FromStr for CatchUp {
    type Err = String;

    fn from_str(text: &str) -> Result<CatchUp, String> {
        match text {
            "once" => Ok(CatchUp::Once),
            "skip" => Ok(CatchUp::Skip),
            _ => Err(format!("catch_up {text:?} is not once or skip")),
        }
    }
}

/// An entry that reads.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// Who is told.
    pub agent: AgentId,
    /// When.
    pub schedule: Expr,
    /// By which clock.
    pub zone: TimeZone,
    /// The name of that.
    pub tz: String,
    /// What is told.
    pub prompt: String,
    /// What becomes of times that passed by.
    pub catch_up: CatchUp,
    /// How long after its time it is still caught up.
    pub window: Duration,
    /// Whether it counts at all.
    pub enabled: bool,
    /// When somebody made it, where that is said.
    pub created_utc: Option<Timestamp>,
    /// Where it begins in the file.
    pub line: usize,
}

impl Entry {
    /// What decides when it comes: another one begins anew.
    pub fn fingerprint(&self) -> String {
        format!("{} in {}", self.schedule, self.tz)
    }

    /// The first instant after `after` at which it comes.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, &self.zone)
    }
}

/// An entry that does not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Its name, where that reads.
    pub id: Option<String>,
    /// The line that is wrong, or the one that it begins in.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { id, line, why } = self;
        write!(f, "cron.toml line {line}: ")?;
        id.iter().try_for_each(|id| write!(f, "{id}: "))?;
        f.write_str(why)
    }
}

/// What a file says.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    /// Those that read, in the order of the file.
    pub good: Vec<Entry>,
    /// Those that do not.
    pub broken: Vec<Broken>,
}

/// What there is.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The entries that count.
    pub entries: Entries,
    /// Why the file as it is now does not, and what stands in for it.
    pub trouble: Option<String>,
    /// Whether that is the machine's and passes: nobody need hear of it.
    pub passes: bool,
    /// The file as it was read, where it did.
    bytes: Option<Vec<u8>>,
}

/// Read the entries; a home without a file has none.
pub fn load(layout: &Layout) -> Loaded {
    let (why, passes) = match read(layout) {
        Ok(None) => return Loaded::default(),
        Ok(Some(bytes)) => match parse(&bytes) {
            Ok(_) if is_lost(layout, &bytes) => (LOST.to_owned(), false),
            Ok(entries) => return Loaded { entries, bytes: Some(bytes), ..Loaded::default() },
            Err(why) => (why, false),
        },
        Err(error) => (error.to_string(), error.is_busy()),
    };
    let good = good(layout);
    let instead = if good.is_some() { "the last good one is used" } else { "no entry is in force" };
    let trouble = Some(format!("cron.toml: {why}; {instead}"));
    Loaded { entries: good.unwrap_or_default(), trouble, passes, bytes: None }
}

/// What is wrong with a file that is empty though there were entries.
pub(super) const LOST: &str = "it is empty; remove it where no entry is wanted";

/// Whether a file is empty as a power cut leaves what an editor did not sync; who wants no entry has no such file.
pub(super) fn is_lost(layout: &Layout, bytes: &[u8]) -> bool {
    bytes.trim_ascii().is_empty() && good(layout).is_some_and(|good| !good.good.is_empty())
}

/// What the last file said that read.
fn good(layout: &Layout) -> Option<Entries> {
    let good = state::read(layout.good_cron()).ok().flatten()?;
    parse(&good).ok()
}

impl Loaded {
    /// Whether there is no file.
    pub fn is_nothing(&self) -> bool {
        self.trouble.is_none() && self.bytes.is_none()
    }

    /// Keep a file that reads as the one that stands in for the next. Where there is none nothing does any more, and the last one
    /// lies beside it for whoever did not mean that.
    ///
    /// # Errors
    /// The system refuses.
    pub fn keep(&self, layout: &Layout) -> Result<(), Error> {
        if self.is_nothing() && state::exists(layout.good_cron())? {
            let lock = Lock::take_within(layout.cron_file_lock(), AN_EDIT)?;
            return match lock.is_some() && !state::exists(layout.cron())? {
                true => {
                    state::remove(layout.removed_cron())?;
                    state::claim(layout.good_cron(), layout.removed_cron()).map(drop)
                }
                false => Ok(()),
            };
        }
        let Some(bytes) = &self.bytes else { return Ok(()) };
        let is = |read: Result<Option<Vec<u8>>, Error>| read.ok().flatten().as_ref() == Some(bytes);
        // One that cannot be read is written anew.
        if is(state::read(layout.good_cron())) {
            return Ok(());
        }
        // A verb that has edited it since has kept what it wrote.
        let Some(_lock) = Lock::take_within(layout.cron_file_lock(), AN_EDIT)? else { return Ok(()) };
        if is(read(layout)) { state::write(layout.good_cron(), bytes) } else { Ok(()) }
    }
}

/// The bytes of the file; none if there is none.
pub(super) fn read(layout: &Layout) -> Result<Option<Vec<u8>>, Error> {
    state::read(layout.cron())
}

/// The line of a place in a text.
fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Reads a whole file.
///
/// # Errors
/// It is no TOML, or no list of entries: line and reason.
pub fn parse(bytes: &[u8]) -> Result<Entries, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("line {}: {}", line(text, at), error.message().replace('\n', ", "))
    })?;
    let tables = tables(&document, text)?;
    if tables.len() > MOST {
        return Err(format!("it has {} entries, over the limit of {MOST}", tables.len()));
    }
    let mut entries = Entries::default();
    for (table, begin) in tables {
        let begin = line(text, begin);
        let read = read_entry(table, begin).and_then(|entry| {
            match entries.good.iter().find(|known| known.id == entry.id) {
                Some(known) => Err(("id", format!("the entry in line {} has that id", known.line))),
                None => Ok(entry),
            }
        });
        match read {
            Ok(entry) => entries.good.push(entry),
            Err((key, why)) => {
                let at = table.get_key_value(key).and_then(|(key, _)| key.span());
                let id = table.get("id").and_then(Item::as_str).map(|id| id.chars().take(80).collect());
                let line = at.map_or(begin, |span| line(text, span.start));
                entries.broken.push(Broken { id, line, why });
            }
        }
    }
    Ok(entries)
}

/// The entries as tables, and where each begins.
fn tables<'a>(document: &'a Document<&str>, text: &str) -> Result<Vec<(&'a dyn TableLike, usize)>, String> {
    let start = |span: Option<std::ops::Range<usize>>| span.map_or(0, |span| span.start);
    let Some((key, entries)) = document.as_table().get_key_value(ENTRIES) else { return Ok(Vec::new()) };
    let at = |span| line(text, start(span));
    match entries {
        Item::ArrayOfTables(tables) => {
            Ok(tables.iter().map(|table| (table as &dyn TableLike, start(table.span()))).collect())
        }
        Item::Value(toml_edit::Value::Array(list)) => {
            let tables = list.iter().map(|value| match value.as_inline_table() {
                Some(table) => Ok((table as &dyn TableLike, start(value.span()))),
                None => Err(format!("line {}: an entry is a table", at(value.span()))),
            });
            tables.collect()
        }
        _ => Err(format!("line {}: entries is a list of tables, each under [[entries]]", at(key.span()))),
    }
}

/// What is wrong, and with which key.
type Wrong = (&'static str, String);

fn text<'a>(table: &'a dyn TableLike, key: &'static str) -> Result<Option<&'a str>, Wrong> {
    let Some(item) = table.get(key) else { return Ok(None) };
    item.as_str().map(Some).ok_or_else(|| (key, format!("{key} is a text in quotes")))
}

fn needed<'a>(table: &'a dyn TableLike, key: &'static str) -> Result<&'a str, Wrong> {
    text(table, key)?.ok_or_else(|| (key, format!("{key} is missing")))
}

fn read_entry(table: &dyn TableLike, line: usize) -> Result<Entry, Wrong> {
    let of = |key: &'static str| move |why: String| (key, why);
    let id = needed(table, "id")?.parse().map_err(of("id"))?;
    let agent = needed(table, "agent")?;
    let agent = AgentId::from_shorthand(agent).map_err(|error| ("agent", error.to_string()))?;
    let schedule: Expr = needed(table, "schedule")?
        .parse()
        .map_err(|error: super::BadExpr| ("schedule", error.to_string()))?;
    let prompt = needed(table, "prompt")?;
    check_prompt(prompt).map_err(of("prompt"))?;
    let (tz, zone) = zone(text(table, "tz")?.unwrap_or("UTC")).map_err(of("tz"))?;
    let catch_up =
        text(table, "catch_up")?.map_or(Ok(CatchUp::default()), str::parse).map_err(of("catch_up"))?;
    let window = duration::parse(text(table, "catch_up_window")?.unwrap_or(WINDOW))
        .map_err(|error| ("catch_up_window", error.to_string()))?;
    let enabled = match table.get("enabled") {
        None => true,
        Some(item) => item.as_bool().ok_or(("enabled", "enabled is true or false".to_owned()))?,
    };
    Ok(Entry {
        id,
        agent,
        schedule,
        zone,
        tz,
        prompt: prompt.to_owned(),
        catch_up,
        window,
        enabled,
        created_utc: created(table)?,
        line,
    })
}

/// As a text, or as TOML writes instants.
fn created(table: &dyn TableLike) -> Result<Option<Timestamp>, Wrong> {
    let key = "created_utc";
    let Some(item) = table.get(key) else { return Ok(None) };
    let text = item.as_str().map(str::to_owned).or_else(|| item.as_datetime().map(ToString::to_string));
    let read = text.as_deref().and_then(|text| text.parse().ok());
    read.map(Some).ok_or_else(|| (key, format!("{key} is an instant such as 2026-04-19T19:00:00Z")))
}

/// Whether a text may be a prompt.
///
/// # Errors
/// It is empty or too long.
pub fn check_prompt(prompt: &str) -> Result<(), String> {
    match prompt.len() {
        _ if prompt.trim().is_empty() => Err("prompt is empty".to_owned()),
        len if len > LONGEST_PROMPT => {
            Err(format!("prompt has {len} bytes, over the limit of {LONGEST_PROMPT}"))
        }
        _ => Ok(()),
    }
}

/// A zone by its name in the IANA's list, and that name as it is written there.
///
/// # Errors
/// There is none, or this machine does not know it.
pub fn zone(name: &str) -> Result<(String, TimeZone), String> {
    let zone = TimeZone::get(name).map_err(|_| {
        let shown: String = name.chars().take(80).collect();
        format!("tz {shown:?} is no zone that this machine knows (UTC, Europe/Berlin, …)")
    })?;
    Ok((zone.iana_name().unwrap_or(name).to_owned(), zone))
}
