//! `netsky cron next`: an expression in words, and when it comes.

use netsky_disk::clock;
use netsky_schedule::cron::Expr;

use super::{Zone, expr, fires, tz};
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::run::Run;

/// Say what an expression means, and when it comes next
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The expression, in quotes
    #[arg(value_parser = expr)]
    expr: Expr,
    /// By which clock
    #[arg(long, default_value = "UTC", value_parser = tz)]
    tz: Zone,
    /// How many times
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    count: u16,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let Args { expr, tz: Zone { name, zone }, count } = self;
        let next = fires(expr.next(clock::wall(), &zone), &expr, &zone, count.into());
        let words = expr.words();
        if cx.json {
            return output::json(&serde_json::json!({
                "schedule": expr.to_string(), "tz": name, "fields": words.fields, "days": words.days,
                "changes": words.changes, "next": next,
            }));
        }
        let rows = words.fields.into_iter().map(|field| vec![field.field.to_owned(), field.text, field.says]);
        output::table(&["field", "is", "says"], rows.collect(), "")?;
        output::say(&format!("days: {}\nwhere the clocks change: {}", words.days, words.changes))?;
        let rows = next.into_iter().map(|fire| vec![fire.local, fire.utc]);
        output::table(&["next", "in UTC"], rows.collect(), "it never comes")
    }
}
