//! Tasks: one has a task, nobody's late word moves it, and a decision rests on all that was told before.

use super::{IT, Safeguard, UNIT, of_work};

pub(super) const ROWS: &[Safeguard] = &[
    of_work(
        "a claim is decided under the record's lock",
        "I3 I9",
        "crates/ledger/src/facts/mod.rs",
        (
            "        let held = Lock::take_within(&path, limit)?.ok_or(Error::Busy(path))?;",
            "        let held = Lock::take_within(record.path().join(netsky_disk::random::short()), limit)?.ok_or(Error::Busy(path))?;",
        ),
        "task::claims::fm_task_claim_racers_one_of_eight_has_it_and_the_others_are_told_who",
    ),
    of_work(
        "who has a task keeps it",
        "A16",
        "crates/model/src/task/event.rs",
        ("        return Err(held(task, holder, its));", "        let _ = held(task, holder, its);"),
        "task::claims::fm_task_claim_racers_one_of_eight_has_it_and_the_others_are_told_who",
    ),
    Safeguard {
        name: "a word of another generation moves no task",
        faults: "A16",
        file: "crates/model/src/task/event.rs",
        find: "            if task.state.holder() != Some((by, *generation)) {",
        replace: "            if task.state.holder().is_none_or(|(holder, _)| holder != by) {",
        package: "netsky-model",
        target: UNIT,
        test: "task::tests::every_pair_of_state_and_event_is_decided",
    },
    of_work(
        "an agent speaks for its own generation alone",
        "A16",
        "crates/model/src/task/event.rs",
        ("            (by == me && generation == mine, ", "            (by == me || generation == mine, "),
        "task::claims::a16_a_word_of_another_generation_or_agent_moves_nothing",
    ),
    of_work(
        "what waits is claimed by nobody",
        "I9",
        "crates/work/src/task/decide.rs",
        ("            if !on.is_empty() {", "            if on.len() > 1 {"),
        "task::claims::a_task_waits_for_those_before_it_and_says_which",
    ),
    of_work(
        "no task waits for itself",
        "I9",
        "crates/work/src/task/decide.rs",
        (
            "        Event::Updated(_) => put(&mut tasks, &next)?,",
            "        Event::Updated(_) => fit(&next)?,",
        ),
        "task::moves::what_would_wait_for_itself_or_for_nothing_is_refused_and_changes_nothing",
    ),
    of_work(
        "a session that the kernel does not know has not ended",
        "I3",
        "crates/work/src/task/sessions.rs",
        ("known.is_some_and(|(newest, lives)|", "known.is_none_or(|(newest, lives)|"),
        "task::claims::fm_task_claim_racers_one_of_eight_has_it_and_the_others_are_told_who",
    ),
    Safeguard {
        name: "a claim that is over is told before the next one",
        faults: "I3",
        file: "crates/work/src/task/decide.rs",
        find: "        task = decision.release(&task, was, *generation)?;",
        replace: "        task.state = State::Open;",
        package: "netsky",
        target: IT,
        test: "task::fm_task_release_a_claim_ends_with_its_generation_and_is_told_before_the_next_one",
    },
    of_work(
        "a row that was changed decides nothing",
        "I9",
        "crates/ledger/src/facts/latest.rs",
        ("            if !row.links.holds {", "            if false {"),
        "task::moves::a_decision_on_a_damaged_record_is_none",
    ),
    of_work(
        "what stands beyond the end that the next file names decides nothing",
        "I9",
        "crates/ledger/src/facts/latest.rs",
        (
            "                at.ok_or_else(|| broken(lines.len(), \"is not the one that the next file follows\"))? + 1",
            "                at.map_or(0, |_| lines.len())",
        ),
        "task::moves::what_is_told_is_read_across_files_whose_ends_are_named_by_the_next",
    ),
    of_work(
        "an import is judged before any of it is told",
        "I9",
        "crates/work/src/task/transfer.rs",
        (
            "                Some(_) => return Err(wrong(format!(\"another task {} is there already\", line.id))),",
            "                Some(_) => {}",
        ),
        "task::lines::an_import_with_one_wrong_line_imports_none_and_says_which",
    ),
    of_work(
        "a brief is the one that its task names",
        "A16",
        "crates/work/src/task/briefs.rs",
        ("        if BriefDigest::of(&text) != brief.digest {", "        if text.is_empty() {"),
        "task::moves::a_long_brief_has_a_file_and_one_that_was_changed_is_damage",
    ),
];
