//! One message through the list of transports, until one takes it.

use netsky_disk::clock;
use netsky_disk::layout::Layout;
use netsky_model::paging::{Transport, Try};

use crate::page::Page;
use crate::transport::{arrived, attempt};

/// What became of it.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    /// Which transport took it.
    pub(crate) by: Option<String>,
    /// What each of the others said.
    pub(crate) failed: Vec<String>,
    /// Whether one of them may have it all the same.
    pub(crate) doubtful: bool,
}

/// The transports in their order, each with its name; without any configured a file of the home.
pub(crate) fn chain(transports: &[Transport]) -> Vec<(String, Transport)> {
    if transports.is_empty() {
        return vec![("default file".to_owned(), Transport::File { path: None })];
    }
    let named = |(at, transport): (usize, &Transport)| {
        (format!("{} {}", at + 1, transport.word()), transport.clone())
    };
    transports.iter().enumerate().map(named).collect()
}

/// Gives it to the first that takes it; a test to all, for the first alone would hide a fallback that does not work. Of what
/// the owner may have already (`again`) those are asked first that can tell.
pub(crate) fn push(
    layout: &Layout,
    transports: &[Transport],
    page: &Page,
    again: bool,
    mut step: impl FnMut(Step),
) -> Pushed {
    let (mut pushed, chain) = (Pushed::default(), chain(transports));
    if again && !page.test {
        for (name, transport) in &chain {
            step(Step::Begins);
            if arrived(layout, transport, page) {
                step(Step::Ended(Try { transport: name.clone(), at: clock::stamp(), error: None }));
                return Pushed { by: Some(name.clone()), ..pushed };
            }
        }
    }
    for (name, transport) in chain {
        step(Step::Begins);
        let tried = attempt(layout, &transport, page);
        let error = tried.as_ref().err().map(|refused| refused.why.clone());
        pushed.doubtful |= tried.as_ref().is_err_and(|refused| refused.doubtful);
        pushed.failed.extend(error.as_ref().map(|why| format!("{name}: {why}")));
        let took = error.is_none();
        step(Step::Ended(Try { transport: name.clone(), at: clock::stamp(), error }));
        if took {
            pushed.by = pushed.by.or(Some(name));
            if !page.test {
                break;
            }
        }
    }
    pushed
}

/// What a push tells of itself meanwhile.
#[derive(Debug)]
pub(crate) enum Step {
    /// The next transport is tried: its time begins.
    Begins,
    /// It was.
    Ended(Try),
}
