//! Safeguards of the gate: what judges, and how it is shut in.

use super::{Safeguard, of_work};

pub(super) const ROWS: &[Safeguard] = &[
    of_work(
        "a branch does not touch what judges it",
        "A22",
        "crates/work/src/gate/pass.rs",
        (
            "        self.on_main.get(path) != self.on_new.get(path)\n",
            "        self.on_main.get(path) != self.on_main.get(path)\n",
        ),
        "gate::a22_a_branch_that_touches_the_gate_needs_the_owner_and_is_judged_by_the_one_of_main",
    ),
    of_work(
        "main's gate judges",
        "A22",
        "crates/work/src/gate/pass.rs",
        (
            "main.as_str(), \"--\"];\n        args.extend(of_main);",
            "new.as_str(), \"--\"];\n        args.extend(of_main);",
        ),
        "gate::a22_a_branch_that_touches_the_gate_needs_the_owner_and_is_judged_by_the_one_of_main",
    ),
    of_work(
        "a guard is a folder whole",
        "A22",
        "crates/work/src/gate/pass.rs",
        ("[\"ls-tree\", \"-t\", \"-z\"", "[\"ls-tree\", \"-z\""),
        "gate::a22_a_guard_is_a_folder_whole_and_one_that_main_has_not_is_said_to_be_none",
    ),
    of_work(
        "a guard with a slip of the pen is refused",
        "A22",
        "crates/work/src/gate/pass.rs",
        (
            ".find(|(_, guard)| !is_there(guard))",
            ".find(|(_, guard)| guard.is_some() && !is_there(guard) && paths.is_empty())",
        ),
        "gate::a22_a_guard_is_a_folder_whole_and_one_that_main_has_not_is_said_to_be_none",
    ),
    of_work(
        "what an interpreter is given judges",
        "A22",
        "crates/work/src/gate/pass.rs",
        ("front.chain(words.iter().skip(1))", "front.chain(words.iter().skip(words.len()))"),
        "gate::a22_a_file_that_the_command_names_judges_as_main_has_it",
    ),
    of_work(
        "a gate has a root of its own",
        "A22, A10",
        "crates/work/src/gate/shut.rs",
        (
            "has_left && leave_files(order).map_err(|e| e.to_string())?;",
            "order.is_strict && leave_files(order).is_ok();",
        ),
        "gate::a10_a22_a_gate_reaches_no_socket_and_no_terminal_but_its_own",
    ),
    of_work(
        "a gate's terminals are its own",
        "A10",
        "crates/disk/src/alone/root.rs",
        (
            "mount(\"devpts\", &terminals, \"devpts\", libc::MS_NOSUID | libc::MS_NOEXEC, of_own);",
            "bind(Path::new(\"/dev/pts\"), &terminals).map(|()| of_own);",
        ),
        "gate::a10_a22_a_gate_reaches_no_socket_and_no_terminal_but_its_own",
    ),
    of_work(
        "a gate's files are out of its reach",
        "A22, A17",
        "crates/work/src/gate/shut.rs",
        (
            "wall(order, has_left, has_root).map_err(|e| e.to_string())?;",
            "wall(order, has_left, has_root).is_ok_and(|_| false) && has_left;",
        ),
        "gate::a22_a17_a_gate_sees_no_home_and_no_key_and_reaches_no_network",
    ),
    of_work(
        "a gate reads only what it needs",
        "A22, A17",
        "crates/work/src/gate/shut.rs",
        ("&[\"/usr\", \"/bin\"", "&[\"/\", \"/usr\", \"/bin\""),
        "gate::a22_a17_a_gate_sees_no_home_and_no_key_and_reaches_no_network",
    ),
    of_work(
        "a gate leaves the network",
        "A22",
        "crates/work/src/gate/shut.rs",
        (
            "alone::leave_network().map_err(|e| e.to_string())?;",
            "order.is_strict && alone::leave_network().is_ok();",
        ),
        "gate::a22_a17_a_gate_sees_no_home_and_no_key_and_reaches_no_network",
    ),
    of_work(
        "all that a gate started ends with it",
        "A22",
        "crates/disk/src/alone.rs",
        (
            "    sweep::sweep_below(std::process::id(), SWEEP)?;\n",
            "    sweep::sweep_descendants(std::process::id(), SWEEP)?;\n",
        ),
        "gate::a22_what_a_gate_leaves_behind_ends_with_it",
    ),
];
