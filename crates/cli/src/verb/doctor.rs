//! `netsky doctor`: what a constellation needs of its home and its machine.

use netsky_watchdog::{Health, doctor};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Look at everything that netsky needs of its home and this machine, each with its remedy
///
/// Exit code 0 where nothing is bad; a note is none. What is on disk is judged by `netsky check`, who runs by `netsky status`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Mend what can be mended at any time: folders that are missing, markers that are past their time
    #[arg(long)]
    fix: bool,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        if self.fix {
            cx.owner_only("doctor --fix")?;
        }
        let found = doctor(&cx.constellation()?, self.fix);
        if cx.json {
            output::json(&serde_json::json!({ "checks": found }))?;
        } else {
            let rows = found.iter().map(|one| {
                let remedy = one.remedy.clone().unwrap_or_default();
                vec![one.id.to_owned(), one.state.word().to_owned(), one.what.clone(), remedy]
            });
            output::table(&["what", "is", "", "remedy"], rows.collect(), "")?;
        }
        let bad: Vec<&str> = found.iter().filter(|one| one.state == Health::Bad).map(|one| one.id).collect();
        match bad.is_empty() {
            true => Ok(()),
            false => Err(Error::new(Kind::Failed, format!("{} needs somebody", bad.join(", ")))
                .hint("each line has its remedy")),
        }
    }
}
