//! Raising a page: one fact for each occurrence of a condition.
//!
//! Promise: raised twice an occurrence is one fact, and what the record refuses is a problem of the tick and fails nothing else:
//! the owner is told without the record, and whoever raised it tries again until it is a fact.
//! Left to others: when a page is sent (`owner`, by the condition), and what is worth one.

use netsky_ledger::{Facts, PAGE};
use netsky_model::stamp::Stamp;
use serde_json::Value;

use crate::context::Context;
use crate::reserve;
use crate::tick::Ticked;

/// Something that the owner must hear of.
#[derive(Debug)]
pub(crate) struct Raised {
    /// What it is, each time that it happens: its cool-down is for all of them.
    pub(crate) condition: String,
    /// Which time this is.
    pub(crate) occurrence: String,
    /// For people.
    pub(crate) reason: String,
    /// What else is known; an object.
    pub(crate) data: Value,
}

impl Raised {
    /// The key of its fact.
    fn key(&self) -> String {
        format!("{}.{}", self.condition, self.occurrence)
    }
}

/// An occurrence by when it was first seen.
pub(crate) fn since(at: &Stamp) -> String {
    format!("{}.{}", at.boot_id, at.boot_ms)
}

/// Raises a page; whether it is a fact.
pub(crate) fn page(cx: &Context<'_>, raised: &Raised, ticked: &mut Ticked) -> bool {
    let (key, reason) = (raised.key(), &raised.reason);
    let mut data = raised.data.clone();
    data["condition"] = raised.condition.as_str().into();
    data["reason"] = reason.as_str().into();
    // Whoever filled the disk must not keep it from being told.
    let append = || Ok(Facts::new(cx.layout).append_once(PAGE, &key, data.clone())?);
    match reserve::lend(cx, append) {
        Ok(appended) => {
            ticked.done.extend((!appended.repeated).then(|| format!("paged: {reason}")));
            true
        }
        Err(error) => {
            ticked.problems.push(format!("the page of {key} is no fact yet: {error}"));
            // What cannot be kept either is tried again with the fact.
            if let Err(error) = netsky_owner::keep(cx.layout, &raised.condition, &key, reason) {
                ticked.problems.push(format!("the page of {key} waits nowhere: {error}"));
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use netsky_disk::lock::Lock;
    use netsky_ledger::facts;
    use netsky_model::paging::Paging;
    use serde_json::json;

    use super::*;
    use crate::context::in_a_home;

    fn raised() -> Raised {
        Raised {
            condition: "hang.agent1".to_owned(),
            occurrence: "b.1".to_owned(),
            reason: "it hangs".to_owned(),
            data: json!({}),
        }
    }

    #[test]
    fn fm_owner_page_locked_what_the_record_refuses_is_told_without_it_and_once() {
        in_a_home(|cx| {
            let held = Lock::try_take(cx.layout.record_lock()).expect("ours").expect("free");
            let raise = || {
                let mut ticked = Ticked::default();
                (page(cx, &raised(), &mut ticked), ticked)
            };
            let (is_fact, ticked) = raise();
            assert!(!is_fact && ticked.problems[0].contains("is no fact yet"), "{ticked:?}");
            let send = || {
                netsky_owner::send_due(cx.layout, &Paging::default(), &|_| false)
                    .expect("the book is written")
                    .expect("nobody else sends")
                    .done
            };
            assert_eq!(send(), ["paged for hang.agent1 by default file"]);
            drop(held);
            let (is_fact, ticked) = raise();
            assert!(is_fact && ticked.problems.is_empty(), "{ticked:?}");
            assert_eq!(raise().1.done, [""; 0], "told twice it is one fact");
            assert_eq!(facts(cx.layout).expect("they read").len(), 1);
            assert_eq!(send(), [""; 0]);
            let at_once = Paging { cool_down: std::time::Duration::ZERO, ..Paging::default() };
            let seen = netsky_owner::outlook(cx.layout, &at_once, &|_| false).expect("it reads");
            assert_eq!(seen.unsent, None, "the fact is the page that was sent");
        });
    }
}
