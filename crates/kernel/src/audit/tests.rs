//! A journal that somebody touched, and one that nobody did.

use super::*;
use crate::journal::{Draft, Journal};
use crate::rpc::EventKind;

fn written(rows: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("root").join("journal.jsonl");
    netsky_disk::fs::Dir::create(path.parent().expect("it has one")).expect("made");
    let (mut journal, ..) = Journal::open::<()>(&path).expect("opens");
    journal.begin(1, false);
    for n in 0..rows {
        let data = serde_json::json!({ "n": n, "heads": journal.heads_key() });
        journal.commit(Draft { kind: EventKind::AnchorStarted, about: None, data }).expect("room");
    }
    journal.keep_head(false);
    (folder, path)
}

/// What was found after a change of the file by somebody who is not its anchor.
fn after(rows: u64, change: impl FnOnce(Vec<String>) -> Vec<String>) -> Audit {
    let (_folder, path) = written(rows);
    let text = std::fs::read_to_string(&path).expect("reads");
    let lines = change(text.lines().map(str::to_owned).collect());
    std::fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("writes");
    audit(&path).0
}

/// The same rows, chained anew: what somebody writes who knows the format.
fn forged(lines: &[String]) -> Vec<String> {
    forged_behind(GENESIS, lines)
}

fn forged_behind(prev: &str, lines: &[String]) -> Vec<String> {
    let mut prev = prev.to_owned();
    let forge = |line: &String| {
        let (object, _) = line.split_once(r#","prev":"#).expect("a row");
        let (line, hash) = netsky_model::chain::link(&format!("{object}}}"), &prev);
        prev = hash;
        String::from_utf8(line).expect("text")
    };
    lines.iter().map(forge).collect()
}

#[test]
fn i5_a_dropped_end_a_rewritten_chain_and_a_lost_journal_show_by_the_heads() {
    let untouched = after(5, |lines| lines);
    assert!(!untouched.is_damage() && untouched.heads.heads == 2, "{untouched:?}");
    // The end is gone, one row or all of them.
    for left in [4, 1, 0] {
        let audit = after(5, |lines| lines[..left].to_vec());
        assert_eq!((audit.broken, audit.heads.cut), (vec![], Some(5)), "{left}");
    }
    // A row was changed, dropped, moved or added, and everything behind it chained anew.
    let changed = |lines: Vec<String>| {
        forged(&lines.iter().map(|line| line.replace(r#""n":1"#, r#""n":7"#)).collect::<Vec<_>>())
    };
    let audit = after(5, changed);
    assert_eq!((audit.broken, audit.heads.rewritten), (vec![], vec![5]));
    // Over a head that is synced, far from the end.
    let audit = after(1_500, |lines| forged(&changed(lines)));
    assert_eq!(audit.heads.rewritten, [1_000, 1_500]);
}

#[test]
fn i5_a_dropped_end_shows_also_where_no_head_of_it_was_synced() {
    let (_folder, path) = written(3);
    let whole = std::fs::read_to_string(&path).expect("reads");
    let (mut journal, ..) = Journal::open::<()>(&path).expect("opens");
    journal.begin(2, false);
    // A row that is not synced either: only what this boot was told of it is left.
    journal.observe(Draft { kind: EventKind::AnchorStarted, about: None, data: serde_json::json!({}) });
    drop(journal);
    std::fs::write(&path, whole).expect("writes");
    assert_eq!(audit(&path).0.heads.cut, Some(4));
}

#[test]
fn i5_heads_that_were_changed_or_lost_their_key_show() {
    let (_folder, path) = written(3);
    let heads = path.parent().expect("it has one").join("heads");
    for (name, bytes) in [("last", &b"{}"[..]), ("heads.jsonl", b"{}\n"), ("key", b"short")] {
        let before = std::fs::read(heads.join(name)).expect("reads");
        std::fs::write(heads.join(name), bytes).expect("writes");
        assert_eq!(audit(&path).0.heads.unread.len(), 1, "{name}");
        std::fs::write(heads.join(name), before).expect("writes");
    }
    assert!(!audit(&path).0.is_damage());
    // Made up by somebody without the key.
    let said = std::fs::read_to_string(heads.join("last")).expect("reads");
    std::fs::write(heads.join("last"), said.replace(r#""seq":3"#, r#""seq":2"#)).expect("writes");
    assert_eq!(audit(&path).0.heads.unread, ["heads/last"]);
}

#[test]
fn what_went_with_the_power_is_no_damage_and_what_was_said_is_said_by_no_later_anchor() {
    let (_folder, path) = written(3);
    let text = std::fs::read_to_string(&path).expect("reads");
    let two: Vec<&str> = text.lines().take(2).collect();
    std::fs::write(&path, format!("{}\n", two.join("\n"))).expect("writes");
    assert_eq!(audit(&path).0.heads.cut, Some(3));
    // The next anchor says so in a row of its own, and counts anew.
    let (mut journal, chain, ()) = Journal::open(&path).expect("opens");
    assert_eq!(chain.heads.cut, Some(3));
    journal.begin(2, chain.heads.is_damage());
    journal
        .commit(Draft { kind: EventKind::AnchorStarted, about: None, data: serde_json::json!({}) })
        .expect("room");
    drop(journal);
    // The one after it has nothing to say, and whoever looks is told by the heads, also without that row.
    assert!(!Journal::open::<()>(&path).expect("opens").1.heads.is_damage());
    let audit = audit(&path).0;
    assert_eq!((&audit.heads.anew, audit.heads.cut, audit.is_damage()), (&vec![2], None, true));
}

#[test]
fn i5_damage_that_an_anchor_told_of_is_damage_for_ever() {
    let (_folder, path) = written(3);
    let (mut journal, ..) = Journal::open::<()>(&path).expect("opens");
    let said = |file: &str| crate::rpc::event_data::Damaged {
        cut: Some(9),
        ..crate::rpc::event_data::Damaged::of(file, "it is not what its heads say")
    };
    journal.begin(2, false);
    for (file, is_damage) in [("agents/agent0.meta", false), (JOURNAL, true)] {
        let data = serde_json::to_value(said(file)).expect("plain");
        journal.observe(Draft { kind: EventKind::Damaged, about: None, data });
        assert_eq!(audit(&path).0.is_damage(), is_damage, "{file}");
    }
    let told = audit(&path).0.heads.told;
    assert_eq!(told, [crate::heads::Told { row: 5, damage: said(JOURNAL) }]);
    // Behind it the journal goes on, in another file too.
    journal.rotate(&()).expect("room");
    assert_eq!(audit(&path).0.heads.told, told);
}

#[test]
fn i5_one_file_of_the_heads_that_is_gone_shows() {
    let (_folder, path) = written(3);
    let heads = path.parent().expect("it has one").join("heads");
    let names = ["last", "heads.jsonl"];
    for name in names {
        let before = std::fs::read(heads.join(name)).expect("reads");
        std::fs::remove_file(heads.join(name)).expect("there");
        assert_eq!(audit(&path).0.heads.gone, [format!("heads/{name}")]);
        assert!(audit(&path).0.is_damage());
        std::fs::write(heads.join(name), before).expect("writes");
        assert!(!audit(&path).0.is_damage());
    }
    names.iter().for_each(|name| std::fs::remove_file(heads.join(name)).expect("there"));
    assert_eq!(audit(&path).0.heads.gone, ["heads/heads.jsonl", "heads/last"]);
    let chain = Journal::open::<()>(&path).expect("opens").1;
    assert!(chain.heads.is_damage(), "an anchor tells of it");
}

#[test]
fn i5_a_row_of_a_later_format_hides_no_cut() {
    let newer = || r#"{"v":2,"anything":1}"#.to_owned();
    for (left, added, cut) in [(5, 1, None), (4, 1, None), (3, 1, Some(5)), (3, 2, None), (0, 2, Some(5))] {
        let audit =
            after(5, |lines| lines[..left].iter().cloned().chain((0..added).map(|_| newer())).collect());
        assert_eq!((audit.newer, audit.heads.cut), (Some(left as u64 + 1), cut), "{left} and {added}");
    }
}

#[test]
fn i5_heads_that_are_gone_or_are_of_another_key_show_by_the_journal() {
    let (_folder, path) = written(3);
    let heads = path.parent().expect("it has one").join("heads");
    let text = std::fs::read_to_string(&path).expect("reads");
    std::fs::write(&path, text.lines().take(2).map(|line| format!("{line}\n")).collect::<String>())
        .expect("writes");
    let found = |path: &Path| audit(path).0.heads.unread;
    std::fs::write(heads.join("key"), [7; 32]).expect("writes");
    std::fs::remove_file(heads.join("last")).expect("there");
    std::fs::remove_file(heads.join("heads.jsonl")).expect("there");
    assert_eq!(found(&path), ["heads/key: row 2 names another"]);
    std::fs::remove_dir_all(&heads).expect("there");
    assert!(found(&path)[0].starts_with("heads/key, which row 2 names: "), "{:?}", found(&path));
    // Journals of the first programs name none.
    let unnamed: Vec<String> = text.lines().map(|line| line.replace(r#""heads":""#, r#""was":""#)).collect();
    std::fs::write(&path, forged(&unnamed).iter().map(|line| format!("{line}\n")).collect::<String>())
        .expect("writes");
    assert!(!audit(&path).0.is_damage());
}

/// `last` as an earlier boot left it: with a key that the test knows it can be written.
#[test]
fn l5_after_a_reboot_what_was_synced_must_be_there_and_what_was_not_need_not() {
    for (left, cut, unsynced) in [(5, None, None), (4, None, Some(5)), (3, None, Some(5)), (2, Some(3), None)]
    {
        let (_folder, path) = written(0);
        let (mut journal, ..) = Journal::open::<()>(&path).expect("opens");
        journal.begin(2, false);
        let draft = |synced: bool| {
            let kind = if synced { EventKind::Kill } else { EventKind::Recovered };
            Draft { kind, about: None, data: serde_json::json!({"grace_ms": 1}) }
        };
        for synced in [false, false, true, false, false] {
            journal.write(&draft(synced), synced).expect("room");
        }
        drop(journal);
        crate::heads::of_another_boot(path.parent().expect("it has one"));
        let text = std::fs::read_to_string(&path).expect("reads");
        std::fs::write(&path, text.lines().take(left).map(|line| format!("{line}\n")).collect::<String>())
            .expect("writes");
        let heads = audit(&path).0.heads;
        assert_eq!((heads.cut, heads.unsynced), (cut, unsynced), "{left}");
    }
}

#[test]
fn i5_a_file_of_the_heads_that_was_emptied_shows() {
    let (_folder, path) = written(3);
    let heads = path.parent().expect("it has one").join("heads");
    for (name, empty) in [
        ("last", &[][..]),
        ("last", &[0; 512]),
        ("heads.jsonl", b""),
        ("heads.jsonl", &[0; 90]),
        ("heads.jsonl", b"{\"v\":1,"),
    ] {
        let before = std::fs::read(heads.join(name)).expect("reads");
        std::fs::write(heads.join(name), empty).expect("writes");
        let unread = audit(&path).0.heads.unread;
        assert!(unread.len() == 1 && unread[0].starts_with(&format!("heads/{name}")), "{unread:?}");
        std::fs::write(heads.join(name), before).expect("writes");
        assert!(!audit(&path).0.is_damage());
    }
}

#[test]
fn l5_heads_that_are_just_being_made_are_no_damage() {
    let (_folder, path) = written(0);
    let heads = path.parent().expect("it has one").join("heads");
    for name in ["last", "heads.jsonl"] {
        std::fs::write(heads.join(name), []).expect("writes");
        assert!(!audit(&path).0.is_damage(), "no row names them yet");
    }
}

fn audit(path: &Path) -> (Audit, Vec<u64>) {
    let mut lines = Vec::new();
    let audit = journal(path, |line, _| lines.push(line)).expect("reads").expect("there");
    (audit, lines)
}

#[test]
fn t14_a_torn_end_is_said_and_left_as_it_is() {
    let (_folder, path) = written(2);
    let whole = std::fs::read(&path).expect("reads");
    let torn = [&whole[..], br#"{"v":1,"seq":3"#].concat();
    std::fs::write(&path, &torn).expect("writes");
    let (audit, lines) = audit(&path);
    let heads = Findings { heads: 2, ..Findings::default() };
    assert_eq!(audit, Audit { rows: 2, torn: true, head: 2, heads, ..Audit::default() });
    assert_eq!(lines, [1, 2]);
    assert_eq!(std::fs::read(&path).expect("reads"), torn);
}

#[test]
fn i5_a_changed_a_missing_and_a_foreign_row_show() {
    let (_folder, path) = written(4);
    let text = std::fs::read_to_string(&path).expect("reads");
    let rows: Vec<&str> = text.lines().collect();
    let broken = |rows: &[&str]| {
        std::fs::write(&path, format!("{}\n", rows.join("\n"))).expect("writes");
        audit(&path).0.broken
    };
    assert_eq!(broken(&rows), [] as [u64; 0]);
    assert_eq!(broken(&[rows[0], &rows[1].replace(r#""n":1"#, r#""n":7"#), rows[2]]), [2]);
    assert_eq!(broken(&[rows[0], rows[2], rows[3]]), [2]);
    assert_eq!(broken(&[rows[0], "x", rows[1]]), [2]);
}

/// A journal of three files, two of them sealed; where they are, and their names.
fn in_three_files() -> (tempfile::TempDir, std::path::PathBuf, Vec<String>) {
    let (folder, path) = written(4);
    for _ in 0..2 {
        let (mut journal, ..) = Journal::open::<()>(&path).expect("opens");
        journal.begin(2, false);
        journal.rotate(&()).expect("room");
        for n in 0..4 {
            let data = serde_json::json!({ "n": n });
            journal.commit(Draft { kind: EventKind::Kill, about: None, data }).expect("room");
        }
    }
    let sealed = Sealed::all(&Dir::open(path.parent().expect("a root")).expect("opens")).expect("reads");
    (folder, path, sealed.into_iter().map(Sealed::name).collect())
}

/// What is found after something was done to three files.
fn files_after(change: impl FnOnce(&Path, &[String])) -> Audit {
    let (_folder, path, names) = in_three_files();
    change(path.parent().expect("a root"), &names);
    audit(&path).0
}

const FIRST: &str = "journal-000000000001-000000000004.jsonl";
const SECOND: &str = "journal-000000000005-000000000009.jsonl";

#[test]
fn i5_the_rows_of_sealed_files_are_held_against_the_chain_like_all_others() {
    let whole = files_after(|_, names| assert_eq!(names, [FIRST, SECOND]));
    assert!(!whole.is_damage() && (whole.rows, whole.head) == (14, 14), "{whole:?}");
    let changed = |name: &'static str, n: &'static str| {
        files_after(move |root, _| {
            let text = std::fs::read_to_string(root.join(name)).expect("reads");
            assert!(text.contains(n));
            std::fs::write(root.join(name), text.replace(n, r#""n":7"#)).expect("writes");
        })
    };
    assert_eq!(changed(FIRST, r#""n":2"#).broken, [3]);
    assert_eq!(changed(SECOND, r#""n":2"#).broken, [8]);
    let checkpoint = changed(SECOND, r#""v":2"#);
    assert!(checkpoint.is_damage(), "{checkpoint:?}");
    let fold = files_after(|root, _| {
        let text = std::fs::read_to_string(root.join(JOURNAL)).expect("reads");
        std::fs::write(root.join(JOURNAL), text.replace(r#""fold":null"#, r#""fold":[]"#)).expect("writes");
    });
    assert_eq!(fold.files, [format!("{JOURNAL} does not begin as it was written")]);
    // With everything behind it chained anew the heads say so.
    let forged = files_after(|root, _| {
        let lines = std::fs::read_to_string(root.join(JOURNAL)).expect("reads");
        let lines: Vec<String> =
            lines.lines().map(|line| line.replace(r#""fold":null"#, r#""fold":[]"#)).collect();
        let text = std::fs::read_to_string(root.join(SECOND)).expect("reads");
        let last = netsky_model::chain::links(text.lines().last().expect("rows").as_bytes()).expect("a row");
        let forged = forged_behind(&last.hash, &lines);
        std::fs::write(root.join(JOURNAL), forged.join("\n") + "\n").expect("writes");
    });
    assert_eq!((forged.files, forged.broken, forged.heads.rewritten), (vec![], vec![], vec![10, 14]));
}

#[test]
fn i5_a_sealed_file_that_is_gone_shows() {
    let gone = |name: &'static str| {
        files_after(move |root, _| std::fs::remove_file(root.join(name)).expect("there"))
    };
    assert_eq!(gone(FIRST).files, [format!("{SECOND} has no rows 1 to 4 before it")]);
    assert_eq!(gone(SECOND).files, [format!("{JOURNAL} has no rows 5 to 9 before it")]);
    let newest = gone(JOURNAL);
    assert_eq!((newest.files, newest.heads.cut), (vec![], Some(14)));
    let all = files_after(|root, names| {
        names.iter().for_each(|name| std::fs::remove_file(root.join(name)).expect("there"))
    });
    assert_eq!(all.files, [format!("{JOURNAL} has no rows 1 to 9 before it")]);
}

#[test]
fn i5_two_sealed_files_that_were_exchanged_show() {
    let exchanged = files_after(|root, _| {
        for (from, to) in [(FIRST, "kept"), (SECOND, FIRST), ("kept", SECOND)] {
            std::fs::rename(root.join(from), root.join(to)).expect("moved");
        }
    });
    assert!(exchanged.files.contains(&format!("{FIRST} holds rows 5 to 9")), "{exchanged:?}");
    assert!(exchanged.files.contains(&format!("{SECOND} holds rows 1 to 4")), "{exchanged:?}");
}

#[test]
fn i5_an_end_that_a_sealed_file_lost_shows() {
    let cut = |name: &'static str, left: usize| {
        files_after(move |root, _| {
            let text = std::fs::read_to_string(root.join(name)).expect("reads");
            let lines: String = text.lines().take(left).map(|line| format!("{line}\n")).collect();
            std::fs::write(root.join(name), lines).expect("writes");
        })
    };
    let first = cut(FIRST, 3);
    assert_eq!(
        first.files,
        [format!("{FIRST} holds rows 1 to 3"), format!("{SECOND} has no rows 4 to 4 before it")]
    );
    let second = cut(SECOND, 3);
    assert_eq!(
        second.files,
        [format!("{SECOND} holds rows 5 to 6"), format!("{JOURNAL} has no rows 7 to 9 before it")]
    );
    assert!(cut(FIRST, 0).is_damage() && cut(JOURNAL, 3).heads.cut == Some(14));
}

#[test]
fn a_mark_reads_back() {
    let lineage: LineageId = "agent0-0badcafe".parse().expect("valid");
    let mark = crate::session::mark(&lineage, Generation(7));
    assert_eq!(unmark(&mark), Some((lineage, Generation(7))));
    assert_eq!(unmark("none"), None);
}

#[test]
fn no_journal_is_none_and_a_newer_one_is_left_alone() {
    let (folder, path) = written(1);
    assert_eq!(journal(&folder.path().join("none/journal.jsonl"), |_, _| {}).expect("no error"), None);
    let text = std::fs::read_to_string(&path).expect("reads");
    let later = later_behind(&text, 1).concat();
    std::fs::write(&path, format!("{text}{later}")).expect("writes");
    let heads = Findings { heads: 2, ..Findings::default() };
    let continued = Audit { rows: 2, newer: Some(2), head: 1, heads, ..Audit::default() };
    assert_eq!(audit(&path).0, continued);
    // What has no links does not follow from anything, whatever wrote it.
    std::fs::write(&path, format!("{text}{{\"v\":2,\"anything\":1}}\n")).expect("writes");
    assert_eq!(audit(&path).0, Audit { broken: vec![2], ..continued });
}

/// Rows as a later program appends them to such a text.
fn later_behind(text: &str, rows: usize) -> Vec<String> {
    let last = text.lines().last().expect("rows").as_bytes();
    let mut prev = chain::links(last).expect("a row").hash;
    let mut row = |_| {
        let (line, hash) = chain::link(r#"{"v":2,"anything":1}"#, &prev);
        prev = hash;
        String::from_utf8(line).expect("text") + "\n"
    };
    (0..rows).map(&mut row).collect()
}

#[test]
fn i5_a_row_that_claims_a_later_format_hides_neither_itself_nor_what_follows() {
    let claimed = |changed: &'static str| {
        after(5, move |mut lines| {
            lines[2] = if changed.is_empty() {
                lines[2].replacen(r#""v":1"#, r#""v":2"#, 1)
            } else {
                changed.into()
            };
            lines[3] = lines[3].replace(r#""n":3"#, r#""n":7"#);
            lines
        })
    };
    let in_place = claimed("");
    assert_eq!(
        (&in_place.broken[..], in_place.newer, in_place.rows),
        (&[3, 4][..], Some(3), 5),
        "{in_place:?}"
    );
    let unlinked = claimed(r#"{"v":9}"#);
    assert_eq!(
        (&unlinked.broken[..], unlinked.newer, unlinked.rows),
        (&[3, 4][..], Some(3), 5),
        "{unlinked:?}"
    );
    // Chained anew up to the end: the heads know the last one by its number.
    let anew = after(5, |mut lines| {
        lines[2] = lines[2].replacen(r#""v":1"#, r#""v":2"#, 1);
        forged(&lines.iter().map(|line| line.replace(r#""n":4"#, r#""n":7"#)).collect::<Vec<_>>())
    });
    assert_eq!((anew.broken, anew.heads.rewritten), (vec![], vec![5]));
    let all = after(5, |lines| {
        forged(&lines.iter().map(|line| line.replacen(r#""v":1"#, r#""v":2"#, 1)).collect::<Vec<_>>())
    });
    assert_eq!((all.broken, all.heads.rewritten), (vec![], vec![5]));
}

#[test]
fn i5_a_sealed_file_in_which_a_later_format_is_claimed_is_held_against_its_name_and_the_next_one() {
    let replaced = files_after(|root, _| {
        std::fs::write(root.join(FIRST), "{\"v\":9}\n").expect("writes");
    });
    assert_eq!(
        replaced.files,
        [format!("{FIRST} holds rows 1 to 1"), format!("{SECOND} has no rows 2 to 4 before it")]
    );
    let cut = files_after(|root, _| {
        let text = std::fs::read_to_string(root.join(SECOND)).expect("reads");
        let lines: Vec<&str> = text.lines().take(3).collect();
        let later = lines.join("\n").replacen(r#""v":1"#, r#""v":2"#, 1) + "\n";
        std::fs::write(root.join(SECOND), later).expect("writes");
    });
    assert_eq!(
        (cut.broken, cut.files),
        (
            vec![5],
            vec![format!("{SECOND} holds rows 5 to 6"), format!("{JOURNAL} has no rows 7 to 9 before it")]
        )
    );
}

#[test]
fn a_journal_that_a_later_program_went_on_with_and_sealed_is_whole() {
    let continued = files_after(|root, _| {
        let path = root.join(JOURNAL);
        let mut text = std::fs::read_to_string(&path).expect("reads");
        text.extend(later_behind(&text, 2));
        std::fs::write(root.join("journal-000000000010-000000000016.jsonl"), &text).expect("writes");
        let last = chain::links(text.lines().last().expect("rows").as_bytes()).expect("a row").hash;
        let (checkpoint, _) = chain::link(r#"{"v":3,"after":16,"fold":{"more":1}}"#, &last);
        let checkpoint = String::from_utf8(checkpoint).expect("text") + "\n";
        let later = later_behind(&checkpoint, 2).concat();
        std::fs::write(&path, checkpoint + &later).expect("writes");
    });
    assert!(!continued.is_damage(), "{continued:?}");
    assert_eq!((continued.rows, continued.newer), (18, Some(15)));
}
