//! Edits of `cron.toml` by verbs: what people wrote around an entry stays, and so does what somebody writes meanwhile.

use jiff::Timestamp;
use netsky_disk::fs::{Dir, Place, write_durable};
use netsky_disk::layout::Layout;
use netsky_disk::lock::Lock;
use netsky_disk::{Error, fault, random, state};
use netsky_model::id::AgentId;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value, value};

use super::file::{self, CatchUp, ENTRIES, EntryId, MOST};

/// How often an edit begins anew because somebody else wrote the file.
const TRIES: usize = 5;
/// Most bytes of the file.
const MOST_BYTES: usize = 1024 * 1024;

/// Why the file was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The system refuses.
    #[error(transparent)]
    Disk(#[from] Error),
    /// It does not read as it is.
    #[error("cron.toml: {0}")]
    Unreadable(String),
    /// No entry has that id.
    #[error("no cron entry is {0}")]
    NoEntry(EntryId),
    /// Which one is meant is not to be known.
    #[error("{count} cron entries have the id {id}")]
    Several {
        /// The id.
        id: EntryId,
        /// How many.
        count: usize,
    },
    /// It tells somebody else something.
    #[error("cron entry {id} is of {agent}, and this session is {me}")]
    Others {
        /// The entry.
        id: EntryId,
        /// Whom it tells.
        agent: String,
        /// Who asks.
        me: AgentId,
    },
    /// There is no room in it for one more.
    #[error("cron.toml takes no more: it may have {MOST} entries and {MOST_BYTES} bytes")]
    Full,
    /// Somebody writes it all the time.
    #[error("cron.toml was changed by somebody else meanwhile, {TRIES} times in a row")]
    Changed,
}

/// What a new entry says; all of it was looked at before.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// Who is told.
    pub agent: AgentId,
    /// When.
    pub schedule: String,
    /// What is told.
    pub prompt: String,
    /// By which clock.
    pub tz: String,
    /// What becomes of times that passed by.
    pub catch_up: CatchUp,
    /// How long after its time it is still caught up.
    pub window: String,
    /// Now.
    pub created_utc: Timestamp,
}

/// Append an entry.
///
/// # Errors
/// The file does not read or takes no more, or the system refuses; it is as it was then.
pub fn add(layout: &Layout, new: &NewEntry) -> Result<EntryId, EditError> {
    edit(layout, |text| {
        let document: DocumentMut = understood(text)?;
        if tables(&document).len() >= MOST {
            return Err(EditError::Full);
        }
        let id = format!("cron-{}", random::short());
        let table = table(&id, new);
        let id = id.parse().map_err(EditError::Unreadable)?;
        let edited = match document.get(ENTRIES) {
            Some(Item::Value(_)) => {
                let mut document = document;
                if let Some(list) = document[ENTRIES].as_array_mut() {
                    list.push(table.into_inline_table());
                }
                document.to_string()
            }
            // Behind all that is there: whatever stands at the end stays before it.
            _ => {
                let gap = if text.is_empty() {
                    ""
                } else if text.ends_with('\n') {
                    "\n"
                } else {
                    "\n\n"
                };
                format!("{text}{gap}[[{ENTRIES}]]\n{table}")
            }
        };
        Ok((edited, id))
    })
}

fn table(id: &str, new: &NewEntry) -> Table {
    let mut table = Table::new();
    for (key, text) in [
        ("id", id),
        ("agent", new.agent.as_str()),
        ("schedule", &new.schedule),
        ("prompt", &new.prompt),
        ("tz", &new.tz),
        ("catch_up", new.catch_up.word()),
        ("catch_up_window", &new.window),
    ] {
        table.insert(key, value(text));
    }
    table.insert("enabled", value(true));
    table.insert("created_utc", value(new.created_utc.to_string()));
    table
}

/// Take an entry out; `me` may do that to its own alone, where it is named.
///
/// # Errors
/// As [`add`], and where no entry, or not one alone, has that id.
pub fn remove(layout: &Layout, id: &EntryId, me: Option<&AgentId>) -> Result<(), EditError> {
    edit(layout, |text| {
        let mut document = understood(text)?;
        let at = position(&document, id, me)?;
        if let Some(list) = document[ENTRIES].as_array_mut() {
            list.remove(at);
            return Ok((document.to_string(), ()));
        }
        let mut above = String::new();
        if let Some(entries) = document[ENTRIES].as_array_of_tables_mut() {
            above = entries.get(at).map(comments).unwrap_or_default();
            entries.remove(at);
            // What people wrote above it may be about more than it.
            if let Some(next) = entries.get_mut(at) {
                let own = next.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
                let both = format!("{above}{own}");
                next.decor_mut().set_prefix(both);
                above.clear();
            }
        }
        let behind = document.trailing().as_str().unwrap_or_default().to_owned();
        document.set_trailing(format!("{above}{behind}"));
        Ok((document.to_string(), ()))
    })
}

/// What stands above an entry, without the blank lines that come with it.
fn comments(table: &Table) -> String {
    let above = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if above.trim().is_empty() { String::new() } else { above.to_owned() }
}

/// Have an entry count, or not; `me` as for [`remove`].
///
/// # Errors
/// As [`remove`].
pub fn enable(layout: &Layout, id: &EntryId, enabled: bool, me: Option<&AgentId>) -> Result<(), EditError> {
    edit(layout, |text| {
        let mut document = understood(text)?;
        let at = position(&document, id, me)?;
        let table: Option<&mut dyn TableLike> = match &mut document[ENTRIES] {
            Item::ArrayOfTables(tables) => tables.get_mut(at).map(|table| table as &mut dyn TableLike),
            Item::Value(list) => list
                .as_array_mut()
                .and_then(|list| list.get_mut(at))
                .and_then(Value::as_inline_table_mut)
                .map(|table| table as &mut dyn TableLike),
            _ => None,
        };
        if let Some(table) = table {
            let mut word = Value::from(enabled);
            if let Some(was) = table.get("enabled").and_then(Item::as_value) {
                *word.decor_mut() = was.decor().clone();
            }
            match table.get_mut("enabled") {
                Some(item) => *item = Item::Value(word),
                None => drop(table.insert("enabled", Item::Value(word))),
            }
        }
        Ok((document.to_string(), ()))
    })
}

fn understood(text: &str) -> Result<DocumentMut, EditError> {
    file::parse(text.as_bytes()).map_err(EditError::Unreadable)?;
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Unreadable(error.message().to_owned()))
}

fn tables(document: &DocumentMut) -> Vec<&dyn TableLike> {
    match document.get(ENTRIES) {
        Some(Item::ArrayOfTables(tables)) => tables.iter().map(|table| table as &dyn TableLike).collect(),
        Some(Item::Value(Value::Array(list))) => list
            .iter()
            .filter_map(|value| value.as_inline_table().map(|table| table as &dyn TableLike))
            .collect(),
        _ => Vec::new(),
    }
}

/// Which of the tables has an id.
fn position(document: &DocumentMut, id: &EntryId, me: Option<&AgentId>) -> Result<usize, EditError> {
    let tables = tables(document);
    let text =
        |table: &dyn TableLike, key| table.get(key).and_then(Item::as_str).unwrap_or_default().to_owned();
    let fits: Vec<usize> = (0..tables.len()).filter(|at| text(tables[*at], "id") == id.as_str()).collect();
    let [at] = fits[..] else {
        return Err(match fits.len() {
            0 => EditError::NoEntry(id.clone()),
            count => EditError::Several { id: id.clone(), count },
        });
    };
    let agent = text(tables[at], "agent");
    match me {
        Some(me) if AgentId::from_shorthand(&agent).ok().as_ref() != Some(me) => {
            Err(EditError::Others { id: id.clone(), agent, me: me.clone() })
        }
        _ => Ok(at),
    }
}

/// Puts what `change` makes of the file in its place, where it is still the file that was read.
fn edit<T>(layout: &Layout, change: impl Fn(&str) -> Result<(String, T), EditError>) -> Result<T, EditError> {
    let _lock = Lock::take(layout.cron_file_lock())?;
    for _ in 0..TRIES {
        let before = file::read(layout)?;
        let text = std::str::from_utf8(before.as_deref().unwrap_or_default())
            .map_err(|error| EditError::Unreadable(error.to_string()))?;
        if before.as_deref().is_some_and(|before| file::is_lost(layout, before)) {
            return Err(EditError::Unreadable(format!(
                "{}; copy cron.good.toml over it where that is wanted",
                file::LOST
            )));
        }
        let (after, done) = change(text)?;
        if after.len() > MOST_BYTES {
            return Err(EditError::Full);
        }
        // What does not read any more takes the place of nothing that does.
        file::parse(after.as_bytes()).map_err(EditError::Unreadable)?;
        // First: a file that is empty because its last entry was removed is none that a power cut left.
        state::write(layout.good_cron(), after.as_bytes())?;
        if replace(layout, before.as_deref(), after.as_bytes())? {
            return Ok(done);
        }
    }
    Err(EditError::Changed)
}

/// False where somebody has written it since. It is whole and durable beside its place before that is looked at, so that only
/// the rename is behind the look.
fn replace(layout: &Layout, before: Option<&[u8]>, after: &[u8]) -> Result<bool, Error> {
    let path = layout.cron();
    let home = Dir::open(layout.home())?;
    let tmp = Dir::make(layout.home().join("tmp"))?;
    // What was left by who was killed here: nobody else edits now.
    for left in tmp.raw_names()?.iter().filter(|name| name.to_string_lossy().starts_with("cron.toml.")) {
        tmp.remove(left)?;
    }
    let name = format!("cron.toml.{}", random::short());
    write_durable(&tmp, &tmp, &name, after, Place::New)?;
    let moved =
        fault::point("schedule.cron.edited").map_err(|e| Error::new("replace", &path, e)).and_then(|()| {
            if file::read(layout)?.as_deref() != before {
                return Ok(false);
            }
            match before {
                Some(_) => tmp.rename_over(&name, &home, "cron.toml"),
                None => tmp.rename(&name, &home, "cron.toml"),
            }
            .map(|()| true)
            .or_else(|error| if error.is_exists() { Ok(false) } else { Err(error) })
        });
    if !matches!(moved, Ok(true)) {
        // The first error is the one to tell.
        let _ = tmp.remove(&name);
        return moved;
    }
    home.sync()?;
    Ok(true)
}
