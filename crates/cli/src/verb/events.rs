//! `netsky events`: what the owner sees, from the facts of the record alone.

use std::time::Duration;

use jiff::Timestamp;
use netsky_disk::clock;
use netsky_disk::layout::Layout;
use netsky_disk::wake::Stop;
use netsky_disk::watch::Watch;
use netsky_model::duration;
use netsky_model::feed::Event;
use netsky_owner::Reader;
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// How often the record is looked at without a wake-up.
const RESCAN: Duration = Duration::from_secs(2);

/// Show what happened: what landed, what was repaired, who waits for you
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Go on until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Only what was recorded since: an age (2h, 3d) or a time (2026-04-19T17:22:57Z)
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// Only this kind, or all that begin with it (page, harvest, harvest.landed); may be repeated
    #[arg(long)]
    kind: Vec<String>,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let layout = cx.home()?;
        let mut reader = Reader::default();
        if self.follow {
            return self.follow(cx, layout, &mut reader);
        }
        let events = self.read(layout, &mut reader)?;
        if cx.json {
            return output::json(&json!({ "events": events }));
        }
        if events.is_empty() {
            return output::say("nothing happened");
        }
        events.iter().try_for_each(|event| output::say(&line(event)))
    }
}

impl Args {
    fn follow(&self, cx: &Context, layout: &Layout, reader: &mut Reader) -> Result<(), Error> {
        let stop = Stop::hear()
            .map_err(|e| Error::new(Kind::Failed, format!("failed to listen for signals: {e}")))?;
        let watch = Watch::default();
        while !stop.came() {
            // Before the look, and anew each time: the folder comes with the first fact.
            let watched = watch.add(layout.record());
            if let Err(error) =
                watched.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
            {
                return Err(error.into());
            }
            for event in self.read(layout, reader)? {
                match cx.json {
                    true => output::json(&event)?,
                    false => output::say(&line(&event))?,
                }
            }
            if netsky_disk::env::nobody_reads(&std::io::stdout(), Duration::ZERO) {
                return Ok(());
            }
            watch.wait_or_stop(RESCAN, &stop)?;
        }
        Ok(())
    }

    fn read(&self, layout: &Layout, reader: &mut Reader) -> Result<Vec<Event>, Error> {
        let (mut events, passed) = reader.read(layout)?;
        for what in passed {
            output::complain("netsky", &format!("{what}; the rest is shown"));
        }
        events.retain(|event| self.is_wanted(event));
        Ok(events)
    }

    fn is_wanted(&self, event: &Event) -> bool {
        let is_kind = |kind: &String| {
            let rest = event.kind.strip_prefix(kind.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.since.is_none_or(|since| event.ts >= since)
            && (self.kind.is_empty() || self.kind.iter().any(is_kind))
    }
}

/// When, what kind, and what it says.
fn line(event: &Event) -> String {
    format!("{:.0}  {:<18}  {}", event.ts, event.kind, output::one_line(&event.text))
}

fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(age) = duration::parse(text) {
        return clock::wall().checked_sub(age).map_err(|_| "that is before all time".to_owned());
    }
    text.parse().map_err(|_| "an age is 30m, 2h or 3d, a time 2026-04-19T17:22:57Z".to_owned())
}
