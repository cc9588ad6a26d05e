//! The safeguards, as data: what to take out, and which named test must notice.
//! By where the safeguard stands: a file for each crate, more for `bus`, `kernel` and `watchdog`; `attach` and `budget` are of two crates.

mod attach;
mod budget;
mod bus;
mod bus_kept;
mod bus_taken;
mod checkouts;
mod cli;
mod clones;
mod crash;
mod cron;
mod disk;
mod gate;
mod kernel;
mod kernel_clients;
mod kernel_drain;
mod kernel_groups;
mod kernel_journal;
mod kernel_lineages;
mod kernel_rename;
mod kernel_room;
mod kernel_rpc;
mod kernel_screen;
mod kernel_sessions;
mod kernel_successions;
mod kernel_unseen;
mod landing;
mod ledger;
mod ledger_facts;
mod ledger_mail;
mod loops;
mod model;
mod owner;
mod owner_feed;
mod removals;
mod runtime;
mod runtime_bounds;
mod runtime_seen;
mod service;
mod tasks;
mod ticker;
mod time_left;
mod watchdog;
mod watchdog_left;
mod watchdog_looks;
mod watchdog_restarts;
mod watchdog_said;
mod watchdog_verbs;
mod work;

/// One safeguard of the product and the test that holds it.
pub(crate) struct Safeguard {
    /// What is being taken out, in words of the house.
    pub(crate) name: &'static str,
    /// Ids of the promises that rest on it.
    pub(crate) faults: &'static str,
    pub(crate) file: &'static str,
    /// Occurs exactly once in the file.
    pub(crate) find: &'static str,
    pub(crate) replace: &'static str,
    pub(crate) package: &'static str,
    /// Which of the package's test binaries holds the test: [`UNIT`], [`IT`] or [`MEMORY`].
    pub(crate) target: &'static [&'static str],
    /// The test's full name.
    pub(crate) test: &'static str,
}

/// The unit tests of the library.
const UNIT: &[&str] = &["--lib"];
/// The one integration test binary of the crate.
const IT: &[&str] = &["--test", "it"];

/// The same with the machine in memory.
const MEMORY: &[&str] = &["--test", "it", "--features", "memory", "--profile", "campaign"];

impl Safeguard {
    /// The file's text without the safeguard; nothing if it is not there exactly once.
    pub(crate) fn applied(&self, text: &str) -> Option<String> {
        let once = text.matches(self.find).count() == 1;
        once.then(|| text.replacen(self.find, self.replace, 1))
    }
}

/// A row whose test stands in the library of a crate.
const fn of_library(
    package: &'static str,
    name: &'static str,
    faults: &'static str,
    file: &'static str,
    (find, replace): (&'static str, &'static str),
    test: &'static str,
) -> Safeguard {
    Safeguard { name, faults, file, find, replace, package, target: UNIT, test }
}

/// A row whose test walks the verbs.
const fn of_verbs(
    name: &'static str,
    faults: &'static str,
    file: &'static str,
    (find, replace): (&'static str, &'static str),
    test: &'static str,
) -> Safeguard {
    Safeguard { name, faults, file, find, replace, package: "netsky", target: IT, test }
}

/// A row whose test lands work.
const fn of_work(
    name: &'static str,
    faults: &'static str,
    file: &'static str,
    (find, replace): (&'static str, &'static str),
    test: &'static str,
) -> Safeguard {
    Safeguard { name, faults, file, find, replace, package: "netsky-work", target: IT, test }
}

/// Every safeguard, the lowest crates first.
pub(crate) fn safeguards() -> impl Iterator<Item = &'static Safeguard> {
    let lower = [
        model::ROWS,
        disk::ROWS,
        gate::ROWS,
        crash::ROWS,
        bus::ROWS,
        bus_taken::ROWS,
        bus_kept::ROWS,
        ledger::ROWS,
        ledger_facts::ROWS,
        ledger_mail::ROWS,
        owner::ROWS,
        owner_feed::ROWS,
    ];
    let kernel = [
        kernel::ROWS,
        kernel_clients::ROWS,
        kernel_drain::ROWS,
        kernel_groups::ROWS,
        kernel_lineages::ROWS,
        kernel_rename::ROWS,
        kernel_sessions::ROWS,
        kernel_unseen::ROWS,
        kernel_successions::ROWS,
        kernel_room::ROWS,
        kernel_rpc::ROWS,
        kernel_screen::ROWS,
        kernel_journal::ROWS,
    ];
    lower
        .into_iter()
        .chain(kernel)
        .chain([
            runtime::ROWS,
            runtime_bounds::ROWS,
            runtime_seen::ROWS,
            service::ROWS,
            tasks::ROWS,
            attach::ROWS,
            budget::ROWS,
            watchdog::ROWS,
            watchdog_left::ROWS,
            watchdog_looks::ROWS,
            watchdog_restarts::ROWS,
            watchdog_said::ROWS,
            watchdog_verbs::ROWS,
            cli::ROWS,
            clones::ROWS,
            cron::ROWS,
            loops::ROWS,
            ticker::ROWS,
            time_left::ROWS,
            work::ROWS,
            landing::ROWS,
            checkouts::ROWS,
            removals::ROWS,
        ])
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_missing_or_repeated_is_not_applied() {
        let safeguard = Safeguard {
            name: "x",
            faults: "",
            file: "a.rs",
            find: "sync();",
            replace: "",
            package: "p",
            target: UNIT,
            test: "t",
        };
        assert_eq!(safeguard.applied("a(); sync(); b();").as_deref(), Some("a();  b();"));
        assert_eq!(safeguard.applied("a();"), None);
        assert_eq!(safeguard.applied("sync(); sync();"), None);
    }
}
