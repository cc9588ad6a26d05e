//! Whether each transport works, now: `netsky owner test`.

use netsky_disk::layout::Layout;
use netsky_model::paging::{TEST, Transport};
use serde::Serialize;

use crate::page::Page;
use crate::push::chain;
use crate::transport::attempt;

/// What became of the test message of one transport.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tested {
    /// Which: its place in its list, and its kind.
    pub transport: String,
    /// Why it did not take it; none if it did.
    pub error: Option<String>,
}

/// Gives each transport of a list a test message, whatever the others say. Nothing is written down of it.
pub fn test(layout: &Layout, transports: &[Transport]) -> Vec<Tested> {
    let page = Page {
        key: TEST.to_owned(),
        text: "Test: this may reach you. Nothing is wrong.".to_owned(),
        test: true,
        ..Page::blank(layout)
    };
    let page = page.named(None);
    let tried = |(name, transport): (String, Transport)| {
        let error = attempt(layout, &transport, &page).err().map(|refused| refused.why);
        Tested { transport: name, error }
    };
    chain(transports).into_iter().map(tried).collect()
}
