//! The files of a lineage: read back, damaged, cut short, full.

use super::*;
use crate::drain::{Intent, LoopConfig, Model, OPEN_BYTES, Turn, Usage};

struct Stage {
    _folder: tempfile::TempDir,
    layout: KernelLayout,
    meta: Meta,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = KernelLayout::new(folder.path().join("root"));
        Dir::make(layout.root()).expect("made");
        let meta = Meta::parse(include_bytes!("../../../samples/meta.v1.json")).expect("the sample loads");
        Stage { _folder: folder, layout, meta }
    }

    fn open(&self) -> Drain {
        self.opened().expect("reads").0
    }

    /// As a fresh anchor has it that read the whole log, of which only the damage is left.
    fn open_as_known(&self, whole: &[u8], damage: &str) -> Drain {
        std::fs::write(self.file(log), whole).expect("writes");
        let drain = self.open();
        std::fs::write(self.file(log), damage).expect("writes");
        drain
    }

    fn opened(&self) -> Result<(Drain, Vec<String>), DrainError> {
        Drain::open(&self.layout, &self.meta.lineage)
    }

    fn turn(&self, drain: &mut Drain, text: &str) -> Taken {
        let messages = vec![JsonText::try_from(format!("\"{text}\"")).expect("it is JSON")];
        let usage = Usage { input: 10, ..Usage::default() };
        let turn = Turn { messages, usage, ..Turn::default() };
        drain.take("anchor", &self.meta, &Report::Turn(Box::new(turn)), None).expect("taken")
    }

    fn file(&self, name: fn(&LineageId) -> String) -> PathBuf {
        self.layout.drain().join(name(&self.meta.lineage))
    }

    /// Files of the lineage that were set aside and had such a name.
    fn aside(&self, name: fn(&LineageId) -> String) -> Vec<Vec<u8>> {
        let name = format!("{}.damaged-", name(&self.meta.lineage));
        let files =
            std::fs::read_dir(self.layout.drain()).expect("a folder").map(|entry| entry.expect("an entry"));
        let aside =
            files.filter(|entry| entry.file_name().to_str().is_some_and(|found| found.starts_with(&name)));
        aside.map(|entry| std::fs::read(entry.path()).expect("reads")).collect()
    }

    /// A snapshot of the first version, with that message so many times.
    fn write_v1(&self, message: &str, times: usize) {
        let messages = vec![format!("{message:?}"); times].join(",");
        let text = format!(
            r#"{{"version":1,"turn":4,"usage":{{"input":1200}},"messages":[{messages}],"runtime":{{"kind":"command","session_id":"0c1f","argv":["agent"],"cwd":"/work"}}}}"#
        );
        Dir::make(self.layout.drain()).expect("made");
        std::fs::write(self.file(current), &text).expect("writes");
    }

    fn messages(&self) -> Vec<String> {
        let whole = read(&self.layout, &self.meta.lineage, true).expect("reads").expect("there");
        whole.messages.into_iter().map(String::from).collect()
    }
}

#[test]
fn i8_what_was_reported_reads_back_the_same_live_and_from_the_files() {
    let stage = Stage::new();
    let mut drain = stage.open();
    for text in ["a", "b", "c"] {
        assert_eq!(stage.turn(&mut drain, text), Taken::Whole);
    }
    let intent = Report::Intent { id: "t1".to_owned(), tool: "sh".to_owned(), input: "ls".into() };
    drain.take("anchor", &stage.meta, &intent, None).expect("taken");
    assert_eq!(stage.open().state(), drain.state());
    assert_eq!((drain.state().turn, drain.state().usage.input), (3, 30));
    assert_eq!(stage.messages(), [r#""a""#, r#""b""#, r#""c""#]);
    let whole = read(&stage.layout, &stage.meta.lineage, false).expect("reads").expect("there");
    assert_eq!(&whole.state, drain.state());
    assert_eq!(whole.snapshot.expect("one").turn, 3);
}

#[test]
fn t15_a_snapshot_that_does_not_read_gives_way_to_the_one_before_and_nothing_is_lost() {
    let stage = Stage::new();
    let mut drain = stage.open();
    ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let whole = std::fs::read(stage.file(current)).expect("reads");
    let changed = String::from_utf8(whole.clone()).expect("text").replace(r#""input": 20"#, r#""input": 2"#);
    for damage in [&b""[..], &whole[..whole.len() / 2], &[0; 64], changed.as_bytes()] {
        std::fs::write(stage.file(current), damage).expect("writes");
        let (opened, notes) = stage.opened().expect("reads");
        assert_eq!((opened.state(), notes.len()), (drain.state(), 1));
    }
    // Both: the log alone says it.
    std::fs::write(stage.file(previous), "half").expect("writes");
    let (mut opened, notes) = stage.opened().expect("reads");
    assert_eq!((opened.state(), notes.len()), (drain.state(), 2));
    // The next one keeps the damage as evidence, not as the one before.
    assert_eq!(stage.turn(&mut opened, "c"), Taken::Whole);
    assert_eq!(std::fs::read(stage.file(previous)).expect("reads"), b"half");
    let aside = std::fs::read_dir(stage.layout.drain()).expect("a folder");
    let aside = aside.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert_eq!(aside.filter(|name| name.contains(".json.damaged-")).count(), 1);
    assert_eq!(stage.open().state().turn, 3);
}

#[test]
fn t14_a_torn_row_is_cut_and_a_changed_one_closes_the_log() {
    use std::io::Write;
    let stage = Stage::new();
    let mut drain = stage.open();
    ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let mut file = std::fs::OpenOptions::new().append(true).open(stage.file(log)).expect("opens");
    file.write_all(br#"{"v":1,"n":3,"#).expect("writes");
    let mut opened = stage.open();
    assert_eq!(opened.state(), drain.state());
    stage.turn(&mut opened, "c");
    assert_eq!(stage.messages().len(), 3);

    // Behind the snapshot, where it would be believed.
    let report = Report::Phase { phase: "busy".to_owned(), until: None };
    opened.take("anchor", &stage.meta, &report, None).expect("taken");
    let text = std::fs::read_to_string(stage.file(log)).expect("reads");
    for changed in [text.replace("busy", "idle"), text.replace(r#"{"v":1,"n":4"#, r#"{"v":1,"n":5"#)] {
        std::fs::write(stage.file(log), &changed).expect("writes");
        assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })));
        assert_eq!(std::fs::read_to_string(stage.file(log)).expect("reads"), changed);
    }
    std::fs::write(stage.file(log), &text[..100]).expect("writes");
    assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })), "shorter than its snapshot says");
    std::fs::remove_file(stage.file(log)).expect("removed");
    assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })), "gone");
}

#[test]
fn t15_whoever_touches_the_log_has_all_of_it_read_before_the_next_report() {
    use std::io::Write;
    let stage = Stage::new();
    let mut drain = stage.open();
    ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let whole = std::fs::read(stage.file(log)).expect("reads");
    let report = Report::Phase { phase: "busy".to_owned(), until: None };
    let text = String::from_utf8(whole.clone()).expect("text");
    let first = text.find('\n').expect("a row") + 1;
    for damage in [
        text.replacen(r#"\"a\""#, r#"\"c\""#, 1),
        text[first..].to_owned(),
        text[..first].to_owned(),
        format!("{text}{text}"),
        String::new(),
    ] {
        assert_ne!(damage, text);
        std::fs::write(stage.file(log), &damage).expect("writes");
        for drain in [&mut drain, &mut stage.open_as_known(&whole, &damage)] {
            let taken = drain.take("anchor", &stage.meta, &report, None);
            assert!(matches!(taken, Err(DrainError::Damaged { .. })), "{damage}: {taken:?}");
        }
        assert_eq!(std::fs::read_to_string(stage.file(log)).expect("reads"), damage);
    }
    std::fs::remove_file(stage.file(log)).expect("removed");
    assert!(matches!(drain.take("anchor", &stage.meta, &report, None), Err(DrainError::Damaged { .. })));
    // The same bytes in another file: what follows goes there, and half a row at its end is nobody's.
    std::fs::write(stage.file(log), &whole).expect("writes");
    let mut file = std::fs::OpenOptions::new().append(true).open(stage.file(log)).expect("opens");
    file.write_all(br#"{"v":1,"n":3,"#).expect("writes");
    drain.take("anchor", &stage.meta, &report, None).expect("taken");
    assert_eq!(stage.open().state(), drain.state());
}

#[test]
fn t15_a_log_that_held_is_read_again_only_where_it_was_touched() {
    let stage = Stage::new();
    let mut drain = stage.open();
    stage.turn(&mut drain, "a");
    assert!(drain.held.is_some(), "what it appends it knows");
    // Whoever read this would find it.
    std::fs::write(stage.file(log), "no row\n").expect("writes");
    let folder = Dir::open(&drain.folder).expect("opens");
    drain.held = folder.file_version_now(&log(&drain.lineage)).expect("looks");
    drain.check().expect("it is not read");
    std::fs::write(stage.file(log), "no row either\n").expect("writes");
    assert!(matches!(drain.check(), Err(DrainError::Damaged { .. })));
}

#[test]
fn fm_snapshot_kill_n_or_the_one_before_is_whole_and_the_row_leads_from_one_to_the_other() {
    let stage = Stage::new();
    let mut drain = stage.open();
    ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let turn = |name| match snapshot::parse(&std::fs::read(stage.file(name)).expect("reads")) {
        Ok(Read::Whole(snapshot)) => snapshot.turn,
        other => panic!("{other:?}"),
    };
    assert_eq!((turn(current), turn(previous)), (2, 1));
    // Killed after the row; killed after the one before was kept.
    std::fs::rename(stage.file(previous), stage.file(current)).expect("moved");
    assert_eq!(stage.open().state(), drain.state());
    std::fs::rename(stage.file(current), stage.file(previous)).expect("moved");
    let mut opened = stage.open();
    assert_eq!(opened.state(), drain.state());
    assert_eq!(stage.turn(&mut opened, "c"), Taken::Whole);
}

#[test]
fn fm_snapshot_enospc_the_turn_counts_and_the_one_before_is_kept() {
    let stage = Stage::new();
    let mut drain = stage.open();
    stage.turn(&mut drain, "a");
    std::fs::remove_dir_all(stage.layout.drain().join("tmp")).expect("removed");
    std::fs::write(stage.layout.drain().join("tmp"), "no folder").expect("writes");
    assert!(matches!(stage.turn(&mut drain, "b"), Taken::Unsnapped(_)));
    assert_eq!(stage.open().state(), drain.state());
    assert_eq!(drain.state().turn, 2);
}

#[test]
fn a12_what_a_lineage_holds_is_bounded_and_what_is_refused_changes_nothing() {
    let stage = Stage::new();
    let mut drain = stage.open();
    let take = |drain: &mut Drain, report: &Report| drain.take("anchor", &stage.meta, report, None);
    let intent = |id: &str, bytes: usize| {
        let input = "x".repeat(bytes).into();
        Report::Intent { id: id.to_owned(), tool: "sh".to_owned(), input }
    };
    take(&mut drain, &intent("a", OPEN_BYTES - 100)).expect("it fits");
    let before = drain.state().clone();
    let refused = take(&mut drain, &intent("b", 200)).expect_err("together they do not");
    assert!(matches!(refused, DrainError::Misfit(Misfit::IntentsTooLarge { .. })), "{refused}");
    assert_eq!((drain.state(), stage.open().state()), (&before, &before));
    // A snapshot that could not be read back is not written.
    stage.turn(&mut drain, "a");
    let long = LoopConfig { tools: vec![0; 700_000].into(), ..LoopConfig::default() };
    let turn = Turn { loop_config: Some(long), ..Turn::default() };
    assert!(matches!(take(&mut drain, &Report::Turn(Box::new(turn))), Ok(Taken::Unsnapped(_))));
    assert_eq!(stage.opened().expect("reads").1, [] as [String; 0]);
    assert_eq!(stage.open().state(), drain.state());
    drain.place.bytes = MAX_LOG - 100;
    let size = || std::fs::metadata(stage.file(log)).expect("there").len();
    let whole = size();
    let refused = take(&mut drain, &Report::Turn(Box::default())).expect_err("there is no room");
    assert!(matches!(refused, DrainError::Full { .. }), "{refused}");
    assert_eq!(size(), whole);
}

#[test]
fn a_snapshot_of_the_first_version_still_loads_and_moves_into_the_log_once() {
    let stage = Stage::new();
    netsky_disk::fs::Dir::make(stage.layout.drain()).expect("made");
    std::fs::write(stage.file(current), include_bytes!("../../../samples/drain.v1.json")).expect("writes");
    assert_eq!(stage.messages().len(), 2);
    let drain = stage.open();
    let state = drain.state().clone();
    assert_eq!((state.turn, state.messages.count, state.usage.input), (4, 2, 1200));
    assert_eq!(state.session_id.as_deref(), Some("0c1f"));
    assert_eq!(stage.messages()[0], r#"{"role":"user","content":"hello  there"}"#);
    let mut again = stage.open();
    assert_eq!(again.state(), &state);
    stage.turn(&mut again, "c");
    assert_eq!((again.state().turn, stage.messages().len()), (5, 3));
}

#[test]
fn fm_snapshot_kill_a_report_told_again_under_its_name_counts_once_also_in_a_restarted_anchor() {
    let stage = Stage::new();
    let mut drain = stage.open();
    let report = Report::Turn(Box::default());
    let tell =
        |drain: &mut Drain, id: &str| drain.take("anchor", &stage.meta, &report, Some(id)).expect("taken");
    assert_eq!((tell(&mut drain, "r1"), tell(&mut drain, "r1")), (Taken::Whole, Taken::Before));
    let mut drain = stage.open();
    assert_eq!((tell(&mut drain, "r1"), tell(&mut drain, "r2")), (Taken::Before, Taken::Whole));
    // Killed before the snapshot: the row is what is left of it.
    std::fs::rename(stage.file(previous), stage.file(current)).expect("moved");
    assert_eq!(tell(&mut stage.open(), "r2"), Taken::Before);
    assert_eq!(drain.state().turn, 2);
    for n in 0..crate::drain::RECENT {
        tell(&mut drain, &n.to_string());
    }
    assert_eq!(drain.state().recent.len(), crate::drain::RECENT);
}

#[test]
fn a_later_version_is_left_alone() {
    let stage = Stage::new();
    let mut drain = stage.open();
    stage.turn(&mut drain, "a");
    let bytes = r#"{"version":3,"anything":1}"#;
    std::fs::write(stage.file(current), bytes).expect("writes");
    assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })));
    assert_eq!(std::fs::read_to_string(stage.file(current)).expect("reads"), bytes);
}

#[test]
fn the_sample_of_the_second_version_loads() {
    let read = snapshot::parse(include_bytes!("../../../samples/drain.v2.json")).expect("the sample loads");
    let Read::Whole(snapshot) = read else { panic!("it is of version 2") };
    assert_eq!((snapshot.turn, snapshot.intents.len()), (12, 1));
    assert_eq!(snapshot.to_bytes(), include_bytes!("../../../samples/drain.v2.json"));
}

#[test]
fn t18_what_was_acknowledged_by_one_that_ages_is_kept_beside_its_own_record() {
    let stage = Stage::new();
    let mut drain = stage.open();
    let take = |drain: &mut Drain, generation, report| {
        let meta = Meta { generation: Generation(generation), ..stage.meta.clone() };
        assert_eq!(drain.take("anchor", &meta, &report, None).expect("taken"), Taken::Whole);
    };
    let context = || Report::Context { used: 75.try_into().expect("a percentage") };
    let read = |name| std::fs::read_to_string(stage.layout.drain().join(name)).expect("reads");
    let (waits, before) =
        (handoff::name(&stage.meta.lineage), format!("{}.handoff.prev.json", stage.meta.lineage));
    take(&mut drain, 1, context());
    take(&mut drain, 1, Report::Handoff { text: "go on".to_owned() });
    take(&mut drain, 2, context());
    assert!(read(&waits).contains("go on"), "it still waits");
    take(&mut drain, 2, Report::Acknowledge);
    assert!(read(&before).contains("go on") && read(&waits).contains(r#""generation": 2"#));
    // What does not read is no record to write over.
    std::fs::write(stage.layout.drain().join(&waits), "half").expect("writes");
    take(&mut drain, 2, Report::Turn(Box::default()));
    assert_eq!(read(&before), "half");
}

#[test]
fn t15_a_log_that_begins_anew_goes_on_with_all_that_reads() {
    let stage = Stage::new();
    let mut drain = stage.open();
    let take = |drain: &mut Drain, generation, report: &Report| {
        let meta = Meta { generation: Generation(generation), ..stage.meta.clone() };
        drain.take("anchor", &meta, report, None).expect("taken");
    };
    let context = |used: u8| Report::Context { used: used.try_into().expect("a percentage") };
    let intent = |id: &str| Report::Intent { id: id.to_owned(), tool: "sh".to_owned(), input: "ls".into() };
    let named =
        |name: &str| Report::SessionId { session_id: name.to_owned(), transcript: Some(format!("/{name}")) };
    let usage = Usage { input: 10, cost_micros: Some(3), ..Usage::default() };
    let message = JsonText::try_from("\"first\"".to_owned()).expect("it is JSON");
    let model = Some(crate::drain::Model { name: "small".to_owned(), ..Default::default() });
    let turn = Report::Turn(Box::new(Turn { messages: vec![message], usage, model, ..Turn::default() }));
    let handoff = Report::Handoff { text: "go on".to_owned() };
    let changed = |stage: &Stage| {
        let text = std::fs::read_to_string(stage.file(log)).expect("reads");
        std::fs::write(stage.file(log), text.replacen("first", "tsrif", 1)).expect("writes");
        std::fs::read(stage.file(log)).expect("reads")
    };
    let mut aside = Vec::new();
    // Each of them with what is behind the newest snapshot.
    let steps: [(u64, Vec<Report>); 4] = [
        (1, vec![named("a"), turn.clone(), intent("t1")]),
        (1, vec![context(95), context(12), handoff]),
        (2, vec![named("b"), intent("t2")]),
        (2, vec![turn.clone(), intent("t3"), intent("t4")]),
    ];
    for (generation, reports) in steps {
        reports.iter().for_each(|report| take(&mut drain, generation, report));
        let before = drain.state().clone();
        aside.push(changed(&stage));
        assert!(matches!(stage.open().check(), Err(DrainError::Damaged { .. })));
        Drain::begin_anew(&stage.layout, &stage.meta.lineage).expect("begun");
        drain = stage.open();
        drain.check().expect("it holds");
        let now = drain.state().clone();
        let open = |state: &State| {
            let told =
                |(id, intent): (&String, &Intent)| (id.clone(), intent.generation, intent.input.clone());
            state.intents.iter().map(told).collect::<Vec<_>>()
        };
        assert_eq!((now.turn, &now.usage, &now.model), (before.turn, &before.usage, &before.model));
        assert_eq!((&now.session_id, &now.transcript), (&before.session_id, &before.transcript));
        assert_eq!(open(&now), open(&before));
        let left = |state: &State| {
            state.handoff.clone().map(|left| {
                (left.generation, left.turn, left.context_pct, left.session_id, left.intents, left.text)
            })
        };
        assert_eq!(left(&now), left(&before));
        let mut found = stage.aside(log);
        found.sort_unstable();
        aside.sort_unstable();
        assert_eq!(found, aside, "as they were");
        assert!(!stage.file(current).exists() && !stage.file(previous).exists());
        // The next damage is in this one.
        take(&mut drain, generation, &turn);
    }
    assert_eq!(drain.state().turn, 6);
}

#[test]
fn t15_a_log_that_begins_anew_is_begun_again_wherever_that_was_cut() {
    let stage = Stage::new();
    let mut drain = stage.open();
    ["first", "second"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let text = std::fs::read_to_string(stage.file(log)).expect("reads").replacen("first", "tsrif", 1);
    let snapshots = [current, previous].map(|name| (name, std::fs::read(stage.file(name)).expect("reads")));
    std::fs::write(stage.file(log), text).expect("writes");
    let begin = || Drain::begin_anew(&stage.layout, &stage.meta.lineage).expect("begun");
    begin();
    let next = stage.layout.drain().join(format!("{}.turns.next.jsonl", stage.meta.lineage));
    // Killed before the new log had its place, and before the snapshots were out of the way.
    for placed in [false, true] {
        snapshots.iter().for_each(|(name, bytes)| std::fs::write(stage.file(*name), bytes).expect("writes"));
        if !placed {
            std::fs::rename(stage.file(log), &next).expect("moved");
        }
        assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })), "it is asked again");
        begin();
        assert!(stage.file(log).exists() && !next.exists(), "it took its place");
        assert_eq!((stage.open().state().turn, stage.open().state().usage.input), (2, 20));
    }
}

#[test]
fn t15_where_a_snapshot_was_there_and_nothing_reads_somebody_is_asked_and_nothing_is_overwritten() {
    let stage = Stage::new();
    Dir::make(stage.layout.drain()).expect("made");
    std::fs::write(stage.file(current), "half").expect("writes");
    assert!(matches!(stage.opened(), Err(DrainError::Damaged { .. })));
    Drain::begin_anew(&stage.layout, &stage.meta.lineage).expect("begun");
    assert_eq!((stage.open().state().turn, stage.aside(current)), (0, vec![b"half".to_vec()]));
    // What a later program wrote is its own.
    std::fs::write(stage.file(current), r#"{"version":3}"#).expect("writes");
    Drain::begin_anew(&stage.layout, &stage.meta.lineage).expect_err("it is left alone");
    assert!(stage.file(current).exists());
}

#[test]
fn t15_a_snapshot_that_cannot_be_read_is_not_written_over_whatever_keeps_it_from_being_read() {
    let stage = Stage::new();
    let mut drain = stage.open();
    ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let linked = std::fs::read(stage.file(current)).expect("reads");
    std::fs::hard_link(stage.file(current), stage.layout.drain().join("link")).expect("linked");
    stage.turn(&mut drain, "c");
    assert_eq!(stage.aside(current), [&linked[..]]);
    // The one before is no different.
    std::fs::write(stage.file(previous), "half").expect("writes");
    stage.turn(&mut drain, "d");
    assert_eq!(stage.aside(previous), [b"half"]);
    assert_eq!(stage.open().state(), drain.state());
}

#[test]
fn t15_a_snapshot_that_is_as_it_was_written_is_not_read_again_with_each_turn() {
    let stage = Stage::new();
    let mut drain = stage.open();
    ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let folder = Dir::open(stage.layout.drain()).expect("a folder");
    // Nothing but this could tell a reader: the bytes are others, and said to be what was written.
    for (at, name) in [current, previous].into_iter().enumerate() {
        std::fs::write(stage.file(name), "half").expect("writes");
        drain.whole[at] = folder.file_version_now(&name(&drain.lineage)).expect("looks");
    }
    stage.turn(&mut drain, "c");
    assert_eq!(std::fs::read(stage.file(previous)).expect("reads"), b"half");
    assert_eq!((stage.aside(current), stage.aside(previous)), (vec![], vec![]));
    // What somebody else has touched since is.
    stage.turn(&mut drain, "d");
    std::fs::write(stage.file(current), "half").expect("writes");
    stage.turn(&mut drain, "e");
    assert_eq!(stage.aside(current), [b"half"]);
}

#[test]
fn a_snapshot_of_a_later_version_is_not_set_aside_by_the_next_one() {
    let stage = Stage::new();
    let mut drain = stage.open();
    ["a", "b"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let later = br#"{"version":3,"anything":1}"#;
    std::fs::write(stage.file(previous), later).expect("writes");
    let Taken::Unsnapped(why) = stage.turn(&mut drain, "c") else { panic!("it is left alone") };
    assert!(why.contains("version 3"), "{why}");
    assert_eq!(std::fs::read(stage.file(previous)).expect("reads"), later);
    assert_eq!((stage.aside(previous).len(), stage.open().state().turn), (0, 3));
}

#[test]
fn fm_snapshot_eio_a_log_that_can_be_neither_synced_nor_written_anew_takes_nothing_whoever_comes() {
    use std::os::unix::fs::MetadataExt;
    let stage = Stage::new();
    let mut drain = stage.open();
    stage.turn(&mut drain, "a");
    let former = std::fs::File::open(stage.file(log)).expect("there");
    let tmp = stage.layout.drain().join("tmp");
    std::fs::remove_dir_all(&tmp).expect("removed");
    std::fs::write(&tmp, "no folder").expect("writes");
    drain.leave_file().expect_err("there is no other file");
    for _ in 0..2 {
        let mut opened = stage.open();
        assert_eq!(opened.state(), drain.state(), "it is read where it is");
        opened.check().expect("all of it holds");
        let told = opened.take("another", &stage.meta, &Report::Begun, None);
        assert!(matches!(told, Err(DrainError::Disk(_))), "another anchor knows it");
        assert!(!stage.file(log).exists());
    }
    assert_eq!(stage.messages(), [r#""a""#], "who only reads finds it");
    std::fs::remove_file(&tmp).expect("removed");
    let mut opened = stage.open();
    stage.turn(&mut opened, "b");
    let inodes = [former, std::fs::File::open(stage.file(log)).expect("it has its name")]
        .map(|file| file.metadata().expect("open").ino());
    assert_ne!(inodes[0], inodes[1]);
    assert_eq!((stage.open().state().turn, stage.messages().len()), (2, 2));
}

#[test]
fn a12_a_long_snapshot_of_the_first_version_moves_into_rows_that_are_read_back_from_wherever_it_was_cut() {
    // Over what a snapshot may have today; and below it, but not with the escapes of a row.
    for (message, messages, rows) in [("x".repeat(100_000), 50, 5), ("\"".repeat(90_000), 20, 10)] {
        let stage = Stage::new();
        stage.write_v1(&message, messages);
        let whole = stage.open().state().clone();
        assert_eq!((whole.turn, whole.messages.count, whole.usage.input), (4, messages as u64, 1200));
        assert_eq!(whole.session_id.as_deref(), Some("0c1f"));
        let text = std::fs::read_to_string(stage.file(log)).expect("reads");
        let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        assert_eq!(ends.len(), rows + 1);
        for end in &ends[..rows] {
            std::fs::write(stage.file(log), &text[..*end]).expect("writes");
            let again = stage.open().state().clone();
            assert_eq!(
                (again.turn, &again.messages, &again.usage),
                (4, &whole.messages, &whole.usage),
                "{end}"
            );
            assert_eq!(again.session_id.as_deref(), Some("0c1f"));
        }
        assert_eq!(stage.open().state().turn, 4);
    }
}

#[test]
fn a12_a_message_that_no_row_can_hold_is_asked_about_and_costs_no_more_than_the_messages() {
    let stage = Stage::new();
    stage.write_v1(&"x".repeat(5 << 20), 1);
    let refused = stage.opened().expect_err("it would not be read back");
    assert!(matches!(&refused, DrainError::Damaged { why, .. } if why.contains("read back")), "{refused}");
    Drain::begin_anew(&stage.layout, &stage.meta.lineage).expect("begun");
    let state = stage.open().state().clone();
    assert_eq!((state.turn, state.usage.input, state.messages.count), (4, 1200, 0));
    assert_eq!(state.session_id.as_deref(), Some("0c1f"));
}

#[test]
fn a_snapshot_names_the_model_that_was_asked_for_until_another_is_told() {
    let mut stage = Stage::new();
    let mut drain = stage.open();
    let named = |stage: &Stage| {
        let bytes = std::fs::read(stage.file(current)).expect("reads");
        let snapshot: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        snapshot["model"]["name"].as_str().map(str::to_owned)
    };
    stage.turn(&mut drain, "a");
    assert_eq!(named(&stage).as_deref(), Some("example:large"));
    assert_eq!(stage.open().state(), drain.state());
    // The next start asks for another one, also under the next anchor.
    stage.meta.spec.model = Some("example:small".to_owned());
    stage.turn(&mut stage.open(), "b");
    assert_eq!(named(&stage).as_deref(), Some("example:small"));
    let told = Model { name: "told".to_owned(), ..Model::default() };
    let turn = Turn { model: Some(told), ..Turn::default() };
    let report = Report::Turn(Box::new(turn));
    stage.open().take("anchor", &stage.meta, &report, None).expect("taken");
    stage.turn(&mut stage.open(), "c");
    assert_eq!(named(&stage).as_deref(), Some("told"));
    stage.meta.spec.model = None;
    let other = Stage { meta: stage.meta.clone(), ..Stage::new() };
    other.turn(&mut other.open(), "a");
    assert_eq!(named(&other), None);
}

#[test]
fn must_show_3_a_conversation_of_which_the_log_has_less_is_not_shown_as_whole() {
    let stage = Stage::new();
    let mut drain = stage.open();
    ["one", "two", "three"].iter().for_each(|text| drop(stage.turn(&mut drain, text)));
    let whole = std::fs::read_to_string(stage.file(log)).expect("reads");
    let cut: String = whole.split_inclusive('\n').take(2).collect();
    for left in [Some(cut.as_str()), Some(""), None] {
        match left {
            Some(text) => std::fs::write(stage.file(log), text).expect("writes"),
            None => std::fs::remove_file(stage.file(log)).expect("removed"),
        }
        let shown = read(&stage.layout, &stage.meta.lineage, true);
        assert!(matches!(shown, Err(DrainError::Damaged { .. })), "{left:?}: {shown:?}");
    }
    std::fs::write(stage.file(log), whole).expect("writes");
    assert_eq!(stage.messages(), ["\"one\"", "\"two\"", "\"three\""]);
}
