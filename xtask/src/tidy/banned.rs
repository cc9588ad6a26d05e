//! Calls that have one door: written anywhere else in shipped code they are an offence.
//!
//! Clippy's pass (`clippy.toml`) knows the same of `std`'s types and cannot be fooled by a `use`; this table
//! adds what only a reader of words can see: which crate may, whole families of calls, and shells.

use super::{Offence, tokens};
use crate::tree::Source;

/// One family of calls and its door.
struct Ban {
    /// The calls, as they are written.
    calls: &'static [&'static str],
    /// Folders of crates, or single files, that may.
    doors: &'static [&'static str],
    /// Test code is bound by it too.
    tests: bool,
    instead: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        calls: &[
            "fs::write(",
            "fs::rename(",
            "fs::copy(",
            "fs::hard_link(",
            "fs::create_dir(",
            "fs::create_dir_all(",
            "fs::remove_file(",
            "fs::remove_dir_all(",
            "fs::set_permissions(",
            "File::create(",
            "File::create_new(",
            "File::options(",
            "OpenOptions::new(",
        ],
        doors: &["disk"],
        tests: false,
        instead: "write through netsky_disk: it syncs the file and its folder, and refuses links",
    },
    Ban {
        calls: &["SystemTime::now(", "Instant::now(", "Timestamp::now(", "Zoned::now(", "clock_gettime("],
        // The anchor's timers are tokio's, on its own clock, which stands still while the machine sleeps.
        doors: &["disk", "crates/kernel/src/anchor/pulse.rs", "crates/kernel/src/anchor/state.rs"],
        tests: false,
        instead: "take `now` as an argument, or ask netsky_disk::clock",
    },
    Ban {
        calls: &["flock(", "fcntl_lock(", "try_lock_exclusive("],
        doors: &["disk"],
        tests: false,
        instead: "use netsky_disk::lock, which is close-on-exec and never unlinked",
    },
    Ban {
        calls: &[
            "kill_process(",
            "kill_process_group(",
            "test_kill_process(",
            "pidfd_open(",
            "pidfd_send_signal(",
        ],
        doors: &["disk", "sim"],
        tests: false,
        instead: "use netsky_disk::process, which proves the identity first (A20, T8)",
    },
    Ban {
        calls: &["env::var(", "env::var_os(", "env::vars(", "env::vars_os("],
        doors: &["disk", "cli"],
        tests: false,
        instead: "take it as an argument; the environment is read in cli and by disk's Layout",
    },
    Ban {
        calls: &["env::set_var(", "env::remove_var(", "env::set_current_dir("],
        doors: &[],
        tests: true,
        instead: "give the child its own environment and folder; ours is shared by every thread",
    },
    Ban {
        calls: &["env::temp_dir("],
        doors: &[],
        tests: true,
        instead: "use tempfile in tests and the home's own tmp/ in the product (A5)",
    },
    Ban {
        calls: &["thread::sleep("],
        doors: &["disk"],
        tests: true,
        instead: "wait for the event: a pidfd, a Watch, a condition variable",
    },
    Ban {
        calls: &[
            "Command::new(\"sh\"",
            "Command::new(\"bash\"",
            "Command::new(\"/bin/sh\"",
            "Command::new(\"/bin/bash\"",
        ],
        doors: &[],
        tests: false,
        instead: "pass an argument vector; no text meets a shell (A19)",
    },
    Ban {
        calls: &["process::exit(", "process::abort("],
        doors: &["cli", "disk"],
        tests: false,
        instead: "return an error; only main ends the process (fault points in disk abort on purpose)",
    },
    Ban {
        calls: &["Connection::open(", "Connection::open_with_flags("],
        doors: &["crates/ledger/src/meta/open.rs"],
        tests: false,
        instead: "ask netsky_ledger: the database is written by one ingester and read by guarded questions",
    },
    Ban {
        calls: &[
            "netsky_ledger::ingest(",
            "netsky_ledger::ingest_until(",
            "netsky_ledger::rebuild(",
            "netsky_ledger::query(",
        ],
        doors: &[
            "crates/cli/src/verb/query.rs",
            "crates/cli/src/verb/ledger/ingest.rs",
            "crates/cli/src/verb/ledger/rebuild.rs",
        ],
        tests: false,
        instead: "no other verb may wait for the database",
    },
    Ban {
        calls: &["unbounded_channel(", "mpsc::channel()"],
        doors: &[],
        tests: false,
        instead: "give the queue a named limit and say what happens at it",
    },
];

/// Crates that never ship are free to do what they must.
const FREE: &[&str] = &["sim", "xtask"];

pub(crate) fn check(source: &Source) -> Vec<Offence> {
    let package = source.package().unwrap_or_default();
    if FREE.contains(&package) {
        return Vec::new();
    }
    let file = tokens::of(&source.text);
    let mut offences = Vec::new();
    for ban in BANS.iter().filter(|ban| !has_door(ban, source)) {
        for call in ban.calls {
            for line in tokens::lines_of(&file, &tokens::pattern(call), ban.tests) {
                let what = format!("{} outside its door", call.trim_end_matches('('));
                offences.push(Offence::new(&source.path, line, what, ban.instead));
            }
        }
    }
    offences
}

fn has_door(ban: &Ban, source: &Source) -> bool {
    let named = |door: &&str| Some(*door) == source.package() || **door == source.path;
    ban.doors.iter().any(named) || (source.is_test() && !ban.tests)
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn caught(path: &str, text: &str) -> usize {
        check(&source(path, text)).len()
    }

    #[test]
    fn every_ban_catches_its_calls_and_spares_its_doors() {
        for ban in BANS {
            for call in ban.calls {
                let closing = ")".repeat(call.matches('(').count() - call.matches(')').count());
                let text = format!("fn f() {{ {call}{closing}; }}");
                assert_eq!(caught("crates/model/src/a.rs", &text), 1, "{call}");
                for door in ban.doors {
                    let path = if door.ends_with(".rs") {
                        (*door).into()
                    } else {
                        format!("crates/{door}/src/a.rs")
                    };
                    assert_eq!(caught(&path, &text), 0, "{call} in {door}");
                }
                let in_test = usize::from(ban.tests);
                assert_eq!(caught("crates/model/tests/it/a.rs", &text), in_test, "{call} in a test");
            }
        }
    }

    #[test]
    fn what_never_ships_is_free() {
        assert_eq!(caught("crates/sim/src/a.rs", "fn f() { std::fs::write(a, b); }"), 0);
    }
}
