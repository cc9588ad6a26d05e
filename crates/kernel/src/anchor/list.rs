//! `session/list`: every session the root knows, also what was put aside.

use netsky_model::id::AgentId;
use serde::Serialize;

use super::state::Anchor;
use crate::rpc::list::{Answer, Params};
use crate::rpc::{MAX_LINE, Page};

/// Most bytes of a part of a list. What describes one session is less than half a line, whatever it says.
const PART: usize = MAX_LINE / 2;

pub(super) fn list(anchor: &Anchor, params: &Params) -> Answer {
    let (sessions, next) = part(params.page.as_ref(), anchor.names(), |name| anchor.view(name).ok());
    Answer { sessions, next }
}

/// What there is to show of names in their order, all of it or as much as a part holds; and where the next part begins
/// behind.
pub(super) fn part<T: Serialize>(
    page: Option<&Page>,
    names: impl IntoIterator<Item = AgentId>,
    mut show: impl FnMut(&AgentId) -> Option<T>,
) -> (Vec<T>, Option<AgentId>) {
    let after = page.and_then(|page| page.after.as_ref());
    let (mut shown, mut bytes, mut last) = (Vec::new(), 0, None);
    for name in names.into_iter().filter(|name| after.is_none_or(|after| name > after)) {
        let Some(one) = show(&name) else { continue };
        if page.is_some() {
            bytes += serde_json::to_vec(&one).map_or(0, |one| one.len() + 1);
            if bytes > PART && !shown.is_empty() {
                return (shown, last);
            }
        }
        shown.push(one);
        last = Some(name);
    }
    (shown, None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::anchor::stage::{on_stage, session};
    use crate::anchor::table::Life;
    use crate::anchor::{lineage, ps};
    use crate::rpc;
    use crate::session::{Keeper, Phase};

    /// Every part, as lines would have them; what each shows must fit one.
    fn parts<A: Serialize>(mut ask: impl FnMut(Page) -> (A, Vec<AgentId>, Option<AgentId>)) -> Vec<AgentId> {
        let (mut names, mut page) = (Vec::new(), Page::default());
        loop {
            let (answer, shown, next) = ask(page);
            let line = serde_json::to_vec(&answer).expect("plain").len();
            assert!(line < MAX_LINE - 1024, "{line}");
            names.extend(shown);
            let Some(next) = next else { return names };
            assert_eq!(names.last(), Some(&next));
            page = Page { after: Some(next) };
        }
    }

    #[test]
    fn a12_what_no_line_holds_is_shown_in_parts_everything_once() {
        on_stage(async |anchor| {
            let long = |n: u32| format!("{n:0>64}").replacen('0', "x", 1);
            for n in 0..5_000 {
                let mut meta = session(&long(n), Keeper::Watchdog);
                meta.lineage = format!("{}-{n:08}", &long(n)[..55]).parse().expect("a lineage");
                if n == 7 {
                    let Phase::Ended { how, at, .. } = meta.phase else { panic!("it has ended") };
                    meta.phase = Phase::Inactive { how, at };
                }
                anchor.put(meta, Life::Gone);
            }
            let all = anchor.names();
            let whole = serde_json::to_vec(&list(&anchor, &Params::default())).expect("plain");
            assert!(whole.len() > 2 * MAX_LINE, "{}", whole.len());
            let of = |page: Page| Params { page: Some(page) };
            let listed = parts(|page| {
                let answer = list(&anchor, &of(page));
                let names = answer.sessions.iter().map(|session| session.name.clone()).collect();
                (answer.clone(), names, answer.next)
            });
            assert_eq!(listed, all);
            let shown = parts(|page| {
                let answer = ps::ps(&anchor, &rpc::ps::Params { page: Some(page) });
                let names = answer.sessions.iter().map(|session| session.name.clone()).collect();
                (answer.clone(), names, answer.next)
            });
            let aside = BTreeSet::from([all[7].clone()]);
            assert_eq!(shown.len(), all.len() - 1);
            assert!(shown.iter().all(|name| !aside.contains(name)));
            let lineages = parts(|page| {
                let answer = lineage::list(&anchor, &rpc::lineage::list::Params { page: Some(page) });
                let names = answer.lineages.iter().map(|lineage| lineage.session.clone()).collect();
                (answer.clone(), names, answer.next)
            });
            assert_eq!(lineages, all);
        });
    }
}
