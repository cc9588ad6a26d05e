//! The service and the failsafe, in `watchdog` and `cli`.

use super::{Safeguard, of_library, of_verbs};

const FAILSAFE: &str = "crates/watchdog/src/failsafe.rs";
const INSTALL: &str = "crates/watchdog/src/service/install.rs";
const KEEPER: &str = "crates/watchdog/src/keeper.rs";
const LAUNCHD: &str = "crates/watchdog/src/service/launchd.rs";
const LOOK: &str = "crates/watchdog/src/service/look.rs";
const SERVICE: &str = "crates/watchdog/src/service/mod.rs";
const SYSTEMD: &str = "crates/watchdog/src/service/systemd.rs";

const KNOWN: &str = "service::tests::a_file_is_known_as_ours_as_edited_and_as_anothers";
const REAL: &str = "service::manager::must_show_9_under_a_real_user_manager_everything_killed_at_once_is_back_and_a_down_stays_down";

pub(super) const ROWS: &[Safeguard] = &[
    of_library(
        "netsky-watchdog",
        "nobody below the ticker hears of its manager's socket",
        "",
        "crates/watchdog/src/ticker/mod.rs",
        ("        unset: notify::OURS.map(str::to_owned).into(),\n", ""),
        "notify::tests::nobody_below_hears_of_the_socket",
    ),
    of_library(
        "netsky-watchdog",
        "a unit that was edited is known as edited",
        "T27",
        LOOK,
        ("    let is_whole = comments", "    let is_whole = true || comments"),
        KNOWN,
    ),
    of_library(
        "netsky-watchdog",
        "a unit without our mark is another's",
        "T27",
        LOOK,
        ("else { return Ok(Standing::Foreign) };", "else { return Ok(Standing::Older) };"),
        KNOWN,
    ),
    of_library(
        "netsky-watchdog",
        "a link or a folder in a unit's place is another's",
        "T27",
        LOOK,
        (
            "        Err(_) => return Ok(Standing::Foreign),\n",
            "        Err(_) => return Ok(Standing::Missing),\n",
        ),
        KNOWN,
    ),
    of_library(
        "netsky-watchdog",
        "each home has units of its own",
        "T27",
        SERVICE,
        ("blake3::hash(home.as_bytes())", "blake3::hash(last.as_bytes())"),
        "service::tests::t27_two_homes_never_share_a_name_and_names_stay_short_and_plain",
    ),
    of_library(
        "netsky-watchdog",
        "a path with a line break stands in no unit",
        "T27",
        SERVICE,
        ("text.chars().any(char::is_control)", "text.is_empty()"),
        "service::tests::a_path_that_no_unit_can_name_is_refused",
    ),
    of_library(
        "netsky-watchdog",
        "a path closes no element of a launchd agent",
        "T27",
        LAUNCHD,
        (".replace('<', \"&lt;\")", ""),
        "service::tests::t27_the_agents_of_launchd_nest_and_say_the_very_paths_of_a_hostile_home",
    ),
    of_library(
        "netsky-watchdog",
        "systemd gives ticks that are killed their time",
        "I10",
        SERVICE,
        ("2 * self.interval + 3 * crate::ticker::DEADLINE", "2 * self.interval"),
        "service::tests::i10_the_watchdog_of_systemd_leaves_time_for_ticks_that_are_killed",
    ),
    of_verbs(
        "a percent sign of a path is no specifier",
        "T27",
        SYSTEMD,
        ("    text.replace('%', \"%%\")\n", "    text.to_owned()\n"),
        "service::failsafe::t27_the_page_of_a_failsafe_that_failed_is_no_program_of_ours_in_a_hostile_home_too",
    ),
    of_verbs(
        "a quote of a path ends no word of a unit",
        "T27",
        SYSTEMD,
        (".replace('\"', \"\\\\\\\"\"))", ")"),
        "service::failsafe::t27_the_page_of_a_failsafe_that_failed_is_no_program_of_ours_in_a_hostile_home_too",
    ),
    of_verbs(
        "agents outlive the units that started them",
        "I7",
        SYSTEMD,
        ("\"KillMode=process\\n", "\"KillMode=control-group\\n"),
        REAL,
    ),
    of_verbs(
        "a failsafe that fails is told of by another program",
        "I10",
        SYSTEMD,
        ("OnFailure={page}\n", "# {page}\n"),
        REAL,
    ),
    of_verbs(
        "a failsafe does nothing where nobody is wanted",
        "I7",
        FAILSAFE,
        ("    !none_is || Lock", "    true || !none_is || Lock"),
        "service::failsafe::i7_a_failsafe_overrides_no_down_and_makes_no_home",
    ),
    of_verbs(
        "a failsafe where there is no home is none that failed",
        "I7",
        FAILSAFE,
        ("    is_real_folder(layout.home()) &&", "    true || is_real_folder(layout.home()) &&"),
        "service::failsafe::i7_a_failsafe_overrides_no_down_and_makes_no_home",
    ),
    of_verbs(
        "a tick that comes to nothing fails the failsafe",
        "I10",
        FAILSAFE,
        ("    if !came(cx, began) {", "    if false && !came(cx, began) {"),
        "service::failsafe::i7_a_failsafe_that_is_killed_in_the_middle_is_repeated_by_the_next",
    ),
    of_verbs(
        "a failsafe that fails pages",
        "I10",
        FAILSAFE,
        ("        let _ = program(cx, &[\"escalate\"", "        let _ = program(cx, &[\"no-verb\""),
        "service::failsafe::i7_a_failsafe_that_is_killed_in_the_middle_is_repeated_by_the_next",
    ),
    of_verbs(
        "a ticker that no tick brings back fails the failsafe",
        "T24",
        FAILSAFE,
        ("    let silent = silence(cx);\n", "    let silent = silence(cx).filter(|_| false);\n"),
        "service::failsafe::t24_a_ticker_that_no_tick_brings_back_is_an_exit_code_and_a_page",
    ),
    of_verbs(
        "a service waits for the end of another ticker",
        "T24",
        KEEPER,
        ("    while service || is_session", "    while is_session"),
        "service::failsafe::a_service_and_a_session_tick_in_turn_and_each_is_there_for_the_other",
    ),
    of_verbs(
        "a session's ticker waits for the end of a service's",
        "T24",
        KEEPER,
        (
            "is_session && is_held_by_service(cx) && still < most",
            "is_session && is_held_by_service(cx) && false",
        ),
        "service::failsafe::a_service_and_a_session_tick_in_turn_and_each_is_there_for_the_other",
    ),
    of_verbs(
        "an install writes over no file of another",
        "T27",
        INSTALL,
        ("    refuse_others(&paths, &standings, force, \"replaces\")?;\n", ""),
        "service::units::t27_a_file_that_was_edited_or_is_anothers_is_named_and_left",
    ),
    of_verbs(
        "an uninstall removes no file of another",
        "T27",
        INSTALL,
        ("    refuse_others(&paths, &standings, force, \"removes\")?;\n", ""),
        "service::units::t27_a_file_that_was_edited_or_is_anothers_is_named_and_left",
    ),
    of_verbs(
        "of installs and uninstalls at once one is at work",
        "",
        INSTALL,
        (
            "format!(\".netsky{}.lock\", plan.suffix)",
            "format!(\".netsky{}{}.lock\", plan.suffix, std::process::id())",
        ),
        "service::at_once::whoever_comes_second_waits_until_the_manager_has_answered_the_first",
    ),
    of_verbs(
        "an uninstall without a manager leaves nothing that starts",
        "",
        INSTALL,
        ("                dir.remove(name)?;\n", "                let _ = (dir, name);\n"),
        "service::units::a_manager_that_does_not_answer_is_told_with_the_commands_for_later",
    ),
    of_verbs(
        "what runs takes a changed unit",
        "",
        "crates/watchdog/src/service/manager.rs",
        ("&[\"restart\", &ticker, &timer]", "&[\"start\", &ticker, &timer]"),
        "service::units::an_install_is_whole_said_and_the_same_the_second_time",
    ),
    of_verbs(
        "a service is installed by its owner",
        "",
        "crates/cli/src/verb/service/install.rs",
        ("        cx.owner_only(\"service install\")?;\n", ""),
        "service::units::bad_input_is_one_line_and_writes_nothing",
    ),
];
