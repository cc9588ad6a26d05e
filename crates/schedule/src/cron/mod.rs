//! Cron entries: when a calendar says that an agent is told something.
//!
//! Promise: what is due is decided by [`Known::look`] from an entry, what is kept of it, and an instant; nothing here sends. The
//! owner's file is changed only by [`add`], [`remove`] and [`enable`], around what he wrote.
//! Reading order: [`Expr`] (an expression), `file` (the owner's file), `state` (what the tick keeps), `step`.

mod edit;
mod expr;
mod file;
mod state;
mod step;
mod words;

pub use edit::{EditError, NewEntry, add, enable, remove};
pub use expr::{BadExpr, Expr, LONGEST, offset_text};
pub use file::{
    Broken, CatchUp, Entries, Entry, EntryId, LONGEST_PROMPT, Loaded, MOST, WINDOW, check_prompt, load,
    parse, zone,
};
pub(crate) use state::missed;
pub use state::{Kept, Known, Unread, Unusable, changes, coming, envelope_id};
pub use step::{At, Clocks, Due, LATE, STEP, clocks};
pub use words::{FieldWords, Words};

#[cfg(test)]
mod tests;
