//! `netsky markers`: what stands in `state/`, since when, and what it means.

use std::time::Duration;

use netsky_model::duration::human;
use netsky_watchdog::markers;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// List the markers of the restart protocol: age, meaning, who writes, reads and clears each; looking clears nothing
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let found = markers(cx.home()?)?;
        if cx.json {
            return output::json(&serde_json::json!({ "markers": found }));
        }
        let rows = found.into_iter().map(|marker| {
            let most =
                marker.most_age_s.map_or_else(|| "-".to_owned(), |most| human(Duration::from_secs(most)));
            let past = if marker.is_past { ", past its time: the next tick removes it" } else { "" };
            let meaning = marker.meaning.unwrap_or("no marker of netsky's");
            vec![
                marker.id,
                human(Duration::from_secs(marker.age_s)),
                most,
                format!("{meaning}{past}"),
                marker.writer.unwrap_or("-").to_owned(),
                marker.reader.unwrap_or("-").to_owned(),
                marker.clearer.unwrap_or("-").to_owned(),
            ]
        });
        output::table(
            &["marker", "age", "most", "meaning", "written by", "read by", "cleared by"],
            rows.collect(),
            "no marker stands",
        )
    }
}
