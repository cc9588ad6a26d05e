//! Targets that need a home: one a process, made when it is first asked for, gone with its folder's owner.

use std::fs;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_ledger::{Facts, Limits, Telemetry, files, ingest, query};
use serde_json::json;
use tempfile::TempDir;

/// A home in memory, where there is any: nothing here cuts the power.
fn home() -> (TempDir, Layout) {
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.expect("a throwaway folder");
    let layout = Layout::new(folder.path().join("home"));
    Home::init(&layout).expect("an empty place becomes a home");
    (folder, layout)
}

/// Bytes as a file of facts: it is read, or refused; what is appended to it is read back behind it.
pub fn facts(data: &[u8]) {
    static HOME: OnceLock<Mutex<(TempDir, Layout)>> = OnceLock::new();
    let held = HOME.get_or_init(|| Mutex::new(home())).lock().unwrap_or_else(PoisonError::into_inner);
    let layout = &held.1;
    fs::remove_dir_all(layout.record()).expect("ours");
    netsky_disk::fs::Dir::create(layout.record()).expect("ours");
    let file = layout.record().join("facts-1.jsonl");
    fs::write(&file, data).expect("ours");
    let count = |facts: netsky_ledger::Result<_>| -> netsky_ledger::Result<usize> {
        let mut all = 0;
        for file in facts? {
            let file: netsky_ledger::FactFile = file?;
            all += file.facts.len();
        }
        Ok(all)
    };
    let before = count(files(layout));
    match Facts::new(layout).append("note", "fuzz", json!({})) {
        Ok(seq) => {
            assert!(seq > 0);
            let after = count(files(layout)).expect("what was appended to is read");
            assert!(after > before.expect("what is appended to was readable"), "it is there");
        }
        Err(_) => {
            let kept = fs::read(&file).expect("still there");
            assert!(data.starts_with(&kept), "what is refused is left as it is, but for a torn end");
        }
    }
}

/// Bytes as a question in SQL: answered or refused within its bounds, and nothing is changed by it.
pub fn question(data: &[u8]) {
    static HOME: OnceLock<Mutex<(TempDir, Layout, Tree)>> = OnceLock::new();
    let asked = HOME.get_or_init(|| {
        let (folder, layout) = home();
        Facts::new(&layout).append("note", "one", json!({ "a": 1 })).expect("appended");
        Telemetry::new(&layout).watchdog("note", None, "why");
        ingest(&layout, Duration::from_secs(5)).expect("ingested");
        let before = tree(&layout);
        Mutex::new((folder, layout, before))
    });
    let held = asked.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, layout, before) = &*held;
    let Ok(question) = std::str::from_utf8(data) else { return };
    let limits = Limits { rows: 100, time: Duration::from_millis(200) };
    if let Ok(Some(answer)) = query(layout, question, limits) {
        assert!(answer.rows.len() <= limits.rows);
    }
    assert!(tree(layout) == *before, "changed by {question:?}");
}

/// Files by their paths.
type Tree = Vec<(String, Vec<u8>)>;

/// The files of the home itself and what is in them, but for the shared memory of the database's readers.
fn tree(layout: &Layout) -> Tree {
    let mut files: Tree = fs::read_dir(layout.home())
        .expect("there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.is_file())
        .map(|path| (path.display().to_string(), fs::read(&path).expect("readable")))
        .collect();
    files.retain(|(name, bytes)| !(name.ends_with("-shm") || name.ends_with("-wal") && bytes.is_empty()));
    files.sort();
    files
}
