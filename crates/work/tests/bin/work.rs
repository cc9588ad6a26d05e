//! What the tests of `work` start in a process of its own: what shuts a gate in, and what is killed in the middle.
//!
//! `gate` · `harvest HOME REPO WORKSPACE TASK` · `land HOME TASK` · `remove HOME TASK TIP` · `create HOME REPO TASK`: prints
//! what came of it, in the words of `Debug`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use netsky_bus::Bus;
use netsky_disk::layout::Layout;
use netsky_model::id::Sender;
use netsky_model::task::Actor;
use netsky_model::witness::Nobody;
use netsky_work::gate::{Command, Gate, serve};
use netsky_work::git::{Git, RefName, Sha};
use netsky_work::harvest::{Job, Mode, harvest};
use netsky_work::landing::Desk;
use netsky_work::workspace::{Elsewhere, Over, Wish, create, find, remove};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let code = match args[..] {
        ["gate"] => i32::from(serve()),
        ["harvest", home, repo, workspace, task] => said(harvest(&job(home, repo, workspace, task))),
        ["land", home, task] => {
            let layout = Layout::new(home);
            let bus = Bus::open(&layout, &Nobody);
            let wish = netsky_work::landing::Wish::of(&task.parse().expect("a task"));
            let exe = std::env::current_exe().expect("a program");
            let desk = Desk::open(&layout, &bus, &exe, Actor::Keeper(Sender::owner()));
            said(desk.and_then(|desk| desk.harvest(&wish)))
        }
        ["sweep", home] => {
            let layout = Layout::new(home);
            let bus = Bus::open(&layout, &Nobody);
            let exe = std::env::current_exe().expect("a program");
            let desk = Desk::open(&layout, &bus, &exe, Actor::Keeper(Sender::owner()));
            said(desk.and_then(|desk| desk.sweep_workspaces(false)))
        }
        ["remove", home, task, tip] => {
            let (layout, task) = (Layout::new(home), task.parse().expect("a task"));
            let base = find(&layout, &task).expect("it reads").map(|there| there.base);
            let kept = These(base.into_iter().chain([tip.parse().expect("a commit")]).collect());
            let over = Over::Landed { elsewhere: &kept, lets_nested_go: false, is_used: &|| false };
            said(remove(&layout, &task, over, &|_| Ok(())))
        }
        ["create", home, repo, task] => {
            let wish = Wish {
                task: task.parse().expect("a task"),
                repo: repo.parse().expect("a repository"),
                main: main_branch(),
                branch: None,
                author: None,
                share_from: netsky_work::workspace::SHARE_FROM,
            };
            said(create(&Layout::new(home), &Git::find().expect("git"), &wish))
        }
        _ => 2,
    };
    std::process::exit(code);
}

fn main_branch() -> RefName {
    RefName::branch("main").expect("a name")
}

fn job(home: &str, repo: &str, workspace: &str, task: &str) -> Job {
    let task = task.parse().expect("a task");
    Job {
        layout: Layout::new(home),
        git: Git::find().expect("git"),
        repo: Path::new(repo).to_owned(),
        main: main_branch(),
        workspace: Path::new(workspace).to_owned(),
        branch: RefName::of_task(&task),
        task,
        base: None,
        seen: None,
        mode: Mode::Pick,
        gate: Gate { command: Command::None, ..Gate::default() },
        is_dry: false,
        retries: 20,
        patience: Duration::from_secs(120),
    }
}

fn said<T: std::fmt::Debug, E: std::fmt::Display>(came: Result<T, E>) -> i32 {
    match came {
        Ok(came) => {
            println!("{came:?}");
            0
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

/// These commits are kept, and nothing else is known of.
struct These(BTreeSet<Sha>);

impl Elsewhere for These {
    fn lacks(&self, mut all: BTreeSet<Sha>) -> netsky_work::Result<BTreeSet<Sha>> {
        all.retain(|sha| !self.0.contains(sha));
        Ok(all)
    }
}
