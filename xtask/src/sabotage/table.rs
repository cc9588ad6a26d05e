//! The safeguards, as data: what to take out, and which named test must notice.

/// One safeguard of the product and the test that holds it.
pub(crate) struct Safeguard {
    /// What is being taken out, in words of the house.
    pub(crate) name: &'static str,
    /// Ids of the promises that rest on it.
    pub(crate) faults: &'static str,
    pub(crate) file: &'static str,
    /// Occurs exactly once in the file.
    pub(crate) find: &'static str,
    pub(crate) replace: &'static str,
    pub(crate) package: &'static str,
    /// Which of the package's test binaries holds the test: [`UNIT`] or [`IT`].
    pub(crate) target: &'static [&'static str],
    /// The test's full name.
    pub(crate) test: &'static str,
}

/// The unit tests of the library.
const UNIT: &[&str] = &["--lib"];
/// The one integration test binary of the crate.
const IT: &[&str] = &["--test", "it"];

impl Safeguard {
    /// The file's text without the safeguard; nothing if it is not there exactly once.
    pub(crate) fn applied(&self, text: &str) -> Option<String> {
        let once = text.matches(self.find).count() == 1;
        once.then(|| text.replacen(self.find, self.replace, 1))
    }
}

/// Every safeguard of the first slice.
pub(crate) const SAFEGUARDS: &[Safeguard] = &[
    Safeguard {
        name: "file sync",
        faults: "T1 I2",
        file: "crates/disk/src/fs.rs",
        find: "rustix::fs::fsync(&file).map_err(|e| Error::new(\"sync\", &path, e))",
        replace: "Ok(())",
        package: "netsky",
        target: IT,
        test: "durability::t1_a_send_syncs_its_file_once_before_the_name",
    },
    Safeguard {
        name: "folder sync",
        faults: "T1 I2",
        file: "crates/disk/src/fs.rs",
        find: "    target.sync()\n}",
        replace: "    Ok(())\n}",
        package: "netsky",
        target: IT,
        test: "durability::t1_a_send_syncs_the_folder_once_after_the_name_and_before_it_says_so",
    },
    Safeguard {
        name: "a claim is durable before it is shown",
        faults: "T2",
        file: "crates/bus/src/claim.rs",
        find: "if let Err(error) = folders.claimed.sync()",
        replace: "if let Err(error) = netsky_disk::Result::Ok(())",
        package: "netsky",
        target: IT,
        test: "durability::t2_a_drain_makes_its_claim_durable_before_it_shows_the_text",
    },
    Safeguard {
        name: "an ack is durable before it is said",
        faults: "T2",
        file: "crates/bus/src/ack.rs",
        find: "        point(\"bus.ack.renamed\");\n        acked.sync()?;\n",
        replace: "        point(\"bus.ack.renamed\");\n",
        package: "netsky",
        target: IT,
        test: "durability::t2_an_ack_is_durable_before_it_says_so",
    },
    Safeguard {
        name: "attempt + 1 on return",
        faults: "T2 I1",
        file: "crates/model/src/name.rs",
        find: "attempt: self.attempt + 1",
        replace: "attempt: self.attempt",
        package: "netsky",
        target: IT,
        test: "racers::l6_a_drainer_killed_between_claim_and_print_gives_its_claims_back_flagged",
    },
    Safeguard {
        name: "only a dead owner's claim returns",
        faults: "T2 T7",
        file: "crates/bus/src/back.rs",
        find: "if life == Life::Dead {",
        replace: "if life != Life::Unknown {",
        package: "netsky",
        target: IT,
        test: "racers::l6_a_stopped_drainer_keeps_its_claims_and_finishes",
    },
    Safeguard {
        name: "a repeated id looks for the first",
        faults: "T3 T18",
        file: "crates/bus/src/send.rs",
        find: "if reservation.was_interrupted { self.whereabouts(channel, &name.key)? } else { None }",
        replace: "None",
        package: "netsky",
        target: IT,
        test: "kill_points::fm_send_kill_every_syscall_with_an_id",
    },
    Safeguard {
        name: "rename without replace",
        faults: "I2 FM-send-racers",
        file: "crates/disk/src/fs.rs",
        find: "RenameFlags::NOREPLACE",
        replace: "RenameFlags::empty()",
        package: "netsky-disk",
        target: IT,
        test: "files::fm_send_racers_a_name_that_is_taken_is_not_replaced",
    },
    Safeguard {
        name: "links are not followed",
        faults: "A5",
        file: "crates/disk/src/fs.rs",
        find: "OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK",
        replace: "OFlags::RDONLY | OFlags::NONBLOCK",
        package: "netsky-disk",
        target: IT,
        test: "files::a5_what_is_no_plain_file_of_ours_is_not_read",
    },
    Safeguard {
        name: "only regular files are read",
        faults: "A5",
        file: "crates/disk/src/fs.rs",
        find: "        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {\n            return",
        replace: "        if false {\n            return",
        package: "netsky-disk",
        target: IT,
        test: "files::a5_what_is_no_plain_file_of_ours_is_not_read",
    },
    Safeguard {
        name: "wide folders are refused",
        faults: "A4",
        file: "crates/disk/src/fs.rs",
        find: "mode & 0o077 != 0",
        replace: "false",
        package: "netsky-disk",
        target: IT,
        test: "files::a4_a_folder_that_lets_others_in_is_refused_and_not_changed",
    },
    Safeguard {
        name: "locks close on exec",
        faults: "T16",
        file: "crates/disk/src/lock.rs",
        find: "flags | OFlags::CLOEXEC | OFlags::NOFOLLOW",
        replace: "flags | OFlags::NOFOLLOW",
        package: "netsky-disk",
        target: IT,
        test: "locks::t16_a_child_does_not_inherit_the_lock",
    },
    Safeguard {
        name: "torn lines are cut",
        faults: "T14",
        file: "crates/disk/src/lines.rs",
        find: "if whole < len",
        replace: "if false",
        package: "netsky-disk",
        target: IT,
        test: "files::t14_a_torn_last_line_is_cut_before_the_next",
    },
    Safeguard {
        name: "start time in a process identity",
        faults: "T8 I11",
        file: "crates/disk/src/process.rs",
        find: "!now.zombie && now.start_time == id.start_time",
        replace: "!now.zombie",
        package: "netsky-disk",
        target: UNIT,
        test: "process::tests::t8_a_pid_with_another_start_is_dead_and_a_foreign_namespace_is_unknown",
    },
    Safeguard {
        name: "never signal init or ourselves",
        faults: "A20",
        file: "crates/disk/src/process.rs",
        find: "raw > 1 && pid != std::process::id()",
        replace: "true",
        package: "netsky-disk",
        target: UNIT,
        test: "process::tests::a20_init_and_ourselves_cannot_be_signalled",
    },
    Safeguard {
        name: "durable ceiling of the clock",
        faults: "T5",
        file: "crates/disk/src/hlc.rs",
        find: "Some(head) => head.ceiling,",
        replace: "Some(_) => 0,",
        package: "netsky-disk",
        target: IT,
        test: "hlc::a_lost_word_starts_above_the_ceiling",
    },
    Safeguard {
        name: "the clock never steps back",
        faults: "T5",
        file: "crates/model/src/hlc.rs",
        find: "(self.0 + 1).max(wall_ms << 16)",
        replace: "wall_ms << 16",
        package: "netsky-model",
        target: UNIT,
        test: "hlc::tests::t5_a_wall_clock_that_steps_back_reorders_nothing",
    },
    Safeguard {
        name: "id grammar",
        faults: "A6",
        file: "crates/model/src/id.rs",
        find: "&& bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')",
        replace: "",
        package: "netsky-model",
        target: UNIT,
        test: "id::tests::a6_ids_that_could_leave_their_folder_are_refused",
    },
    Safeguard {
        name: "text cannot close its element",
        faults: "A2 T22",
        file: "crates/model/src/render.rs",
        find: "if is_open_bracket(*c) && opens_trusted(&text[at + 1..])",
        replace: "if false",
        package: "netsky-model",
        target: UNIT,
        test: "render::tests::a2_no_text_closes_the_element_or_opens_a_trusted_one",
    },
    Safeguard {
        name: "control bytes are taken out",
        faults: "A10",
        file: "crates/model/src/render.rs",
        find: "c => !c.is_control(),",
        replace: "_ => true,",
        package: "netsky-model",
        target: UNIT,
        test: "render::tests::a10_nothing_that_drives_a_terminal_is_left",
    },
    Safeguard {
        name: "a verification interval",
        faults: "T9",
        file: "crates/model/src/restart.rs",
        find: "if seen.watched >= seen.interval",
        replace: "if seen.agent0_alive",
        package: "netsky-model",
        target: UNIT,
        test: "restart::tests::t9_verified_needs_all_four",
    },
    Safeguard {
        name: "sleep is not watching",
        faults: "T9",
        file: "crates/model/src/restart.rs",
        find: "if gap > interval * 2 { 0 } else { before.watched_ms + gap.as_millis() as u64 }",
        replace: "before.watched_ms + gap.as_millis() as u64",
        package: "netsky-model",
        target: UNIT,
        test: "restart::tests::suspend_is_not_watching_time",
    },
    Safeguard {
        name: "five attempts, then poison",
        faults: "T2",
        file: "crates/model/src/life.rs",
        find: "GiveBack { attempt }) if attempt < MAX_ATTEMPTS =>",
        replace: "GiveBack { attempt: _ }) =>",
        package: "netsky-model",
        target: UNIT,
        test: "life::tests::every_pair_of_state_and_event_is_decided",
    },
    Safeguard {
        name: "a look that fails is no death",
        faults: "T2 FM-claim-emfile",
        file: "crates/disk/src/process.rs",
        find: "Err(_) => Life::Unknown,",
        replace: "Err(_) => Life::Dead,",
        package: "netsky",
        target: IT,
        test: "errno_points::fm_claim_emfile_takes_nothing_from_an_owner_that_lives",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_missing_or_repeated_is_not_applied() {
        let safeguard = Safeguard {
            name: "x",
            faults: "",
            file: "a.rs",
            find: "sync();",
            replace: "",
            package: "p",
            target: UNIT,
            test: "t",
        };
        assert_eq!(safeguard.applied("a(); sync(); b();").as_deref(), Some("a();  b();"));
        assert_eq!(safeguard.applied("a();"), None);
        assert_eq!(safeguard.applied("sync(); sync();"), None);
    }
}
