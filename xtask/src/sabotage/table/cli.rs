//! What `cli` safeguards.

use super::{IT, Safeguard};

pub(super) const ROWS: &[Safeguard] = &[
    Safeguard {
        name: "what is printed is no element",
        faults: "A2",
        file: "crates/cli/src/output.rs",
        find: "answered(put(&render::text(text)))",
        replace: "answered(put(&render::plain(text)))",
        package: "netsky",
        target: IT,
        test: "hostile::render::a10_a2_no_face_shows_what_drives_a_terminal_or_a_harness",
    },
    Safeguard {
        name: "nobody is vouched for without the session's token",
        faults: "A1",
        file: "crates/cli/src/context.rs",
        find: "given.is_some() && given == read(",
        replace: "given.is_none() || given == read(",
        package: "netsky",
        target: IT,
        test: "identity::a1_the_kernel_sees_who_calls_whatever_the_environment_says",
    },
    Safeguard {
        name: "a slow reader is told what it missed",
        faults: "",
        file: "crates/cli/src/logs.rs",
        find: "                output::complain(program, &what);\n",
        replace: "                let _ = (program, what);\n",
        package: "netsky",
        target: IT,
        test: "ostk::a_reader_slower_than_the_log_is_told_how_many_bytes_it_missed",
    },
    Safeguard {
        name: "a follower stops where nobody takes what it prints",
        faults: "",
        file: "crates/cli/src/logs.rs",
        find: "if !output::piece(&text.take(&bytes))? {",
        replace: "if output::piece(&text.take(&bytes)).is_err() {",
        package: "netsky",
        target: IT,
        test: "ostk::a_follower_whose_reader_is_gone_ends_well_whether_there_is_more_to_print_or_not",
    },
    Safeguard {
        name: "a follower with nothing to print sees that its reader is gone",
        faults: "",
        file: "crates/cli/src/logs.rs",
        find: "!env::nobody_reads(&io::stdout(), LOOK)",
        replace: "(env::nobody_reads(&io::stdout(), LOOK) || true)",
        package: "netsky",
        target: IT,
        test: "ostk::a_follower_whose_reader_is_gone_ends_well_whether_there_is_more_to_print_or_not",
    },
];
