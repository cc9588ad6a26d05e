//! `netsky query SQL`: a question to the record, brought up to date first.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use netsky_disk::bound::Bound;
use netsky_disk::layout::Layout;
use netsky_ledger::{Answer, Cell, Limits, MAX_ROWS, TIME};
use netsky_model::duration;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{DESCRIPTORS, Error, Kind, ROOM, WRITABLE};
use crate::output;
use crate::run::Run;

/// How long another ingest is waited for before the answer comes from what is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to do about what passes.
const AGAIN: &str = "nothing was lost; repeat later";

/// Longest time that a question may ask for.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// How much later than its time a question is ended that cannot be interrupted.
const LATE: Duration = Duration::from_millis(200);

/// Ask the record a question in SQL
///
/// The record is brought up to date first. Tables and columns: `netsky ledger schema`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One SELECT, or what describes tables
    #[arg(value_name = "SQL")]
    question: String,
    /// Print comma-separated values; what does not print stands there as `\u001b`, as --json has it
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Most rows, at most 100000
    #[arg(long, value_name = "N", default_value_t = MAX_ROWS, value_parser = rows)]
    limit: usize,
    /// Longest time for the answer
    #[arg(long, value_name = "DURATION", value_parser = patience)]
    timeout: Option<Duration>,
}

fn rows(text: &str) -> Result<usize, String> {
    let rows = text.parse::<usize>().map_err(|e| e.to_string())?;
    if rows > MAX_ROWS { Err(format!("no answer has more than {MAX_ROWS} rows")) } else { Ok(rows) }
}

fn patience(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text).map_err(|e| e.to_string())?;
    if time > LONGEST { Err(format!("over {} min", LONGEST.as_secs() / 60)) } else { Ok(time) }
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        if self.question.trim_matches(|c: char| c.is_whitespace() || c == ';').is_empty() {
            return Err(Error::new(Kind::Usage, "the question is empty").hint("see `netsky query --help`"));
        }
        let layout = cx.home()?;
        let mut unmade = (Kind::Busy, "nobody made one".to_owned(), AGAIN.to_owned());
        let mut lacking = |kind, why: String, way: String| {
            unmade = (kind, why.clone(), way.clone());
            let what = format!("the newest of the record is not in the answer: {why}");
            Some(Error::new(Kind::Degraded, what).hint(way))
        };
        let mut lacks = match netsky_ledger::ingest(layout, PATIENCE.min(self.timeout.unwrap_or(TIME))) {
            Ok(Some(done)) => super::ledger::to_tell(&done),
            Ok(None) => lacking(Kind::Busy, "another ingest is at work".to_owned(), AGAIN.to_owned()),
            Err(error @ netsky_ledger::Error::Unsuited(_)) => return Err(error.into()),
            Err(error) => lacking(lasting(&error), error.to_string(), way_out(layout, &error)),
        };
        let limits = Limits { rows: self.limit, time: self.timeout.unwrap_or(TIME) };
        let mut answered = self.ask(layout, limits, &mut lacks);
        if let Ok(Some(answer)) = &answered
            && let Err(error) = self.print(cx, answer)
        {
            answered = Err(error);
        }
        if let (Err(_), Some(damage)) = (&answered, damage(&lacks)) {
            // What was done about it is done, and told once, whatever is wrong with the question or with where its answer goes.
            output::complain("netsky", &damage.to_string());
        }
        let Some(answer) = answered? else {
            let (kind, why, way) = unmade;
            let what = format!("there is no database yet, and none could be made: {why}");
            return Err(Error::new(kind, what).hint(way));
        };
        match lacks {
            Some(lacks) => Err(lacks),
            None if answer.more => {
                let what = format!("these are the first {} rows; there are more", answer.rows.len());
                let way = if answer.rows.len() < self.limit {
                    "narrow the question: an answer has a bounded size"
                } else if self.limit < MAX_ROWS {
                    "narrow the question, or raise --limit"
                } else {
                    "narrow the question: no answer has more rows"
                };
                Err(Error::new(Kind::Degraded, what).hint(way))
            }
            None => Ok(()),
        }
    }
}

/// Ends the program where a question goes on past its time: SQLite looks at the clock between two steps of its machine, and
/// one call of `instr` is one step, which may take half an hour. Nothing is held then but what the system takes back.
fn bound(time: Duration, damage: Option<&Error>) -> Result<Bound, Error> {
    let late = Error::from(netsky_ledger::Error::TooSlow(time));
    let code = late.kind as i32;
    let lines: String = damage.into_iter().chain([&late]).map(|error| format!("netsky: {error}\n")).collect();
    Bound::set(time.saturating_add(LATE), &lines, code)
        .map_err(|e| Error::new(Kind::Failed, format!("failed to set a timer: {e}")))
}

/// The damage that was mended on the way; what else the answer lacks is told with it only.
fn damage(lacks: &Option<Error>) -> Option<&Error> {
    lacks.as_ref().filter(|lacks| lacks.kind == Kind::Damaged)
}

/// What it comes to where none could be made: what passes is busy.
fn lasting(error: &netsky_ledger::Error) -> Kind {
    match error {
        netsky_ledger::Error::Disk(error) => Kind::of(error),
        denied if denied.is_denied() => Kind::Refused,
        _ => Kind::Busy,
    }
}

/// What to do where the newest could not be brought in.
fn way_out(layout: &Layout, error: &netsky_ledger::Error) -> String {
    match error {
        full if full.is_full() => ROOM.to_owned(),
        few if few.is_out_of_descriptors() => DESCRIPTORS.to_owned(),
        netsky_ledger::Error::Disk(error) if error.source.kind() == ErrorKind::ReadOnlyFilesystem => {
            "nothing was lost, make it writable".to_owned()
        }
        // Of what the record is made of, not of the database.
        netsky_ledger::Error::Disk(shut)
            if Kind::of(shut) == Kind::Refused
                && shut.path != layout.meta_db()
                && shut.path != layout.home() =>
        {
            format!("{} must be yours alone and open to you (`chmod u+rwX,go-rwx`)", shut.path.display())
        }
        denied if denied.is_denied() => WRITABLE.to_owned(),
        lasts if lasting(lasts) != Kind::Busy => "nothing was lost".to_owned(),
        _ => AGAIN.to_owned(),
    }
}

/// What is wrong with a question, and what may be asked.
fn explained(error: netsky_ledger::Error) -> Error {
    if !error.is_wrong_question() {
        return error.into();
    }
    let tables = netsky_ledger::schema().unwrap_or_default();
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    Error::new(Kind::Usage, format!("failed to {error}"))
        .hint(format!("there are {}; their columns: `netsky ledger schema`", names.join(", ")))
}

impl Args {
    /// Asks. A database that the question finds damaged is made anew and asked once more, and the answer `lacks` nothing then
    /// but that this is told.
    fn ask(
        &self,
        layout: &Layout,
        limits: Limits,
        lacks: &mut Option<Error>,
    ) -> Result<Option<Answer>, Error> {
        let once = |lacks: &Option<Error>| {
            let _bound = bound(limits.time, damage(lacks))?;
            Ok::<_, Error>(netsky_ledger::query(layout, &self.question, limits))
        };
        let mut asked = once(lacks)?;
        if asked.as_ref().is_err_and(netsky_ledger::Error::is_damage)
            && let Ok(Some(done)) = netsky_ledger::mend(layout, PATIENCE.min(limits.time))
        {
            let told = super::ledger::to_tell(&done);
            if told.is_some() || damage(lacks).is_none() {
                *lacks = told;
            }
            asked = once(lacks)?;
        }
        asked.map_err(explained)
    }

    fn print(&self, cx: &Context, answer: &Answer) -> Result<(), Error> {
        if cx.json {
            let columns = columns(answer);
            return output::json_rows(answer.rows.iter().map(|cells| Object { columns: &columns, cells }));
        }
        if self.csv {
            return output::lines(csv(answer));
        }
        let named: Vec<String> = answer.columns.iter().map(|name| output::short(name)).collect();
        let headers: Vec<&str> = named.iter().map(String::as_str).collect();
        output::aligned(&headers, &answer.rows, |cell| output::short(&text(cell)), "no rows")
    }
}

/// Where each column is and its name, by name; of columns that share a name the later ones get a number.
fn columns(answer: &Answer) -> BTreeMap<String, usize> {
    let mut columns = BTreeMap::new();
    for (at, column) in answer.columns.iter().enumerate() {
        let mut name = column.clone();
        for n in 2.. {
            if !columns.contains_key(&name) {
                break;
            }
            name = format!("{column}_{n}");
        }
        columns.insert(name, at);
    }
    columns
}

/// A row as an object.
struct Object<'a> {
    columns: &'a BTreeMap<String, usize>,
    cells: &'a [Cell],
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.columns.iter().map(|(name, at)| (name, value(&self.cells[*at]))))
    }
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) => json!(number),
        Cell::Real(number) => json!(number),
        Cell::Text(text) => json!(text),
        Cell::Blob(_) => json!(text(cell)),
    }
}

/// A cell as it is shown; bytes as SQL writes them.
fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Int(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Blob(bytes) => {
            format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    }
}

/// Comma-separated values as RFC 4180 has them, with a header. What drives a terminal or does not show is not left out
/// but escaped as in JSON, so that who reads it sees that it was there.
fn csv(answer: &Answer) -> impl Iterator<Item = String> {
    let quoted = |text: &str| {
        let text = output::escape_unseen(text);
        if text.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    };
    let header: Vec<String> = answer.columns.iter().map(|name| quoted(name)).collect();
    let row =
        move |row: &Vec<Cell>| row.iter().map(|cell| quoted(&text(cell))).collect::<Vec<String>>().join(",");
    std::iter::once(header.join(",")).chain(answer.rows.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(columns: &[&str], row: Vec<Cell>) -> Answer {
        Answer {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: vec![row],
            more: false,
        }
    }

    #[test]
    fn columns_that_share_a_name_are_all_there() {
        let answer = answer(&["n", "n", "n"], vec![Cell::Int(1), Cell::Int(2), Cell::Null]);
        let object = Object { columns: &columns(&answer), cells: &answer.rows[0] };
        assert_eq!(json!(object), json!({ "n": 1, "n_2": 2, "n_3": null }));
    }

    #[test]
    fn values_with_commas_quotes_and_lines_stay_one_value() {
        let cells = vec![Cell::Text("a,\"b\"\nc".to_owned()), Cell::Blob(vec![0, 255]), Cell::Real(0.5)];
        let printed = csv(&answer(&["x,y", "b", "r"], cells)).collect::<Vec<_>>().join("\n");
        assert_eq!(printed, "\"x,y\",b,r\n\"a,\"\"b\"\"\nc\",x'00ff',0.5");
    }

    #[test]
    fn a10_what_does_not_print_is_escaped_in_a_value_and_not_left_out() {
        let cells = ["a\u{1b}[31m", "b\r\n", "\u{200b}\u{e0041}"].map(|text| Cell::Text(text.to_owned()));
        let printed = csv(&answer(&["x\u{7}", "y", "z"], cells.into())).collect::<Vec<_>>().join("\n");
        assert_eq!(printed, "x\\u0007,y,z\na\\u001b[31m,\"b\\u000d\n\",\\u200b\\udb40\\udc41");
    }
}
