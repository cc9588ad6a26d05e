//! L2, L5: the matrix of faults for the verbs that `kill_points` and `errno_points` have no chapter of their own for.
//!
//! Each verb is killed before and after each of its calls, its repeat is killed too, and each of its calls is made to fail
//! with each of four errors. One judge for all: what the verb said is so; its repeat succeeds; then everything is as if it
//! had been done once, and every message surfaces exactly once.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use netsky_sim::campaign::Share;
use netsky_sim::{Ended, Errno, Fault, Outcome, Point, Run};

use crate::bus_home::{Deaths, Home, repeats_are_flagged};
use crate::everywhere::{break_everywhere, distinct};
use crate::group_cell::GROUP;
use crate::kill_points::{enough, scattered};

/// A verb on a home in which there is something to do.
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) home: fn() -> Home,
    pub(crate) args: &'static [&'static str],
    /// Repeats that are killed for each kill of a first run, each somewhere else.
    pub(crate) stacked: usize,
    pub(crate) judge: Judge,
}

/// What must be so after runs that were broken, and after a repeat that is not.
pub(crate) enum Judge {
    /// What was said is so, and with the repeat it was done once.
    Once {
        /// Whether it was done; an error if the home is not whole, or not as the verb's output says.
        done: fn(&Home, &str) -> Result<bool>,
        /// Attempts under which the messages of agent7 surface afterwards, by id.
        surface: &'static [(&'static str, u32)],
    },
    /// Each run does it again: what all of them answered is what is there. It makes the repeat itself.
    Answers(fn(&Home, &[&Outcome]) -> Result<()>),
}

impl Cell {
    /// After runs that were broken, one after the other: what they said is so, and a repeat makes everything whole.
    fn judge(&self, home: &Home, broken: &[&Outcome]) -> Result<()> {
        let (done, surface) = match self.judge {
            Judge::Once { done, surface } => (done, surface),
            Judge::Answers(judge) => return judge(home, broken),
        };
        let Run { stdout, ended, .. } = &broken[broken.len() - 1].run;
        ensure!(done(home, stdout)? || *ended != Ended::Exited(0), "exit 0, is not done");
        home.netsky(self.args.iter().copied())?;
        ensure!(done(home, "")?, "the repeat did not do it");
        surfaces(home, surface)
    }

    fn killed(&self) {
        break_everywhere(self.name, Fault::Kill, &(self.home)(), self.args, |home, outcome| {
            self.judge(home, &[outcome])
        });
    }

    fn killed_again(&self) {
        let template = (self.home)();
        let calls = self.calls(&template);
        let (mut points, mut hits) = (Vec::new(), 0);
        for nth in 0..self.stacked {
            let (first, again) = self.kill_each_repeat_once(&template, nth * calls / self.stacked, calls);
            points.extend(first);
            hits += again;
        }
        enough(hits, &points);
    }

    /// Points of an unbroken run.
    fn calls(&self, template: &Home) -> usize {
        template.copy().stepper(self.args.iter().copied()).points().expect("unbroken").points.len()
    }

    /// Kills a first run at each of its points, and the repeat once each, so many points further. The points of the first,
    /// and how many repeats were hit.
    fn kill_each_repeat_once(&self, template: &Home, further: usize, calls: usize) -> (Vec<Point>, usize) {
        let (name, hits) = (format!("{}, stacked", self.name), AtomicUsize::new(0));
        let points = break_everywhere(&name, Fault::Kill, template, self.args, |home, outcome| {
            let at = (scattered(outcome, calls) + further) % calls;
            let second = home.stepper(self.args.iter().copied()).kill_at(at)?;
            hits.fetch_add(usize::from(second.hit.is_some()), Ordering::Relaxed);
            self.judge(home, &[outcome, &second])
        });
        (points, hits.into_inner())
    }

    fn failed(&self, errno: Errno) {
        let name = format!("{}, {errno}", self.name);
        break_everywhere(&name, Fault::Fail(errno), &(self.home)(), self.args, |home, outcome| {
            crate::errno_points::clear_answer(outcome, errno)?;
            self.judge(home, &[outcome])
        });
    }
}

/// Under these attempts the messages of agent7 surface, by id, and nothing else does.
fn surfaces(home: &Home, wanted: &[(&str, u32)]) -> Result<()> {
    let surfaced = home.drain()?;
    // In any order: of a batch some lines may have been sent by the first run and some by its repeat.
    let mut seen: Vec<(&str, u32)> = surfaced.iter().map(|one| (&*one.id, one.attempt)).collect();
    let mut wanted = wanted.to_vec();
    seen.sort_unstable();
    wanted.sort_unstable();
    ensure!(seen == wanted, "surfaced {seen:?}");
    repeats_are_flagged(&surfaced, Deaths::NONE)
}

/// One test for each fault of each verb.
macro_rules! cells {
    ($($cell:ident: $verb:expr;)*) => {
        const ALL: &[Cell] = &[$($verb),*];
        $(mod $cell {
        use super::*;

        #[test]
        fn kill_every_syscall() {
            $verb.killed();
        }

        #[test]
        fn kill_every_syscall_then_kill_the_repeat() {
            $verb.killed_again();
        }

        #[test]
        fn enospc_every_syscall() {
            $verb.failed(Errno::ENOSPC);
        }

        #[test]
        fn eio_every_syscall() {
            $verb.failed(Errno::EIO);
        }

        #[test]
        fn emfile_every_syscall() {
            $verb.failed(Errno::EMFILE);
        }

        #[test]
        fn erofs_every_syscall() {
            $verb.failed(Errno::EROFS);
        }
        })*
    };
}

cells! {
    fm_send_batch: GROUP;
    fm_send_batch_of_chosen_ids: CHOSEN;
    fm_forward: FORWARD;
    fm_forward_of_what_waits: FORWARD_WAITING;
    fm_release: RELEASE;
    fm_poison_retry: RETRY;
    fm_home_adopt: ADOPT;
    fm_ledger_rebuild: REBUILD;
    fm_query: QUERY;
    fm_list: LIST;
}

/// A batch of `cargo xtask campaign kill-points`: step by step each repeat of each verb here is killed at each point that
/// an unbroken run has, after every kill of the first run.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_kill_points() {
    Share::asked().run(|step| {
        let kills = ALL.iter().map(|cell| {
            let template = (cell.home)();
            let calls = cell.calls(&template);
            if step as usize >= calls {
                return 0;
            }
            let (first, again) = cell.kill_each_repeat_once(&template, step as usize, calls);
            (distinct(&first).count() + again) as u64
        });
        kills.sum()
    });
}

/// agent7 has `one` delivered and `two` waiting; agent8 has a channel.
pub(crate) fn two() -> Home {
    let home = Home::init();
    send(&home, "agent8", "other");
    send(&home, "agent7", "one");
    home.drain().expect("drained");
    send(&home, "agent7", "two");
    home
}

fn send(home: &Home, agent: &str, id: &str) {
    let words = ["channel", "send", agent, "text", "--from", "owner", "--create", "--id", id];
    home.netsky(words).expect("sent");
}

/// Each line is a send of its own, which is known again by its id; lines without ids are [`GROUP`].
const CHOSEN: Cell = Cell {
    name: "send --batch of chosen ids",
    home: || {
        let home = two();
        let line =
            |n: usize| format!("{{\"to\":\"agent7\",\"from\":\"agent0\",\"text\":\"t\",\"id\":\"b{n}\"}}\n");
        std::fs::write(home.path().join("lines"), (1..=4).map(line).collect::<String>()).expect("written");
        home
    },
    args: &["channel", "send", "--batch", "--file", "home/lines"],
    stacked: 2,
    judge: Judge::Once {
        done: |home, said| {
            let audit = home.audit("agent7")?;
            for line in said.lines().filter(|line| line.ends_with('}')) {
                let answer: serde_json::Value = serde_json::from_str(line)?;
                let id = answer["id"].as_str().unwrap_or_default();
                let is_sent = answer["sent"] == true || answer["duplicate"] == true;
                ensure!(!is_sent || audit.folder_of(id) == Some("inbox"), "said sent, is absent: {line}");
            }
            Ok((1..=4).all(|n| audit.folder_of(&format!("b{n}")) == Some("inbox")))
        },
        surface: &[("two", 1), ("b1", 1), ("b2", 1), ("b3", 1), ("b4", 1)],
    },
};

const FORWARD: Cell = Cell {
    name: "forward",
    home: two,
    args: &["channel", "forward", "agent7", "one", "--to", "agent8"],
    stacked: 2,
    judge: Judge::Once {
        done: |home, said| {
            let (here, there) = (home.audit("agent7")?, home.audit("agent8")?);
            let copies = there.found.len() - 1;
            ensure!(copies <= 1, "{copies} copies");
            let done = here.folder_of("one") == Some("forwarded");
            ensure!(!done || copies == 1, "forwarded, and no copy is there");
            ensure!(done || here.folder_of("one") == Some("delivered"), "is in {:?}", here.folder_of("one"));
            ensure!(done || said.is_empty(), "said {said}");
            Ok(done)
        },
        surface: &[("two", 1)],
    },
};

/// What waits is claimed first; nobody has seen it, so a failure costs no attempt.
const FORWARD_WAITING: Cell = Cell {
    name: "forward of what waits",
    home: two,
    args: FORWARD_TWO,
    stacked: 2,
    judge: Judge::Once {
        done: |home, said| {
            let (here, there) = (home.audit("agent7")?, home.audit("agent8")?);
            let copies = there.found.len() - 1;
            ensure!(copies <= 1, "{copies} copies");
            let two = here.found.get("two").context("lost")?;
            let done = two.folder == "forwarded";
            ensure!(!done || copies == 1, "forwarded, and no copy is there");
            ensure!(done || matches!(two.folder, "inbox" | "claimed"), "is in {}", two.folder);
            ensure!(done || two.attempt <= 2, "attempt {}", two.attempt);
            ensure!(done || said.is_empty(), "said {said}");
            Ok(done)
        },
        surface: &[],
    },
};

pub(crate) const FORWARD_TWO: &[&str] = &["channel", "forward", "agent7", "two", "--to", "agent8"];

const RELEASE: Cell = Cell {
    name: "release",
    home: two,
    args: &["channel", "release", "agent7", "one"],
    stacked: 2,
    judge: Judge::Once {
        done: |home, said| {
            let audit = home.audit("agent7")?;
            let one = audit.found.get("one").context("lost")?;
            let done = one.folder == "inbox";
            ensure!(one.attempt == if done { 2 } else { 1 }, "attempt {}", one.attempt);
            ensure!(done || (one.folder == "delivered" && said.is_empty()), "said {said}, is {}", one.folder);
            Ok(done)
        },
        surface: &[("one", 2), ("two", 1)],
    },
};

/// The same, but `two` is a dead letter.
pub(crate) fn dead_letter() -> Home {
    let home = two();
    let (inbox, poison) = (home.channel("agent7", "inbox"), home.channel("agent7", "poison"));
    let file = home.files("agent7", "inbox").expect("read").remove(0);
    std::fs::rename(inbox.join(&file), poison.join(&file)).expect("moved");
    std::fs::write(poison.join(format!("{file}.reason")), "a test wanted it\n").expect("written");
    home
}

const RETRY: Cell = Cell {
    name: "poison retry",
    home: dead_letter,
    args: &["channel", "poison", "retry", "agent7", "two"],
    stacked: 2,
    judge: Judge::Once {
        done: |home, said| {
            let done = home.audit("agent7")?.folder_of("two") == Some("inbox");
            let dead = home.files("agent7", "poison")?.iter().filter(|file| file.ends_with(".json")).count();
            ensure!(dead == usize::from(!done), "{dead} dead letters");
            ensure!(done || said.is_empty(), "said {said}");
            Ok(done)
        },
        surface: &[("two", 2)],
    },
};

const ADOPT: Cell = Cell {
    name: "home adopt",
    home: || {
        let home = two();
        let file = home.path().join("home.json");
        let text = std::fs::read_to_string(&file).expect("read");
        let elsewhere = text.replace(home.path().to_str().expect("text"), "/nowhere/home");
        std::fs::write(file, elsewhere).expect("written");
        home
    },
    args: &["home", "adopt"],
    stacked: 2,
    judge: Judge::Once {
        done: |home, said| {
            let ended = home.stepper(["channel", "show", "agent7", "two"]).run()?.ended;
            ensure!(matches!(ended, Ended::Exited(0 | 4)), "a look ended with {ended:?}");
            let done = ended == Ended::Exited(0);
            ensure!(done || said.is_empty(), "said {said}");
            Ok(done)
        },
        surface: &[("two", 1)],
    },
};

const COUNT: &[&str] = &["query", "SELECT count(*) FROM envelopes", "--csv"];

/// The record must have everything whoever asks, after whatever was done to its database.
fn counted(home: &Home) -> Result<()> {
    let counted = home.netsky(COUNT.iter().copied())?.stdout;
    ensure!(counted.lines().last() == Some("3"), "counted {counted}");
    surfaces(home, &[("two", 1)])
}

const REBUILD: Cell = Cell {
    name: "ledger rebuild",
    home: two,
    args: &["ledger", "rebuild"],
    stacked: 1,
    // What it left is judged as it is: another rebuild would make anything whole.
    judge: Judge::Answers(|home, _| counted(home)),
};

/// A question changes nothing, so the count that judges it is its repeat.
const QUERY: Cell = Cell {
    name: "query",
    home: two,
    args: COUNT,
    stacked: 1,
    judge: Judge::Answers(|home, broken| {
        for Outcome { run, .. } in broken {
            // What it could not read it does not count, and says so: that is not exit 0.
            ensure!(
                run.stdout.ends_with("\n3\n") || run.ended != Ended::Exited(0),
                "exit 0, answered {}",
                run.stdout
            );
        }
        counted(home)
    }),
};

/// What waits behind `two` where a list is looked at.
const MORE: [&str; 3] = ["three", "four", "five"];

const LIST: Cell = Cell {
    name: "list",
    home: || {
        let home = two();
        MORE.iter().for_each(|id| send(&home, "agent7", id));
        home
    },
    args: &["--json", "channel", "list", "agent7"],
    stacked: 1,
    judge: Judge::Once {
        done: |home, _| {
            let audit = home.audit("agent7")?;
            ensure!(audit.folder_of("one") == Some("delivered"), "a look changed something");
            ensure!(audit.folder_of("two") == Some("inbox"), "a look changed something");
            let is_there = |id: &&str| audit.folder_of(id) == Some("inbox");
            ensure!(MORE.iter().all(is_there), "a look changed something");
            Ok(true)
        },
        surface: &[("two", 1), ("three", 1), ("four", 1), ("five", 1)],
    },
};
