//! `netsky owner test`: each transport is given a test message, whatever the others say.

use netsky_owner::{Tested, test};
use netsky_runtime::Config;
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;
use crate::run::Run;

/// Send a test message by each transport of [page] and [owner] in config.toml
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        cx.owner_only("owner test")?;
        let layout = cx.home()?;
        let config = Config::load(layout)
            .map_err(|e| Error::new(Kind::Usage, e.to_string()).hint("nothing was sent"))?;
        let mut lists = vec![("page", test(layout, &config.page.transports))];
        if config.owner.transports != config.page.transports {
            lists.push(("owner", test(layout, &config.owner.transports)));
        }
        told(cx, &lists)?;
        let failed = lists.iter().flat_map(|(_, tested)| tested).filter(|one| one.error.is_some()).count();
        match failed {
            0 => Ok(()),
            failed => Err(Error::new(Kind::Busy, format!("{failed} of the transports did not take a test"))
                .hint("put them right in config.toml and repeat")),
        }
    }
}

fn told(cx: &Context, lists: &[(&str, Vec<Tested>)]) -> Result<(), Error> {
    let all = lists.iter().flat_map(|(list, tested)| tested.iter().map(move |one| (list, one)));
    if cx.json {
        let row = |(list, one): (&&str, &Tested)| json!({ "list": list, "transport": one.transport, "took": one.error.is_none(), "error": one.error });
        return output::json(&json!({ "transports": all.map(row).collect::<Vec<_>>() }));
    }
    let row = |(list, one): (&&str, &Tested)| {
        let said = one.error.clone().unwrap_or_else(|| "took it".to_owned());
        vec![(*list).to_owned(), one.transport.clone(), said]
    };
    output::table(&["list", "transport", "outcome"], all.map(row).collect(), "no transport")
}
