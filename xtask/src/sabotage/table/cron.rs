//! Cron entries, in `schedule`, `watchdog` and `cli`.

use super::{Safeguard, of_library, of_verbs};

const EXPR: &str = "crates/schedule/src/cron/expr.rs";
const FILE: &str = "crates/schedule/src/cron/file.rs";
const EDIT: &str = "crates/schedule/src/cron/edit.rs";
const STEP: &str = "crates/schedule/src/cron/step.rs";
const STATE: &str = "crates/schedule/src/cron/state.rs";
const TICK: &str = "crates/watchdog/src/cron.rs";

pub(super) const ROWS: &[Safeguard] = &[
    of_library(
        "netsky-schedule",
        "a fixed time in a gap comes right after it",
        "FM-cron",
        EXPR,
        ("if !self.follows_the_wall\n", "if false && !self.follows_the_wall\n"),
        "cron::tests::zones::must_show_4_around_every_change_of_clocks_in_twelve_zones",
    ),
    of_library(
        "netsky-schedule",
        "a fixed time in an overlap comes once",
        "FM-cron",
        EXPR,
        ("|| !is_second_time(found, at, zone)", "|| !is_second_time(found, at, zone) || true"),
        "cron::tests::zones::must_show_4_around_every_change_of_clocks_in_twelve_zones",
    ),
    of_library(
        "netsky-schedule",
        "days with a star in one of their fields fit both",
        "FM-cron",
        EXPR,
        (".dom_and_dow(both)", ".dom_and_dow(both && false)"),
        "cron::tests::zones::days_are_either_of_two_fields_unless_one_begins_with_a_star",
    ),
    of_library(
        "netsky-schedule",
        "what never comes is no expression",
        "FM-cron",
        EXPR,
        ("None => Err(bad(\"it names no day that ever comes\".to_owned())),", "None => Ok(expr),"),
        "cron::tests::zones::what_is_no_expression_says_which_field",
    ),
    of_library(
        "netsky-schedule",
        "the last good cron.toml stands in",
        "FM-cron",
        FILE,
        ("    let good = good(layout);\n", "    let good = good(layout).filter(|_| false);\n"),
        "cron::tests::file::fm_cron_fire_corrupt_the_last_file_that_read_stands_in_for_one_that_does_not",
    ),
    of_library(
        "netsky-schedule",
        "comments above an entry outlive it",
        "FM-cron",
        EDIT,
        ("above = entries.get(at).map(comments).unwrap_or_default();", ""),
        "cron::tests::file::what_people_wrote_around_an_entry_survives_edits",
    ),
    of_verbs(
        "what is written by hand during an edit is kept",
        "FM-cron",
        EDIT,
        ("if file::read(layout)?.as_deref() != before {", "if false && before.is_none() {"),
        "cron::what_somebody_writes_while_a_verb_edits_is_not_lost",
    ),
    of_verbs(
        "an agent changes its own cron entries alone",
        "A16",
        EDIT,
        ("Some(me) if AgentId", "Some(me) if false && AgentId"),
        "cron::a16_a_session_changes_its_own_entries_and_agent0_those_of_all",
    ),
    of_verbs(
        "an agent adds cron entries for itself alone",
        "A16",
        "crates/cli/src/verb/cron/add.rs",
        ("        cx.may_schedule(\"a cron entry\", &agent)?;\n", ""),
        "cron::a16_a_session_changes_its_own_entries_and_agent0_those_of_all",
    ),
    of_library(
        "netsky-schedule",
        "another schedule of a cron entry begins anew",
        "FM-cron",
        STEP,
        ("Some(known) if known.schedule == schedule =>", "Some(known) =>"),
        "cron::tests::step::another_schedule_or_zone_and_one_that_counts_again_begin_anew",
    ),
    of_library(
        "netsky-schedule",
        "a window bounds what is caught up",
        "FM-cron",
        STEP,
        ("<= window;", "<= window || true;"),
        "cron::tests::step::what_is_older_than_its_window_is_counted_and_told_with_the_next",
    ),
    of_verbs(
        "a step of the calendar is caught up by nobody",
        "FM-cron T9",
        STEP,
        ("(set.abs() > STEP + DRIFT).then_some(set)", "(false && set.abs() > STEP + DRIFT).then_some(set)"),
        "cron::must_show_5_a_day_back_and_hours_forward_are_steps_after_which_nothing_is_caught_up",
    ),
    of_verbs(
        "a sleep is no step of the calendar",
        "FM-cron T9",
        STEP,
        ("went - SignedDuration::from_millis(ran)", "went - SignedDuration::from_millis(ran) * 0"),
        "cron::must_show_5_a_sleep_of_eight_hours_is_one_envelope_that_tells_how_many_were_missed",
    ),
    of_library(
        "netsky-schedule",
        "a newer state of cron entries is left alone",
        "FM-cron",
        STATE,
        ("Ok(Version { v }) if v > VERSION =>", "Ok(Version { v }) if v > VERSION && false =>"),
        "cron::tests::file::what_the_tick_keeps_is_written_and_read_again_and_a_newer_one_is_left_alone",
    ),
    of_verbs(
        "a damaged state of cron entries is set aside",
        "FM-cron",
        TICK,
        ("state::set_aside(cx.layout.cron_state())?;", ""),
        "cron::fm_cron_fire_corrupt_a_state_that_says_nothing_is_set_aside_and_begins_anew",
    ),
    of_verbs(
        "the id of a cron tick derives from its instant",
        "FM-cron T3 I6",
        TICK,
        ("let id = cron::envelope_id(&entry.id, due.slot);", "let id = netsky_disk::random::uuid_v7();"),
        "cron_points::fm_cron_fire_kill_t3_must_show_2_every_syscall_of_a_tick_of_a_few",
    ),
    of_verbs(
        "what came since a tick that died is told too",
        "FM-cron T3",
        TICK,
        (
            "placed.map_or(due.further, |missed| missed.saturating_sub(known.untold))",
            "placed.map_or(due.further, |_| due.further)",
        ),
        "cron::t3_who_dies_between_the_envelope_and_the_state_leaves_what_came_since_to_the_next",
    ),
    of_verbs(
        "what is due of a cron entry is kept before it is told",
        "FM-cron T3",
        TICK,
        ("if !is_needed {", "if !is_needed || true {"),
        "cron::t3_what_is_due_of_an_entry_that_was_just_made_is_kept_before_it_is_told",
    ),
    of_verbs(
        "no second cron tick while one waits",
        "FM-cron I6",
        TICK,
        ("&& cx.bus.waits(&to, last)?", "&& last.as_str().is_empty()"),
        "cron::while_the_one_before_waits_there_is_no_second_and_the_count_rises",
    ),
    of_verbs(
        "what is claimed is not read yet",
        "FM-cron I6",
        "crates/bus/src/ids.rs",
        ("Ok(there || lies()?)", "Ok(there && lies()?)"),
        "cron::while_the_one_before_waits_there_is_no_second_and_the_count_rises",
    ),
    of_verbs(
        "what keeps a cron entry from being told is on it",
        "T4",
        TICK,
        ("known.failed(&why);", ""),
        "cron::t4_an_entry_that_fails_or_does_not_read_keeps_no_other_from_being_told",
    ),
    of_verbs(
        "what passed while a cron tick was not read is said with it",
        "FM-cron",
        "crates/schedule/src/lib.rs",
        ("\"cron-tick\" => cron::missed(layout, thread, id),", ""),
        "cron::must_show_8_an_agent_that_was_down_for_eight_hours_is_told_once_how_many_it_missed",
    ),
    of_library(
        "netsky-schedule",
        "what the next cron tick tells is not said by the one before it",
        "FM-cron",
        STATE,
        ("known.missed.saturating_sub(known.untold)", "known.missed"),
        "cron::tests::file::must_show_8_what_passed_while_one_was_not_read_is_said_of_that_one_and_of_no_other",
    ),
];
