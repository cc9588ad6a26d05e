//! The files of a lineage: read back, damaged, cut short, full.

use super::*;
use crate::drain::{LoopConfig, OPEN_BYTES, Usage};

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
    let report = Report::Phase { phase: "busy".to_owned() };
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
    let report = Report::Phase { phase: "busy".to_owned() };
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
