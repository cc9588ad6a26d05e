//! The owner of the demo's home: what he says in `config.toml`, what he is told, and what he sees.
//!
//! Promise: what he is told goes into a file of the demo and nowhere else.

use std::collections::BTreeSet;

use netsky_disk::state;
use netsky_model::feed::{Event, Level};
use netsky_owner::Reader;
use serde::Deserialize;
use serde_json::json;

use crate::demo::agent::task::FOLDER;
use crate::demo::place::Place;
use crate::demo::programs::{git, owners_verb};
use crate::demo::repository::text;
use crate::error::{Error, Kind};

/// The kind of event that agent0's message to him is.
const SUMMARY: &str = "owner.message";

/// Makes his home, with the repository that work lands in, the gate that judges it, and how he is told.
pub(crate) fn settle(place: &Place) -> Result<(), Error> {
    owners_verb(place, ["init"])?;
    let nothing = text(&git(place, &place.origin(), ["hash-object", "-t", "tree", "/dev/null"])?);
    // No conflict may be left in what the clones commit. Of what else is in a repository of the user's nobody judges.
    let gate = json!(["git", "diff", "--check", nothing, "--", FOLDER]);
    // In TOML a text and a list of texts are as in JSON.
    let (origin, told) = (json!(place.origin()), json!(place.told()));
    let config = format!(
        "[repositories.demo]\npath = {origin}\n\n[gate]\ncommand = {gate}\n\n[owner]\ndigest = \"0\"\nmost = 1000\n\n\
        [[owner.transports]]\nkind = \"file\"\npath = {told}\n\n[[page.transports]]\nkind = \"file\"\npath = {told}\n"
    );
    Ok(state::write(place.layout().config(), config.as_bytes())?)
}

/// What he was told, a page or a digest at a time.
#[derive(Debug, Deserialize)]
struct Page {
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    events: Vec<Event>,
}

fn pages(place: &Place) -> Result<Vec<Page>, Error> {
    let bytes = state::read(place.told())?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let pages: Result<Vec<Page>, _> = lines.map(serde_json::from_slice).collect();
    pages.map_err(|e| Error::new(Kind::Failed, format!("failed to understand what the owner was told: {e}")))
}

/// Whether he has agent0's summary, and was told of everything so far.
pub(crate) fn is_told(place: &Place) -> Result<bool, Error> {
    let (events, _) = Reader::default().read(&place.layout())?;
    let told: usize = pages(place)?.iter().map(|page| page.events.len()).sum();
    let has_summary = events.iter().any(|event| event.kind == SUMMARY);
    Ok(has_summary && milestones(&events).count() == told)
}

/// What `netsky events` says, which the record alone is asked for; he was told each milestone of it once, in that order.
pub(crate) fn judge(place: &Place, problems: &mut Vec<String>) -> Result<Vec<Event>, Error> {
    #[derive(Deserialize)]
    struct Feed {
        events: Vec<Event>,
    }
    let printed = owners_verb(place, ["--json", "events"])?;
    let Feed { events } = serde_json::from_slice(&printed)
        .map_err(|e| Error::new(Kind::Failed, format!("failed to understand the owner's feed: {e}")))?;
    let pages = pages(place)?;
    let each: BTreeSet<&str> = pages.iter().map(|page| page.reference.as_str()).collect();
    if each.len() < pages.len() {
        problems.push("the owner was told something twice".to_owned());
    }
    let told: Vec<&Event> = pages.iter().flat_map(|page| &page.events).collect();
    // What happened since the last look at it may still be on its way.
    if told.is_empty() || !milestones(&events).collect::<Vec<_>>().starts_with(&told) {
        problems.push("the owner was not told what the record says".to_owned());
    }
    let summaries = events.iter().filter(|event| event.kind == SUMMARY).count();
    if summaries != 1 {
        problems.push(format!("agent0 summed up {summaries} times"));
    }
    Ok(events)
}

/// What he is told of, and does not only see when he looks.
pub(crate) fn milestones(events: &[Event]) -> impl Iterator<Item = &Event> {
    events.iter().filter(|event| event.level == Level::Milestone)
}
