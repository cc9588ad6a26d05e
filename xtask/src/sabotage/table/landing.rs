//! Safeguards of how work lands as a whole: what a repeat after a death does once, who may, and what is never left out.

use super::{Safeguard, UNIT, of_verbs, of_work};

const HARVEST: &str = "crates/work/src/landing/harvest.rs";
const TELL: &str = "crates/work/src/landing/tell.rs";
const KILLS: &str =
    "landing::kills::t19_i9_fm_harvest_kill_at_every_step_of_the_verb_a_repeat_does_what_is_missing_once";

pub(super) const ROWS: &[Safeguard] = &[
    of_verbs(
        "what a landing is, is kept before main moves",
        "T19",
        "crates/work/src/harvest/run.rs",
        (
            "    Landing::new(job, (main, &new, &scratch.tip), picked.len(), shut).keep(job, sources)?;\n",
            "    let _ = (Landing::new(job, (main, &new, &scratch.tip), picked.len(), shut), sources);\n",
        ),
        KILLS,
    ),
    of_verbs(
        "a closed task's landing is finished by a repeat",
        "T19",
        HARVEST,
        (
            "(Some(workspace), Some((sha, main))) if !wish.is_dry => {",
            "(Some(workspace), Some((sha, main))) if wish.is_dry => {",
        ),
        KILLS,
    ),
    of_verbs(
        "a workspace stays until all is told of its landing",
        "T19, I9",
        "crates/work/src/landing/workspaces.rs",
        (
            "&& !landing.is_told(self.layout)?\n",
            "&& !landing.is_told(self.layout)? && id.as_str().is_empty()\n",
        ),
        "landing::kills::t19_i9_fm_harvest_kill_what_was_not_told_is_told_before_its_workspace_goes",
    ),
    of_verbs(
        "who did the work is known from the first fact",
        "T19",
        HARVEST,
        ("            story.agent =\n", "            let _: Option<AgentId> =\n"),
        KILLS,
    ),
    of_verbs(
        "a landing is one fact",
        "I9, T19",
        HARVEST,
        (
            "self.facts.append_once(\"harvest.landed\", &key, data)?.repeated;",
            "self.facts.append(\"harvest.landed\", &key, data)? > 0;",
        ),
        KILLS,
    ),
    of_verbs(
        "a message about a landing is sent once",
        "I9, T19",
        TELL,
        (
            "id: Some(EnvelopeId::derived(&[kind, task.as_str(), about, to.as_str()])),",
            "id: Some(netsky_disk::random::uuid_v7()),",
        ),
        "landing::harvests::t19_whom_it_concerns_is_told_once_and_what_of_it_is_its_own",
    ),
    of_verbs(
        "what landed closes its task",
        "T19",
        HARVEST,
        (
            "        if is_over {\n",
            "        if is_over && !matches!(said.outcome, Outcome::AlreadyLanded { .. }) {\n",
        ),
        KILLS,
    ),
    of_verbs(
        "names of files are an agent's words, whoever harvests",
        "A3",
        TELL,
        (
            "let from = if to == AgentId::root() { AgentId::infinity() } else { AgentId::root() };",
            "let from = netsky_model::id::Sender::owner();",
        ),
        "landing::harvests::a3_agent0_is_told_of_what_it_asked_for_and_not_by_the_owner",
    ),
    of_verbs(
        "only the owner and agent0 land work",
        "A16",
        "crates/cli/src/verb/workspace/mod.rs",
        (
            "    if let Some(me) = cx.bound(what)? {\n",
            "    if let Some(me) = cx.bound(what)?.filter(|_| false) {\n",
        ),
        "landing::workspaces::a16_only_the_owner_and_agent0_make_and_remove_workspaces",
    ),
    of_verbs(
        "only the owner lets a branch change its gate",
        "A22",
        "crates/cli/src/verb/task/harvest.rs",
        ("        if self.allow_gate_change {\n", "        if self.allow_gate_change && self.ready {\n"),
        "landing::harvests::agent0_harvests_and_who_wanted_it_is_told",
    ),
    of_verbs(
        "a gate that does not read is not left out",
        "A22",
        "crates/work/src/landing/mod.rs",
        ("config: Config::load(layout)?,", "config: Config::last_good(layout),"),
        "landing::harvests::a22_a_branch_that_changes_the_gate_needs_the_owner",
    ),
    of_verbs(
        "a workspace goes when it has landed",
        "I9",
        "crates/work/src/landing/workspaces.rs",
        (
            "            (true, _) => workspace::remove(",
            "            (_, Some(_)) => workspace::remove(self.layout, id, Over::Forced),\n            (true, None) => workspace::remove(",
        ),
        "landing::workspaces::i9_a_workspace_goes_when_it_has_landed_or_by_force",
    ),
    of_verbs(
        "a folder that cannot be walked keeps no other workspace from the list",
        "A12",
        "crates/work/src/landing/workspaces.rs",
        ("workspace::bytes(self.layout, &id).ok();", "Some(workspace::bytes(self.layout, &id)?);"),
        "landing::workspaces::a_workspace_is_a_fresh_clone_on_its_own_branch_and_its_agent_is_known",
    ),
    of_verbs(
        "a dry run says nothing to anybody",
        "T19",
        HARVEST,
        (
            "        if wish.is_dry {\n            return",
            "        if wish.is_dry && wish.may_change_gate {\n            return",
        ),
        "landing::harvests::a_dry_run_changes_records_and_tells_nothing",
    ),
    of_verbs(
        "the files of the user are made with the umask of the user",
        "A9",
        "crates/disk/src/spawn.rs",
        (
            "if self.users_umask { process::users_umask() } else { None }",
            "if self.bare { None } else { process::users_umask() }",
        ),
        "landing::harvests::files_that_land_in_a_checkout_have_the_modes_that_their_owner_gives_files",
    ),
    of_work(
        "what came without us and was taken away stays away",
        "T19",
        "crates/work/src/harvest/pick.rs",
        ("fresh.len() == all.len() || !work.may_return()", "fresh.len() == all.len()"),
        "reverts::t19_what_came_without_us_and_was_moved_or_taken_away_since_stays_so",
    ),
    of_work(
        "too many files may not come and go within a branch",
        "A12",
        "crates/work/src/harvest/seen.rs",
        (".filter(|commit| commit.sha != scratch.tip)", ".filter(|_| false)"),
        "hostile::a12_few_objects_that_are_too_many_files_do_not_land",
    ),
    of_work(
        "a shallow repository is borrowed from as it is",
        "A9",
        "crates/work/src/git/repo.rs",
        ("Ok(commits) => copy::write_scratch(&folder, \"shallow\", &commits)?,", "Ok(_) => {}"),
        "owners::a9_a_shallow_repository_whose_main_moves_meanwhile_lands",
    ),
    Safeguard {
        name: "a folder of objects may have any name",
        faults: "A7",
        file: "crates/work/src/git/repo.rs",
        find: "Ok(format!(\"\\\"{}\\\"\", text(objects)?",
        replace: "Ok(format!(\"{}\", text(objects)?",
        package: "netsky-work",
        target: UNIT,
        test: "git::repo::tests::what_is_taken_is_one_pack_whatever_the_folder_of_the_other_is_called",
    },
    of_work(
        "a last commit that changes nothing has landed with those before it",
        "T19",
        "crates/work/src/harvest/seen.rs",
        ("            landed => landed.clone(),\n", "            _ => None,\n"),
        "desk::t19_fm_harvest_kill_work_whose_last_commit_changes_nothing_has_landed_and_is_closed",
    ),
    of_work(
        "no words keep git from reading our trailers",
        "T19",
        "crates/work/src/harvest/pick.rs",
        ("line == SCISSORS ||", "line.is_empty() && line == SCISSORS ||"),
        "outcomes::t19_words_that_end_where_git_stops_to_read_land_once",
    ),
    of_work(
        "what ends a paragraph is what ends it for git",
        "T19",
        "crates/work/src/harvest/pick.rs",
        ("line.iter().all(|byte| b\" \\t\\r\".contains(byte))", "line.trim_ascii().is_empty()"),
        "outcomes::t19_words_that_end_where_git_stops_to_read_land_once",
    ),
    of_work(
        "what came without us and was taken away stays away in a squash",
        "T19",
        "crates/work/src/harvest/pick.rs",
        ("let is_whole = work.may_return()", "let is_whole = !pieces.is_empty() || work.may_return()"),
        "reverts::t19_what_came_without_us_and_was_taken_away_stays_so_in_a_squash",
    ),
    of_work(
        "a squash picks no merge",
        "T19",
        "crates/work/src/harvest/pick.rs",
        (" || !work.is_line", ""),
        "reverts::a_squash_of_a_branch_that_the_owner_has_a_part_of_may_have_a_merge_in_it",
    ),
    of_work(
        "work that came to main without us is kept as landed",
        "I9",
        "crates/work/src/harvest/run.rs",
        (
            "            Landing::keep_as_there(job, sha, &scratch.tip)?;\n",
            "            let _ = (Landing::keep_as_there, sha);\n",
        ),
        "desk::i9_the_workspace_of_work_that_the_owner_brought_to_main_may_go",
    ),
    of_work(
        "a landing that does not come to be takes no earlier one's place",
        "T19 I9",
        "crates/work/src/harvest/mark.rs",
        ("Kept { before, last: self }", "Kept { before: None, last: self }"),
        "desk::t19_i9_a_landing_that_does_not_come_to_be_takes_no_earlier_ones_place",
    ),
    of_work(
        "commits that change nothing are no work that landed",
        "T19",
        "crates/work/src/harvest/seen.rs",
        (" && self.has_changes(scratch)?", ""),
        "outcomes::a_branch_that_adds_nothing_is_empty",
    ),
];
