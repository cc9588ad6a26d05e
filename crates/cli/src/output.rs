//! Everything that is printed: sentences, tables and JSON, with control bytes taken out of all of it (faults A10).
//!
//! A write that fails is an error of the verb, never a panic: `channel drain` must know whether its text arrived.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::{Error, Kind};

/// Prints one sentence (or several lines); control characters other than newline and tab are dropped.
pub(crate) fn say(text: &str) -> Result<(), Error> {
    put(&clean(text))
}

/// Prints one JSON object on one line; control characters leave as `\u` escapes.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value)
        .map_err(|e| Error::new(Kind::Failed, format!("failed to write the answer as JSON: {e}")))?;
    put(&escape_controls(&text))
}

/// Prints a table without borders; an empty one is the sentence given for it.
pub(crate) fn table(headers: &[&str], rows: Vec<Vec<String>>, empty: &str) -> Result<(), Error> {
    if rows.is_empty() {
        return say(empty);
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(headers.iter().map(|h| h.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| one_line(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    say(&lines.join("\n"))
}

/// Untrusted text made fit for a table cell or an error line: one line, no control characters.
pub(crate) fn one_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// Drops what could move a cursor or hide text.
fn clean(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

/// JSON escapes C0 by itself; DEL and C1 are legal in it but not harmless on a terminal.
fn escape_controls(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

fn put(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|e| Error::new(Kind::Failed, format!("failed to write to standard output: {e}")))
}
