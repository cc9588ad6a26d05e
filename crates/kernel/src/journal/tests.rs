//! Rows of one journal, over reopenings.

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
