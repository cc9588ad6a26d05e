//! Two hundred hostile names and addresses: each is refused, or given to git as what it is (A7).

use std::path::Path;

use netsky_work::git::{Git, RefName, Remote, Repo};
use netsky_work::workspace::{SHARE_FROM, Wish, create};

use crate::support::{Bench, main_branch, task};

/// Where a program could stand.
const FRAMES: &[&str] = &[
    "{}",
    "--upload-pack={}",
    "--receive-pack={}",
    "-u{}",
    "--exec={}",
    "-c core.sshCommand={}",
    "--config=core.pager={}",
    "ext::{}",
    "ext::sh -c '{}'",
    "fd::{}",
    "ssh://-oProxyCommand={}/x",
    "-oProxyCommand={}:x",
    "host:{}",
    "https://{}/x",
    "refs/heads/{}",
    "{}@{-1}",
    "main..{}",
    "file://{}",
    "git://host/{}",
    "../{}",
    "+{}:{}",
    "^{}",
];

/// What is odd by itself.
const ODD: &[&str] = &[
    "",
    " ",
    "-",
    "--",
    "---",
    "--end-of-options",
    "--help",
    "--all",
    "--output=x",
    "@",
    "@{u}",
    "HEAD",
    "-HEAD",
    ":",
    "::",
    "a::b",
    "\0",
    "\x1b[31m",
    "\u{9b}31m",
    "\u{202e}x",
    "\u{200b}",
    "a\tb",
    ".",
    "..",
    "a/../b",
    ".git",
    "refs",
    "refs/",
    "refs/heads",
    "refs/heads/",
    "refs//heads",
    "x.lock",
    "x/y.lock/z",
    "a~1",
    "a^{tree}",
    "a?b",
    "a*",
    "a[b",
    "a\\b",
];

/// What would make a file if anybody ran it, or read it as an option.
fn corpus(canary: &Path) -> Vec<String> {
    let canary = canary.to_str().expect("text");
    let programs = [
        format!("touch {canary}"),
        format!("$(touch {canary})"),
        format!("`touch {canary}`"),
        format!("|touch {canary}"),
        format!(";touch {canary};"),
        format!("&& touch {canary}"),
        format!("\ntouch {canary}\n"),
        format!("'; touch {canary} #"),
    ];
    let mut texts: Vec<String> = Vec::new();
    for frame in FRAMES {
        texts.extend(programs.iter().map(|program| frame.replace("{}", program)));
    }
    texts.extend(ODD.iter().map(|text| (*text).to_owned()));
    texts.push("x".repeat(5000));
    texts.push("/".repeat(5000));
    texts
}

#[test]
fn a7_two_hundred_hostile_names_make_no_file_and_reach_git_as_names_alone() {
    let bench = Bench::new();
    let canary = bench.temp.path().join("canary");
    let corpus = corpus(&canary);
    assert!(corpus.len() >= 200, "{}", corpus.len());
    let git = Git::find().expect("git");
    let repo = Repo::new(&git, &bench.repo.join(".git"));
    let mut passed = 0;
    for text in &corpus {
        for branch in [RefName::branch(text), text.parse()].into_iter().flatten() {
            passed += 1;
            assert!(!branch.as_str().contains(['\n', ' ', '\x1b']), "{text:?}");
            assert_eq!(repo.commit(branch.as_str()).expect("asked"), None, "{text:?}");
            let mut wish = wish(bench.remote());
            wish.main = branch.clone();
            assert!(create(&bench.layout, &git, &wish).is_err(), "{text:?}");
            let mut job = bench.job("t1");
            job.branch = branch;
            let _ = netsky_work::harvest::harvest(&job);
        }
        if let Ok(remote @ Remote::Path(_)) = text.parse::<Remote>() {
            passed += 1;
            assert!(create(&bench.layout, &git, &wish(remote)).is_err(), "{text:?}");
        }
        assert!(!canary.exists(), "{text:?} was run");
    }
    assert!(passed < 40, "{passed} of them are names");
}

fn wish(repo: Remote) -> Wish {
    Wish { task: task("t1"), repo, main: main_branch(), branch: None, author: None, share_from: SHARE_FROM }
}
