//! `ostk rpc call`: one call as it goes over the wire, for scripts.

use std::time::Duration;

use netsky_kernel::client::ClientError;
use netsky_kernel::rpc::{MAX_LINE, RefusalKind};
use serde_json::Value;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::ostk::reach;
use crate::output;
use crate::run::Run;

/// Call one method of the anchor and print its result as one line of JSON
///
/// Exit codes: 0 done; 2 no such method, or parameters that are not what it takes; 3 not found; 4 refused; 5 busy, or no
/// answer in time; 7 damaged; 1 anything else. `ostk rpc schema --markdown` lists the methods
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Its name, like session/show
    method: String,
    /// Its parameters as a JSON object, or - for standard input
    #[arg(default_value = "{}", value_name = "PARAMS-JSON")]
    params: String,
    /// How long it may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    within: u64,
}

impl Run for Args {
    fn run(self, cx: &Context) -> Result<(), Error> {
        let text = reach::text(self.params, MAX_LINE)?;
        let usage = |why: String| Error::new(Kind::Usage, why).hint("nothing was done");
        let params: Value = serde_json::from_str(&text)
            .map_err(|e| usage(format!("the parameters of {} are not JSON: {e}", self.method)))?;
        if !params.is_object() {
            return Err(usage(format!("the parameters of {} are not a JSON object", self.method)));
        }
        let called = reach::anchor(cx)?.call_raw(&self.method, params, Duration::from_secs(self.within));
        output::json(&called.map_err(refused)?)
    }
}

/// A method that is not there is the caller's mistake, as elsewhere it is a program's.
fn refused(error: ClientError) -> Error {
    match error.kind() {
        Some(RefusalKind::UnknownMethod) => {
            Error::new(Kind::Usage, error.to_string()).hint("see `ostk rpc schema --markdown`")
        }
        _ => error.into(),
    }
}
