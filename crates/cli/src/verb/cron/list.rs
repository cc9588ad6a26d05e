//! `netsky cron list`: what is told to whom, and when next.

use jiff::Timestamp;
use netsky_disk::clock;
use netsky_model::id::AgentId;
use netsky_schedule::cron::{self, Broken, CatchUp, Entry, Kept, Known, Unusable};
use serde::Serialize;

use super::{Fire, fires};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// List the entries, with the next three times of each in its zone and in UTC
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Times that are shown of each.
const SHOWN: usize = 3;

/// An entry that reads, with what is kept of it.
#[derive(Serialize)]
struct Row {
    id: String,
    enabled: bool,
    schedule: String,
    tz: String,
    agent: AgentId,
    next: Vec<Fire>,
    last_fire_utc: Option<Timestamp>,
    missed: u64,
    last_error: Option<String>,
    prompt: String,
    catch_up: CatchUp,
    catch_up_window_s: u64,
    created_utc: Option<Timestamp>,
    line: usize,
}

/// Those that read, and behind them those that do not.
#[derive(Serialize)]
#[serde(untagged)]
enum Listed {
    Good(Box<Row>),
    Broken { id: Option<String>, line: usize, broken: String },
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let loaded = cron::load(layout);
        let (kept, trouble) = match Kept::read(layout) {
            Ok(kept) => (kept, None),
            Err(Unusable::Disk(error)) => return Err(error.into()),
            Err(Unusable::Newer(version)) => {
                return Err(Error::new(Kind::Refused, Unusable::Newer(version).to_string())
                    .hint("use the newer program; nothing was touched"));
            }
            Err(damaged) => (Kept::default(), Some(format!("{damaged}; the next tick begins anew"))),
        };
        let now = clock::wall();
        let good = loaded
            .entries
            .good
            .iter()
            .map(|entry| Listed::Good(Box::new(row(entry, kept.of(&entry.id), now))));
        let broken = loaded.entries.broken.into_iter().map(|Broken { id, line, why }| Listed::Broken {
            id,
            line,
            broken: why,
        });
        let listed: Vec<Listed> = good.chain(broken).collect();
        let troubles: Vec<String> = loaded.trouble.into_iter().chain(trouble).collect();
        if cx.json {
            return output::json(&serde_json::json!({ "entries": listed, "troubles": troubles }));
        }
        for trouble in &troubles {
            output::say(&format!("warning: {trouble}"))?;
        }
        let headers = [
            "id",
            "counts",
            "schedule",
            "zone",
            "agent",
            "next",
            "next in UTC",
            "last",
            "missed",
            "error",
            "prompt",
        ];
        output::table(&headers, listed.iter().map(cells).collect(), "no cron entry is there")
    }
}

fn row(entry: &Entry, known: Option<&Known>, now: Timestamp) -> Row {
    let known = known.filter(|known| known.schedule == entry.fingerprint()).cloned().unwrap_or_default();
    let next = known.next_fire_utc.or_else(|| entry.next(now)).filter(|_| entry.enabled);
    Row {
        id: entry.id.to_string(),
        enabled: entry.enabled,
        schedule: entry.schedule.to_string(),
        tz: entry.tz.clone(),
        agent: entry.agent.clone(),
        next: fires(next, &entry.schedule, &entry.zone, SHOWN),
        last_fire_utc: known.last_fire_utc,
        missed: known.missed,
        last_error: known.last_error,
        prompt: entry.prompt.clone(),
        catch_up: entry.catch_up,
        catch_up_window_s: entry.window.as_secs(),
        created_utc: entry.created_utc,
        line: entry.line,
    }
}

fn cells(listed: &Listed) -> Vec<String> {
    let none = || "-".to_owned();
    match listed {
        Listed::Good(row) => {
            let times = |of: fn(&Fire) -> &String| {
                let times: Vec<String> = row.next.iter().map(|fire| minutes(of(fire))).collect();
                if times.is_empty() { none() } else { times.join(", ") }
            };
            vec![
                row.id.clone(),
                if row.enabled { "yes" } else { "no" }.to_owned(),
                row.schedule.clone(),
                row.tz.clone(),
                row.agent.to_string(),
                times(|fire| &fire.local),
                times(|fire| &fire.utc),
                row.last_fire_utc.map_or_else(none, |at| minutes(&at.to_string())),
                row.missed.to_string(),
                row.last_error.as_deref().map_or_else(none, output::short),
                output::short(&row.prompt),
            ]
        }
        Listed::Broken { id, line, broken } => {
            let mut cells = vec![none(); 11];
            cells[0] = id.clone().unwrap_or_else(|| format!("line {line}"));
            cells[1] = "broken".to_owned();
            cells[9] = format!("line {line}: {}", output::short(broken));
            cells
        }
    }
}

/// A time without its zone, which stands in another column, and its seconds only where it has some.
fn minutes(time: &str) -> String {
    let time = time.get(..19).unwrap_or(time).replace('T', " ");
    time.strip_suffix(":00").map(str::to_owned).unwrap_or(time)
}
