//! Safeguards of the owner's repository and files: what of his stays where it is when `main` moves, and when it cannot.

use super::{Safeguard, of_verbs, of_work};

const LAND: &str = "crates/work/src/harvest/land.rs";
const PUSH: &str = "crates/work/src/landing/push.rs";
const CHECKOUT: &str = "crates/work/src/harvest/checkout.rs";
const WAY: &str = "crates/work/src/harvest/way.rs";
const REPO: &str = "crates/work/src/git/repo.rs";
const KEEP: &str = "locks::t19_what_is_about_to_land_outlives_a_repack_and_is_gits_again_behind_it";
const CUT_OFF: &str = "behind::t19_fm_harvest_kill_enospc_a_file_that_was_cut_off_follows_and_one_that_only_begins_otherwise_stays";
const LEFT: &str =
    "desk::fm_workspace_remove_kill_that_it_went_is_told_once_and_not_where_there_is_another_by_then";
const IGNORED: &str = "ignored::t19_what_the_owner_ignores_is_neither_overwritten_nor_removed";
const REDONE: &str =
    "ignored::t19_fm_harvest_kill_a_file_that_becomes_a_folder_and_back_follow_at_the_next_harvest";

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
    of_work(
        "a landing that cannot lock main lets go of what it holds",
        "A9, T19",
        LAND,
        (
            "refused @ (Ok(false) | Err(Error::Git(Failed::Said { code: Some(_), .. })))",
            "refused @ Ok(false)",
        ),
        "locks::a9_t19_a_lock_of_a_living_git_on_main_stays_and_a_harvest_says_so",
    ),
    of_work(
        "a lock on main that says something else is another's",
        "A9, T19",
        LAND,
        ("            if !may_be_of(note, &lock)? || ", "            if "),
        "locks::a9_t19_a_lock_that_no_dead_harvest_can_have_left_stays",
    ),
    of_work(
        "a lock on main that was there before the landing is another's",
        "A9, T19",
        LAND,
        (".is_some_and(|at| Some(at) < begun)", ".is_some_and(|at| Some(at) < begun && false)"),
        "locks::a9_t19_a_lock_that_no_dead_harvest_can_have_left_stays",
    ),
    of_work(
        "a lock that a dead harvest's git left on main goes",
        "T19",
        LAND,
        ("    unstick(job, target, note)?;\n", "    let _ = unstick;\n"),
        "locks::t19_a_lock_that_a_dead_harvests_git_left_on_main_goes",
    ),
    of_work(
        "files of a branch that is made under the lock do not follow",
        "T19",
        LAND,
        ("if !held.has_out(&landing.main)? {", "if false {"),
        "switches::t19_a_branch_that_the_owner_makes_while_the_gate_runs_gets_nothing_of_what_lands",
    ),
    of_work(
        "an error while files follow leaves the owner's git unlocked",
        "T19",
        CHECKOUT,
        (
            "            // Whoever has to make room for it needs his git.\n            let _ = held.let_go();\n",
            "            drop(held);\n",
        ),
        "behind::t19_what_fails_while_files_that_were_behind_follow_leaves_the_owners_git_unlocked",
    ),
    of_work(
        "a file among the linked checkouts stops no harvest",
        "T19",
        "crates/work/src/harvest/target.rs",
        ("all.filter(|path| is_folder(path))", "all.filter(|_| true)"),
        "switches::t19_a_file_among_the_linked_checkouts_stops_no_harvest",
    ),
    of_work(
        "a push is no harvest's, which another would end",
        "T19",
        PUSH,
        (
            "let repo = owners(job)?;",
            "let _ = owners;\n    let repo = crate::harvest::Target::of(job)?.repo;",
        ),
        "desk::t19_a_push_is_no_part_of_a_harvest_that_another_one_would_end",
    ),
    of_work(
        "an address that is not pushed to is told without its secret",
        "A17",
        PUSH,
        ("Remote::shown(&to)", "&to"),
        "desk::a17_an_address_that_is_not_pushed_to_is_told_without_its_secret",
    ),
    of_work(
        "main that moved has landed, whatever git says of its log",
        "T19",
        REPO,
        ("            Some(now) if now == *new => Ok(true),\n", ""),
        "locks::t19_main_that_moved_though_git_could_not_say_so_in_its_log_has_landed",
    ),
    of_work(
        "what is about to land outlives a repack",
        "T19",
        REPO,
        ("for end in [\"keep\", \"pack\",", "for end in [\"pack\","),
        KEEP,
    ),
    of_work(
        "what has landed is git's to repack again",
        "T19",
        "crates/work/src/harvest/run.rs",
        ("    target.repo.unkeep()\n", "    Ok(())\n"),
        KEEP,
    ),
    of_work(
        "what the owner keeps from a repack stays kept",
        "T19",
        REPO,
        (".is_ok_and(|text| text == KEPT)", ".is_ok()"),
        KEEP,
    ),
    of_work(
        "a copy without empty folders is a repository",
        "T19",
        REPO,
        ("Err(e) if e.is_not_found() => return Ok(()),\n            packs", "packs"),
        "locks::a_repository_that_was_copied_without_its_empty_folders_is_one",
    ),
    of_work(
        "another home that lands there is waited for",
        "I9",
        "crates/work/src/harvest/target.rs",
        (
            "Lock::of_folder_within(self.repo.dir(), rest)?",
            "Lock::take_within(job.layout.harvests().join(\"all\"), rest)?",
        ),
        "locks::i9_two_homes_that_land_in_one_repository_wait_for_each_other",
    ),
    of_work(
        "main that is another branch's name is refused",
        "T19",
        "crates/work/src/harvest/run.rs",
        ("target.repo.alias(&job.main)?", "target.repo.alias(&job.main)?.filter(|_| false)"),
        "places::t19_a_name_that_is_another_branchs_is_no_place_to_land_by_itself",
    ),
    of_work(
        "a file that was cut off is nobody's change",
        "FM T19",
        CHECKOUT,
        ("            if self.is_cut_off(name, new)? {\n                continue;\n            }\n", ""),
        CUT_OFF,
    ),
    of_work(
        "a file that begins otherwise is its owner's",
        "T19",
        CHECKOUT,
        ("&& told.out.starts_with(&text)", "&& !text.is_empty()"),
        CUT_OFF,
    ),
    of_work(
        "what main has no more does not come back with a branch that begins there",
        "T19",
        "crates/work/src/harvest/seen.rs",
        (
            "                return refused(format!(\n                    \"{main} has not",
            "                let _: Result<Seen> = refused(format!(\n                    \"{main} has not",
        ),
        "reverts::t19_what_the_owner_dropped_from_main_does_not_come_back_with_a_branch_that_begins_there",
    ),
    of_work(
        "work lands where its task says",
        "I9",
        "crates/work/src/landing/harvest.rs",
        (
            "if let Some(why) = self.moved(&task, &workspace)? {",
            "if let Some(why) = self.moved(&task, &workspace)?.filter(|_| false) {",
        ),
        "places::i9_work_lands_where_its_task_says_or_not_at_all",
    ),
    of_work(
        "what is on another branch keeps a workspace",
        "I9",
        "crates/work/src/workspace/names.rs",
        (
            "Some((name, at?))",
            "Some((name, at?)).filter(|(name, _)| name.starts_with(b\"refs/heads/task/\"))",
        ),
        "desk::i9_what_is_on_another_branch_of_a_workspace_keeps_it",
    ),
    of_work(
        "that a workspace went is told also where who removed it died",
        "FM",
        "crates/work/src/landing/workspaces.rs",
        ("if is_told || workspace::find", "if is_told || !self.layout.home().is_file() || workspace::find"),
        LEFT,
    ),
    of_work(
        "a workspace that is there is not said to be gone",
        "FM",
        "crates/work/src/landing/workspaces.rs",
        ("if is_told || workspace::find(self.layout, id)?.is_some() {", "if is_told {"),
        LEFT,
    ),
    of_verbs(
        "an address that is refused is told without its secret",
        "A17",
        "crates/cli/src/verb/task/mod.rs",
        ("Err(bad) if text.contains(\"://\") =>", "Err(bad) if text.is_empty() =>"),
        "task::a17_a_repository_that_is_refused_is_told_without_its_secret",
    ),
    of_work(
        "main that is another branch's name moves that one",
        "T19",
        "crates/work/src/landing/harvest.rs",
        ("main: self.branch(&repo, &workspace.main),", "main: workspace.main.clone(),"),
        "places::t19_main_that_is_another_branchs_name_moves_that_one_with_its_files",
    ),
    of_work(
        "what a dead harvest landed has landed wherever the task says",
        "FM T19",
        "crates/work/src/landing/harvest.rs",
        ("landed.map_or(Outcome::Refused(why)", "landed.filter(|_| false).map_or(Outcome::Refused(why)"),
        "places::t19_fm_harvest_kill_what_a_dead_one_landed_has_landed_wherever_the_task_says_by_then",
    ),
    of_work(
        "a harvest whose task another one closed says that it has landed",
        "I9",
        "crates/work/src/landing/harvest.rs",
        ("match self.has_landed(task)? {", "match self.has_landed(task)?.filter(|_| false) {"),
        "desk::i9_a_harvest_whose_task_another_one_closed_meanwhile_says_that_it_has_landed",
    ),
    of_work(
        "another home's dead landing is said",
        "FM I9",
        CHECKOUT,
        (
            "if let Some(home) = locked_by(checkout)? {",
            "if let Some(home) = locked_by(checkout)?.filter(|_| false) {",
        ),
        "places::i9_fm_harvest_kill_of_another_homes_dead_landing_is_said_whose_it_is",
    ),
    of_work(
        "a link is no file that was cut off",
        "T19",
        CHECKOUT,
        (
            "symlink_metadata(&path).is_ok_and(|of| of.is_file()) {",
            "metadata(&path).is_ok_and(|of| of.is_file()) {",
        ),
        "places::t19_what_is_no_file_that_was_cut_off_stays",
    ),
    of_work(
        "a file that is whole was not cut off",
        "T19",
        CHECKOUT,
        ("text.len() < told.out.len()", "text.len() <= told.out.len()"),
        "places::t19_what_is_no_file_that_was_cut_off_stays",
    ),
    of_work(
        "a trailer of the owner's may go on in a second line",
        "T19",
        "crates/work/src/harvest/seen.rs",
        ("valueonly=true,unfold=true,", "valueonly=true,"),
        "reverts::t19_a_trailer_of_the_owners_that_goes_on_in_a_second_line_stops_nothing",
    ),
    of_work(
        "what the owner has on main keeps no workspace",
        "I9",
        "crates/work/src/landing/workspaces.rs",
        ("self.owners.lacks(all).map_err(|error|", "Ok(all).map_err(|error: Error|"),
        "desk::i9_what_the_owner_has_on_main_keeps_no_workspace_and_a_name_of_anything_else_is_told",
    ),
    of_work(
        "what a linked checkout of a workspace has keeps it",
        "I9",
        "crates/work/src/workspace/names.rs",
        ("None if of.is_dir() =>", "None if of.is_file() =>"),
        "desk::i9_what_the_owner_has_on_main_keeps_no_workspace_and_a_name_of_anything_else_is_told",
    ),
    of_work(
        "a lock that a git left in a workspace is no name",
        "I9",
        "crates/work/src/workspace/names.rs",
        (
            "path.extension().is_none_or(|end| end != \"lock\")",
            "path.extension().is_none_or(|end| end != \"none\")",
        ),
        "desk::i9_what_the_owner_has_on_main_keeps_no_workspace_and_a_name_of_anything_else_is_told",
    ),
    of_work(
        "a workspace that cannot be removed keeps no other",
        "I9",
        "crates/work/src/landing/workspaces.rs",
        ("failed.get_or_insert(error);\n                }", "return Err(error);\n                }"),
        "desk::i9_a_workspace_that_cannot_be_removed_keeps_no_other",
    ),
    of_work(
        "work whose task is dropped while the gate runs does not land",
        "T19",
        "crates/work/src/harvest/run.rs",
        ("if let Some(why) = unwanted(job)? {", "if let Some(why) = unwanted(job)?.filter(|_| false) {"),
        "desk::t19_work_whose_task_is_dropped_while_the_gate_runs_does_not_land",
    ),
    of_work(
        "commits are by whoever goes on with a workspace",
        "",
        "crates/work/src/landing/workspaces.rs",
        (
            "wish.author.as_ref().filter(|_| was_there)",
            "wish.author.as_ref().filter(|_| was_there && agent.is_none())",
        ),
        "desk::commits_are_by_whoever_goes_on_with_a_workspace",
    ),
    of_work(
        "what has landed of a branch keeps no workspace",
        "I9",
        "crates/work/src/landing/workspaces.rs",
        (" || landing.sources.contains(sha)", ""),
        "desk::i9_what_the_owner_has_on_main_keeps_no_workspace_and_a_name_of_anything_else_is_told",
    ),
    of_verbs(
        "for a clone that cannot be started no workspace is made",
        "",
        "crates/cli/src/verb/clone/brief.rs",
        ("            hand_over.plan(self.runtime.clone(), None)?;\n", ""),
        "clones::brief::what_could_never_start_is_not_begun",
    ),
    of_work(
        "a log of a linked checkout is no name",
        "I9",
        "crates/work/src/workspace/names.rs",
        ("first == \"refs\" &&", "(first == \"refs\" || first == \"logs\") &&"),
        "desk::i9_what_the_owner_has_on_main_keeps_no_workspace_and_a_name_of_anything_else_is_told",
    ),
    of_work(
        "what is called as a branch of a remote keeps a workspace",
        "I9",
        "crates/work/src/workspace/names.rs",
        ("Some((name, at?))", "Some((name, at?)).filter(|(name, _)| !name.starts_with(b\"refs/remotes/\"))"),
        "nested::i9_what_is_called_as_a_branch_of_its_origin_is_asked_there",
    ),
    of_work(
        "for who is no workspace's no folder is made",
        "I9",
        "crates/work/src/workspace/create.rs",
        ("let dir = Dir::open(at)?;", "let dir = Dir::make(at)?;"),
        "desk::commits_are_by_whoever_goes_on_with_a_workspace",
    ),
    of_work(
        "what landed is known where main became another's name",
        "I9",
        "crates/work/src/harvest/mark.rs",
        (
            "repo.alias(&landing.main)?.as_deref() != Some(job.main.as_str())",
            "repo.alias(&landing.main)?.as_deref() != Some(\"\")",
        ),
        "places::i9_what_landed_is_known_where_main_has_become_another_branchs_name",
    ),
    of_work(
        "a lock is known by its token",
        "A25 T19",
        CHECKOUT,
        (
            ".ends_with(note.token.as_bytes())",
            ".ends_with(note.token.as_bytes()) && said.starts_with(format!(\"{OURS}{}\", checkout.dir.display()).as_bytes())",
        ),
        "places::a25_t19_fm_harvest_kill_a_home_that_was_moved_finishes_its_landing",
    ),
    of_work(
        "what cannot be swept keeps nothing else",
        "I9",
        "crates/work/src/workspace/remove.rs",
        (
            "            failed.get_or_insert(error);\n            false\n",
            "            panic!(\"{error}\")\n",
        ),
        "desk::i9_a_workspace_that_cannot_be_removed_keeps_no_other",
    ),
    of_work(
        "a dead landing of a task that was closed since is told",
        "T19 FM",
        "crates/work/src/landing/harvest.rs",
        ("let untold = found.as_ref().map(", "let untold = found.as_ref().filter(|_| false).map("),
        "places::t19_fm_harvest_kill_what_a_dead_one_landed_is_told_of_a_task_that_was_closed_since",
    ),
    of_work(
        "what was reopened is not closed by what landed before",
        "T19",
        "crates/work/src/landing/harvest.rs",
        (
            "Ok(self.board.history(&task.id)?.into_iter().any(is_it))",
            "Ok(self.board.history(&task.id)?.into_iter().any(is_it) && false)",
        ),
        "places::t19_a_task_that_was_reopened_is_not_closed_by_what_landed_before",
    ),
    of_work(
        "work whose task is changed while the gate runs does not land",
        "I9",
        "crates/work/src/harvest/run.rs",
        ("_ if is_changed =>", "_ if is_changed && job.is_dry =>"),
        "desk::t19_work_whose_task_is_dropped_while_the_gate_runs_does_not_land",
    ),
    of_verbs(
        "of two harvests of one task the second says that it has landed",
        "A9 T19",
        "crates/work/src/landing/harvest.rs",
        (" && self.has_landed(task)?.is_none() =>", " =>"),
        "landing::queue::a9_t19_two_verbs_on_one_task_at_once_land_it_once_and_both_say_so",
    ),
];
