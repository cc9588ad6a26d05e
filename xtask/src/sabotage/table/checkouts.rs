//! Safeguards of the owner's repository and files: what of his stays where it is when `main` moves, and when it cannot.

use super::{IT, Safeguard};

const CHECKOUT: &str = "crates/work/src/harvest/checkout.rs";
const WAY: &str = "crates/work/src/harvest/way.rs";
const IGNORED: &str = "ignored::t19_what_the_owner_ignores_is_neither_overwritten_nor_removed";
const REDONE: &str =
    "ignored::t19_fm_harvest_kill_a_file_that_becomes_a_folder_and_back_follow_at_the_next_harvest";

/// A row whose test harvests.
const fn of_work(
    name: &'static str,
    faults: &'static str,
    file: &'static str,
    (find, replace): (&'static str, &'static str),
    test: &'static str,
) -> Safeguard {
    Safeguard { name, faults, file, find, replace, package: "netsky-work", target: IT, test }
}

pub(super) const ROWS: &[Safeguard] = &[
    of_work(
        "what the owner ignores stops a harvest where it is in the way",
        "T19",
        CHECKOUT,
        (
            "blocked(&self.tree) {\n            return Ok(",
            "blocked(&self.tree).filter(|_| false) {\n            return Ok(",
        ),
        IGNORED,
    ),
    of_work(
        "what the owner ignores is looked at again before files move",
        "T19",
        CHECKOUT,
        (
            "blocked(&self.tree) {\n            return Err(",
            "blocked(&self.tree).filter(|_| false) {\n            return Err(",
        ),
        "ignored::t19_what_the_owner_ignores_at_the_last_moment_stays_and_the_files_are_behind",
    ),
    of_work(
        "a folder that the owner ignores is not removed for a file",
        "T19",
        WAY,
        ("    unknown_in(tree, &at, goes)\n}", "    None\n}"),
        IGNORED,
    ),
    of_work(
        "a file that the owner ignores is not removed for a folder",
        "T19",
        WAY,
        ("let is_known = goes.contains(&*at) ||", "let is_known = at != name ||"),
        IGNORED,
    ),
    of_work(
        "a repository within the owner's is not removed for a file",
        "T19",
        WAY,
        ("matches!(how, b'A' | b'T')", "matches!(how, b'A')"),
        "ignored::t19_a_repository_within_the_owners_is_not_removed_for_a_file",
    ),
    of_work(
        "what goes is in nobody's way",
        "T19",
        WAY,
        (".filter(|(how, _)| *how == b'D')", ".filter(|_| false)"),
        "ignored::t19_a_file_that_becomes_a_folder_and_a_folder_that_becomes_a_file_follow",
    ),
    of_work(
        "what is a folder still is no file for a dead landing's index",
        "T19",
        WAY,
        (
            "            !(is_behind || *how == b'A' && is_real_folder(tree.join(at)))",
            "            !is_behind",
        ),
        REDONE,
    ),
    of_work(
        "what is behind a link is no file for a dead landing's index",
        "T19",
        WAY,
        ("            !(is_behind || *how", "            !(*how"),
        REDONE,
    ),
    of_work(
        "a file takes a folder's place in a dead landing's index",
        "T19",
        CHECKOUT,
        ("\"--remove\", \"--replace\", ", "\"--remove\", "),
        REDONE,
    ),
];
