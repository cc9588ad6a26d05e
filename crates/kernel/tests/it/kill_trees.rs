//! Trees with processes that try to get away, ended in every way there is: no survivor where a cgroup is to be had, elsewhere
//! none that keeps its environment mark.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use netsky_disk::cgroup::Place;
use netsky_disk::process::{self, PidFd, Signal, is_alive};
use netsky_kernel::client::Client;
use netsky_kernel::rpc::{EventKind, Guard, SessionView};
use netsky_model::process::ProcessId;
use netsky_sim::campaign::Share;

use crate::anchor_world::*;

/// Trees that live side by side.
const ROUND: u64 = 8;

/// Rounds at a time in a campaign, each in a root of its own: in a round most of the time somebody waits for somebody.
const ROUNDS: u64 = 4;

/// Ways to get away, and whether the mark is kept. Each writes its pid as a line of the file `$P`; `$K` is this crate's program.
const WAYS: [(&str, bool); 7] = [
    // A session of its own, and an orphan.
    ("(setsid sh -c 'echo $$ >>\"$0\"; exec sleep 1000' \"$P\" &)", true),
    // The same without an environment.
    ("(env -i setsid sh -c 'echo $$ >>\"$0\"; exec sleep 1000' \"$P\" &)", false),
    // Deaf to what can be refused.
    ("(sh -c 'trap \"\" TERM HUP INT; echo $$ >>\"$0\"; while :; do sleep 1000; done' \"$P\" &)", true),
    // Stopped.
    ("(setsid sh -c 'echo $$ >>\"$0\"; kill -STOP $$; sleep 1000' \"$P\" &)", true),
    // Without an environment, deaf, and below somebody who has gone.
    (
        "(env -i setsid sh -c '(trap \"\" TERM HUP; sh -c \"echo \\$\\$ >>\\$0; exec sleep 1000\" \"$0\") & :' \"$P\" &)",
        false,
    ),
    // In the foreground, as long as the program.
    ("sh -c 'echo $$ >>\"$0\"; exec sleep 1000' \"$P\" &", true),
    // Its main thread has ended and another one runs: it looks like a zombie.
    ("(setsid \"$K\" headless \"$P\" &)", true),
];

/// Sets of ways, but for the empty one.
const SETS: u64 = (1 << WAYS.len()) - 1;

/// How a tree is brought down.
#[derive(Debug, Clone, Copy)]
enum By {
    Kill(Duration),
    DeathOfWorker,
    DeathOfProgram,
}

const BY: [By; 4] =
    [By::Kill(Duration::ZERO), By::Kill(Duration::from_millis(5)), By::DeathOfWorker, By::DeathOfProgram];

struct Tree {
    by: By,
    session: SessionView,
    /// Who got away, and whether it kept its mark.
    escaped: Vec<(ProcessId, bool)>,
}

/// Some of the ways, by the bits of a number; at least one.
fn plant(world: &World, client: &mut Client, place: usize, number: u64) -> Tree {
    let chosen = number % SETS + 1;
    let ways: Vec<(&str, bool)> =
        (0..WAYS.len()).filter(|bit| chosen >> bit & 1 == 1).map(|bit| WAYS[bit]).collect();
    let mut escaped = Vec::new();
    let name = format!("agent{place}");
    let pids = |way: usize| world.root.with_file_name(format!("{number}.{way}"));
    let mut line = format!("K={PROGRAM}\n");
    for (at, (way, _)) in ways.iter().enumerate() {
        line += &format!("P={}; {way}\n", pids(at).display());
    }
    let session = spawn(client, &shell(&name, &(line + "exec sleep 1000")));
    for (at, (_, keeps)) in ways.iter().enumerate() {
        let found = until("it has got away", || {
            let text = std::fs::read_to_string(pids(at)).ok()?;
            process::identify(text.strip_suffix('\n')?.parse().ok()?)
        });
        escaped.push((found, *keeps));
    }
    Tree { by: BY[(number / SETS % 4) as usize], session, escaped }
}

impl Tree {
    fn end(&self, world: &World, client: &mut Client) {
        match self.by {
            By::Kill(grace) => {
                client.kill(&self.session.name, Some(grace), &Guard::none()).expect("killed");
            }
            By::DeathOfWorker => self.dies(world, self.session.worker.as_ref()),
            By::DeathOfProgram => self.dies(world, self.session.program.as_ref()),
        }
    }

    fn dies(&self, world: &World, of: Option<&ProcessId>) {
        let mut events = world.client().subscribe(None).expect("subscribed");
        kill9(of.expect("it has one"));
        let over = [EventKind::Died, EventKind::Exited];
        let told = |event: &netsky_kernel::rpc::Event| {
            event.session.as_ref() == Some(&self.session.name) && over.contains(&event.kind)
        };
        events.find(LONG, told).expect("lives").expect("told");
    }

    /// Asserts that nobody lives who must not; ends who may.
    fn is_gone(&self, number: u64) {
        // Only where its worker cannot end it any more and no group has it.
        let may_live = self.session.cgroup.is_none() && matches!(self.by, By::DeathOfWorker);
        for (id, keeps) in &self.escaped {
            let lives = is_alive(id);
            if lives {
                let _ = PidFd::open(id).expect("a descriptor").map(|held| held.signal(Signal::KILL));
            }
            assert!(!lives || may_live && !keeps, "tree {number}, {:?}: {id:?} lives", self.by);
        }
        assert_eq!(marked(&self.session), [], "tree {number}");
    }
}

/// Plants trees and fells them, with a new anchor in between that has not seen them begin; how many.
fn fell(cgroup: &str, numbers: impl Iterator<Item = u64>) -> u64 {
    let mut world = World::in_memory();
    let anchor = |world: &mut World| {
        let mut command = world.serve();
        command.env("NETSKY_CGROUP", cgroup);
        world.anchor_by(command)
    };
    let mut client = anchor(&mut world);
    let trees: Vec<(u64, Tree)> = numbers
        .enumerate()
        .map(|(place, number)| (number, plant(&world, &mut client, place, number)))
        .collect();
    let grouped = cgroup != "off" && Place::find().is_ok();
    assert!(trees.iter().all(|(_, tree)| tree.session.cgroup.is_some() == grouped));
    world.kill_anchor();
    let mut client = anchor(&mut world);
    for (number, tree) in &trees {
        tree.end(&world, &mut client);
        tree.is_gone(*number);
    }
    trees.len() as u64
}

#[test]
fn must_show_5_t12_i11_nobody_survives_a_tree_that_is_ended() {
    for round in 0..4 {
        // Of every way to bring one down.
        fell("", (0..ROUND).map(|tree| round * SETS + tree * 17 + round));
    }
}

#[test]
fn must_show_5_t12_i11_without_a_cgroup_nobody_survives_who_keeps_the_mark() {
    for round in 0..4 {
        fell("off", (0..ROUND / 2).map(|tree| round * SETS + tree * 31 + 7));
    }
}

/// A batch of `cargo xtask campaign felled-trees`: every tenth round without a cgroup.
#[test]
#[ignore = "a batch of a campaign, which says how much"]
fn campaign_a_share_of_the_felled_trees() {
    let one = |round: u64| {
        let cgroup = if round % 10 == 9 { "off" } else { "" };
        // A stride without a common factor with the 508 kinds there are.
        fell(cgroup, (0..ROUND).map(|tree| (round * ROUND + tree) * 5))
    };
    Share::asked().run(|step| {
        thread::scope(|scope| {
            let rounds = step * ROUNDS..(step + 1) * ROUNDS;
            let begun: Vec<_> = rounds.map(|round| scope.spawn(move || one(round))).collect();
            // With its own words, which say which tree.
            begun.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).sum()
        })
    });
}
