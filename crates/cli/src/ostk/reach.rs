//! How verbs of `ostk` reach the anchor of their root.

use std::io::Read as _;
use std::path::Path;

use netsky_kernel::client::Client;

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;

/// The anchor, started if nobody serves and the root is there: a look must not make a root in some folder.
pub(super) fn anchor(cx: &Context) -> Result<Client, Error> {
    let root = cx.kernel_root()?;
    if !root.is_dir() {
        let what = format!("no kernel root at {}", root.display());
        return Err(Error::new(Kind::NotFound, what).hint("`ostk kernel spawn` or `ostk serve` makes one"));
    }
    anchor_or_new(cx)
}

/// The anchor, started if nobody serves; the root is made if it is missing.
pub(super) fn anchor_or_new(cx: &Context) -> Result<Client, Error> {
    let client = Client::ensure(&cx.kernel_root()?, &netsky_disk::spawn::ostk()?)?;
    let then = "; until then it lists and kills, and starts nothing";
    if let Some(waiting) = waiting(client.root(), client.hello().waiting, then) {
        output::complain("ostk", &waiting);
    }
    Ok(client)
}

/// How many rows of the journal a full disk has no room for, and what that means; none if none waits.
pub(super) fn waiting(root: &Path, rows: usize, then: &str) -> Option<String> {
    let wait = match rows {
        0 => return None,
        1 => "1 row of its journal waits".to_owned(),
        _ => format!("{rows} rows of its journal wait"),
    };
    Some(format!("the disk of {} is full: {wait} for room{then}", root.display()))
}

/// A text as it was given, or all of standard input where it is `-`; at most `most` bytes.
pub(crate) fn text(given: String, most: usize) -> Result<String, Error> {
    let mut text = given;
    if text == "-" {
        text.clear();
        let read = std::io::stdin().lock().take(most as u64 + 1).read_to_string(&mut text);
        read.map_err(|e| {
            Error::new(Kind::Usage, format!("failed to read the text from standard input: {e}"))
        })?;
    }
    if text.len() > most {
        return Err(
            Error::new(Kind::Usage, format!("the text is over {most} bytes")).hint("nothing was done")
        );
    }
    Ok(text)
}
