//! Rows of one journal, over reopenings.

use netsky_disk::layout::NEXT_JOURNAL;

use super::*;

fn draft(n: u64) -> Draft {
    Draft { kind: EventKind::AnchorStarted, about: None, data: serde_json::json!({ "n": n }) }
}

/// Every row that an opening takes in.
impl Fold for Vec<Event> {
    fn fold(&mut self, event: &Event) {
        self.push(event.clone());
    }

    fn checkpoint(&self) -> Value {
        serde_json::to_value(self).expect("plain")
    }

    fn restored(checkpoint: Value) -> Option<Vec<Event>> {
        serde_json::from_value(checkpoint).ok()
    }
}

fn open(path: &Path) -> (Journal, Chain, Vec<Event>) {
    Journal::open(path).expect("opens")
}

fn in_own_folder(folder: &tempfile::TempDir) -> PathBuf {
    let root = folder.path().join("root");
    Dir::create(&root).expect("made");
    root.join("journal.jsonl")
}

fn numbers(rows: &[Rc<Event>]) -> Vec<u64> {
    rows.iter().map(|event| event.seq).collect()
}

#[test]
fn l5_both_files_of_the_heads_have_one_before_a_row_names_their_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, ..) = open(&path);
    journal.begin(1, false);
    assert!(journal.heads_key().is_some());
    for name in ["heads/last", "heads/heads.jsonl"] {
        let said = std::fs::read_to_string(path.with_file_name(name)).expect("reads");
        assert!(said.starts_with(r#"{"v":1,"seq":0,"#) && said.ends_with('\n'), "{name}: {said}");
    }
}

#[test]
fn heads_that_had_no_room_when_an_anchor_began_are_kept_once_there_is_some() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let heads = path.with_file_name("heads");
    // What has their place keeps them from being made.
    std::fs::write(&heads, []).expect("written");
    let (mut journal, ..) = open(&path);
    journal.begin(1, false);
    assert_eq!(journal.heads_key(), None);
    journal.commit(draft(1)).expect("room");
    std::fs::remove_file(&heads).expect("still there");
    journal.keep_head(false);
    assert!(journal.heads_key().is_some());
    // The first head has gone, which a row is not to say is there.
    std::fs::write(heads.join("heads.jsonl"), []).expect("written");
    assert_eq!(journal.heads_key(), None);
    journal.commit(draft(2)).expect("room");
    journal.keep_head(false);
    assert!(journal.heads_key().is_some());
    for name in ["last", "heads.jsonl"] {
        let said = std::fs::read_to_string(heads.join(name)).expect("reads");
        assert!(said.starts_with(r#"{"v":1,"seq":2,"#), "{name}: {said}");
    }
}

#[test]
fn rows_survive_a_reopening_and_go_on_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, chain, rows) = open(&path);
    assert_eq!((chain, rows.len()), (Chain::default(), 0));
    journal.begin(4, false);
    for n in 0..3 {
        journal.commit(draft(n)).expect("room");
    }
    drop(journal);
    let (mut journal, chain, rows) = open(&path);
    assert_eq!((chain.rows, chain.broken, chain.heads.is_damage()), (3, vec![], false));
    assert_eq!(
        rows.iter().map(|event| (event.seq, event.epoch)).collect::<Vec<_>>(),
        [(1, 4), (2, 4), (3, 4)]
    );
    assert_eq!(journal.commit(draft(9)).expect("room").seq, 4);
    assert_eq!(numbers(&journal.after(1).expect("reads")), [2, 3, 4]);
    assert_eq!(numbers(&journal.after(4).expect("reads")), [] as [u64; 0]);
}

#[test]
fn t14_a_torn_tail_is_cut_and_the_chain_holds() {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, ..) = open(&path);
    journal.commit(draft(1)).expect("room");
    drop(journal);
    let mut file = std::fs::File::options().append(true).open(&path).expect("opens");
    file.write_all(br#"{"v":1,"seq":2,"ts":"20"#).expect("writes");
    let (mut journal, chain, _) = open(&path);
    assert_eq!(chain, Chain { rows: 1, ..Chain::default() });
    journal.commit(draft(2)).expect("room");
    drop(journal);
    let (_, chain, rows) = open(&path);
    assert_eq!((chain.rows, chain.broken.len(), rows.len()), (2, 0, 2));
}

#[test]
fn a_changed_row_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, ..) = open(&path);
    for n in 1..=3 {
        journal.commit(draft(n)).expect("room");
    }
    drop(journal);
    let text = std::fs::read_to_string(&path).expect("reads");
    std::fs::write(&path, text.replace(r#""n":2"#, r#""n":7"#)).expect("writes");
    assert_eq!(open(&path).1.broken, [2]);
    std::fs::write(
        &path,
        text.lines().filter(|l| !l.contains(r#""n":2"#)).fold(String::new(), |t, l| t + l + "\n"),
    )
    .expect("writes");
    assert_eq!(open(&path).1.broken, [2], "a dropped row in the middle");
}

#[test]
fn a_long_replay_comes_in_pieces_from_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, ..) = open(&path);
    for n in 0..LAG as u64 + 700 {
        journal.write(&draft(n), false).expect("room");
    }
    let mut since = 3;
    let mut seen = Vec::new();
    loop {
        let rows = journal.after(since).expect("reads");
        let Some(last) = rows.last() else { break };
        since = last.seq;
        seen.extend(numbers(&rows));
    }
    assert_eq!(seen, (4..=journal.head()).collect::<Vec<_>>());
}

/// Three files: of each, its rows.
fn in_three_files(path: &Path) -> (Journal, Vec<Event>) {
    let (mut journal, _, mut rows) = open(path);
    journal.begin(1, false);
    for n in 1..=REPLAY as u64 * 9 {
        rows.push((*journal.write(&draft(n), false).expect("room")).clone());
        if n % (REPLAY as u64 * 4) == 0 {
            sealed(&mut journal, &mut rows);
        }
    }
    (journal, rows)
}

/// Seals the file, whatever is in it.
fn sealed(journal: &mut Journal, rows: &mut Vec<Event>) {
    journal.take_unfolded();
    journal.full_at = 0;
    journal.rotate_if_full(rows);
    rows.extend(journal.take_unfolded().iter().map(|event| (**event).clone()));
    assert!(journal.full_at > 0, "it was sealed");
}

fn files(path: &Path) -> Vec<String> {
    Sealed::all(&Dir::open(path.parent().expect("a root")).expect("opens"))
        .expect("reads")
        .into_iter()
        .map(Sealed::name)
        .collect()
}

fn replayed(journal: &mut Journal) -> Vec<u64> {
    let (mut since, mut seen) = (0, Vec::new());
    loop {
        let rows = journal.after(since).expect("reads");
        let Some(last) = rows.last() else { return seen };
        since = last.seq;
        seen.extend(numbers(&rows));
    }
}

#[test]
fn the_chain_goes_on_over_files_and_an_opening_reads_the_newest_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, rows) = in_three_files(&path);
    let seqs: Vec<u64> = rows.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=journal.head()).collect::<Vec<_>>(), "and two rows say that it was sealed");
    let told = rows.iter().filter(|event| event.kind == EventKind::Rotated);
    let told: Vec<&str> = told.filter_map(|event| event.data["sealed"].as_str()).collect();
    assert_eq!(told, files(&path));
    assert_eq!(
        files(&path),
        ["journal-000000000001-000000001024.jsonl", "journal-000000001025-000000002049.jsonl"]
    );
    assert_eq!(replayed(&mut journal), seqs);
    drop(journal);
    let (mut journal, chain, known) = open(&path);
    assert_eq!(known, rows);
    assert_eq!((chain.rows, chain.broken, chain.heads.is_damage()), (REPLAY as u64 + 2, vec![], false));
    assert_eq!(replayed(&mut journal), seqs);
    assert_eq!(journal.commit(draft(9)).expect("room").seq, rows.len() as u64 + 1);
}

#[test]
fn t14_a_checkpoint_that_does_not_hold_is_not_taken_and_all_rows_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (_, rows) = in_three_files(&path);
    let text = std::fs::read_to_string(&path).expect("reads");
    let changed = text.replacen(r#""n":7"#, r#""n":8"#, 1);
    let later = text.replacen(r#""fold":["#, r#""fold":["of another program","#, 1);
    let torn = text.replacen("fold", "\n", 1);
    for changed in [changed, later, torn, String::new()] {
        std::fs::write(&path, &changed).expect("writes");
        let (mut journal, chain, known) = open(&path);
        let there = if changed.is_empty() { 2049 } else { rows.len() };
        assert_eq!(known[..], rows[..there], "{}", changed.len());
        assert_eq!(chain.broken.is_empty(), changed.is_empty());
        assert_eq!(journal.commit(draft(9)).expect("room").seq, there as u64 + 1);
    }
    // Of the two that have one, the older is not asked for either.
    std::fs::write(&path, &text).expect("writes");
    std::fs::write(path.with_file_name(&files(&path)[1]), "x\n").expect("writes");
    assert_eq!(open(&path).2, rows);
}

#[test]
fn a_sealed_file_that_is_gone_is_passed_over_by_who_replays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    drop(in_three_files(&path));
    let names = files(&path);
    // Under who has it open; whoever opens it later does not know of it.
    let (mut journal, _, known) = open(&path);
    std::fs::remove_file(path.with_file_name(&names[1])).expect("there");
    let left = known.iter().map(|event| event.seq).filter(|seq| !(1025..=2049).contains(seq));
    assert_eq!(replayed(&mut journal), left.collect::<Vec<_>>());
    // Another file under its name has none of its rows.
    std::fs::copy(path.with_file_name(&names[0]), path.with_file_name(&names[1])).expect("copied");
    let mut other = open(&path).0;
    assert_eq!(replayed(&mut other), replayed(&mut journal));
}

#[test]
fn l5_a_rotation_that_ended_between_two_names_is_taken_back_and_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (journal, rows) = in_three_files(&path);
    std::fs::write(path.with_file_name(NEXT_JOURNAL), "of the one that ended\n").expect("writes");
    std::fs::rename(&path, path.with_file_name("journal-000000002050-000000002306.jsonl")).expect("moved");
    drop(journal);
    let (mut journal, chain, mut known) = open(&path);
    assert_eq!((&known, chain.broken, chain.heads.is_damage()), (&rows, vec![], false));
    assert_eq!(files(&path).len(), 2);
    sealed(&mut journal, &mut known);
    assert_eq!((files(&path).len(), open(&path).2), (3, known));
}

#[test]
fn l5_a_journal_that_cannot_be_sealed_goes_on_in_its_file_and_is_not_tried_with_each_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, ..) = open(&path);
    journal.commit(draft(1)).expect("room");
    let tmp = path.with_file_name("tmp");
    std::fs::write(&tmp, "no folder").expect("writes");
    journal.full_at = 0;
    journal.rotate_if_full(&());
    assert!(journal.full_at > journal.len);
    assert_eq!(journal.commit(draft(2)).expect("it goes on").seq, 2);
    std::fs::remove_file(&tmp).expect("there");
    journal.full_at = journal.len;
    journal.rotate_if_full(&());
    assert_eq!((journal.commit(draft(3)).expect("room").seq, files(&path).len()), (4, 1));
}

/// Programs of before know no checkpoint: to them it is a row of a later format, before which they stop.
#[test]
fn a_program_that_knows_no_sealed_files_leaves_a_continued_journal_alone() {
    let (line, _) = Checkpoint::line(7, &Value::Null, GENESIS);
    assert!(matches!(parse(&line), Err(BadRow::Newer(2))));
    assert!(
        Checkpoint::of(br#"{"v":2,"anything":1}"#).is_none()
            && Checkpoint::of(br#"{"v":1,"seq":1}"#).is_none()
    );
}

#[test]
fn i3_what_waits_for_room_is_known_at_once_and_once_and_no_checkpoint_is_made_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, ..) = open(&path);
    journal.begin(1, false);
    let said = |journal: &mut Journal| {
        let told = journal.take_unfolded();
        told.iter().map(|event| event.data["n"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    journal.observe(draft(1));
    assert_eq!(said(&mut journal), [1]);
    // What has its place keeps it from being written to.
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).expect("moved");
    std::fs::create_dir(&path).expect("made");
    journal.torn = true;
    for n in 2..4 {
        journal.observe(draft(n));
        assert_eq!(said(&mut journal), [n], "it has happened");
    }
    std::fs::remove_dir(&path).expect("removed");
    std::fs::rename(&aside, &path).expect("moved back");
    (journal.torn, journal.full_at) = (false, 0);
    journal.rotate_if_full(&Vec::new());
    assert_eq!((journal.waits(), journal.full_at), (2, 0), "nothing is sealed");
    journal.flush().expect("room");
    assert_eq!(said(&mut journal), [] as [u64; 0], "it is known");
    assert_eq!(numbers(&journal.after(0).expect("reads")), [1, 2, 3]);
}

#[test]
fn i3_an_anchor_that_lost_a_row_makes_no_checkpoint_of_what_it_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_own_folder(&folder);
    let (mut journal, ..) = open(&path);
    journal.begin(1, false);
    journal.unsynced = Some("the disk is gone".to_owned());
    for n in 0..=WAITING as u64 {
        journal.observe(draft(n));
    }
    assert_eq!((journal.waits(), journal.take_unfolded().len()), (WAITING, WAITING + 1));
    journal.unsynced = None;
    journal.flush().expect("room");
    journal.len = u64::MAX - 1;
    journal.rotate_if_full(&Vec::new());
    assert_eq!(files(&path), [] as [&str; 0]);
}
