//! The power goes when a command has said that it is done, on a real ext4 and a real XFS: what it made is whole, to the files.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use netsky_sim::power::{Image, Kind};

use super::{Bench, commit, git};

/// Changes of a landing: some that are written anew, some that come.
const FILES: usize = 40;

/// All that tests wrote is on the disk; nothing of ours is asked.
fn settled(place: &Path) {
    assert!(Command::new("sync").arg("-f").arg(place).status().expect("sync runs").success());
}

fn lost_power(image: &mut Image) {
    image.cut().expect("the file system stops");
    image.restore().expect("the file system comes back");
}

/// Work that changes a file which is there and brings others.
fn work(clone: &Path, round: usize) {
    for file in 0..FILES {
        fs::create_dir_all(clone.join(format!("of-{round}"))).expect("made");
        fs::write(clone.join(format!("of-{round}/{file}")), format!("{round} {file}\n").repeat(500))
            .expect("written");
    }
    git(clone, &["add", "."]);
    commit(clone, "a", &format!("a {round}\n"));
}

fn power_on(kind: Kind) {
    let Some(mut image) = crate::power_cuts::image(kind) else { return };
    let bench = Bench::new_in(image.place());
    for round in 0..3 {
        let task = format!("t{round}");
        bench.task_of(&task, &bench.repo());
        settled(image.place());
        bench.run(&["workspace", "create", &task]).works();
        lost_power(&mut image);
        let clone = bench.clone_of(&task);
        git(&clone, &["fsck", "--strict", "--full"]);
        // The files are read, and not only looked at.
        git(&clone, &["update-index", "--really-refresh"]);
        assert_eq!(git(&clone, &["status", "--porcelain"]), "", "round {round}: the workspace");
        assert_eq!(
            bench.json(&["workspace", "list"])["workspaces"].as_array().map(Vec::len),
            Some(round + 1)
        );
        work(&clone, round);
        settled(image.place());
        if round == 1 {
            // First it dies when the files have moved, and the power goes too.
            let mut harvest = bench.command(&["task", "harvest", &task]);
            let died = harvest.env("NETSKY_FAULT", "work.land.laid=kill@1").output().expect("it starts");
            assert_eq!(died.status.signal(), Some(9));
            lost_power(&mut image);
        }
        bench.run(&["task", "harvest", &task]).works();
        lost_power(&mut image);
        assert_eq!(fs::read_to_string(bench.repo().join("a")).expect("read"), format!("a {round}\n"));
        git(&bench.repo(), &["update-index", "--really-refresh"]);
        bench.assert_whole();
        assert!(bench.is_closed(&task) && bench.times_landed(&task) == 1, "round {round}: it landed once");
        assert_eq!(bench.facts("harvest.landed").len(), round + 1);
    }
}

#[test]
fn t19_a_workspace_and_a_landing_that_were_said_to_be_there_outlive_the_power_on_ext4() {
    power_on(Kind::Ext4);
}

#[test]
fn t19_a_workspace_and_a_landing_that_were_said_to_be_there_outlive_the_power_on_xfs() {
    power_on(Kind::Xfs);
}
