//! Files that become durable together: each whole or absent, each with its own answer.

use netsky_disk::fs::Dir;
use netsky_disk::group::{Item, place};

fn folders() -> (tempfile::TempDir, Dir, [Dir; 2]) {
    let temp = tempfile::tempdir().unwrap();
    let tmp = Dir::create(temp.path().join("tmp")).unwrap();
    let targets = ["a", "b"].map(|name| Dir::create(temp.path().join(name)).unwrap());
    (temp, tmp, targets)
}

fn item<'a>(tmp: &'a Dir, target: &'a Dir, name: &str, text: &str) -> Item<'a> {
    Item { tmp, target, name: name.to_owned(), bytes: text.as_bytes().to_vec() }
}

#[test]
fn every_file_of_a_group_is_placed_and_nothing_is_left() {
    let (_temp, tmp, targets) = folders();
    let items: Vec<_> =
        (0..600).map(|n| item(&tmp, &targets[n % 2], &format!("{n:03}"), &format!("text {n}"))).collect();
    assert!(place(&items).iter().all(Result::is_ok));
    assert!(tmp.names().unwrap().is_empty());
    assert_eq!(targets.each_ref().map(|dir| dir.names().unwrap().len()), [300, 300]);
    assert_eq!(targets[1].read("599", 100).unwrap(), b"text 599");
}

#[test]
fn a_file_that_cannot_be_placed_stops_none_behind_it() {
    let (_temp, tmp, [target, _]) = folders();
    let items = [
        item(&tmp, &target, "one", "1"),
        item(&tmp, &target, "one", "again"),
        item(&tmp, &target, "no/such/folder", "2"),
        item(&tmp, &target, "three", "3"),
    ];
    let answers = place(&items);
    let ok: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, false, false, true]);
    assert!(answers[1].as_ref().unwrap_err().is_exists());
    assert_eq!(target.read("one", 100).unwrap(), b"1");
    assert_eq!(target.names().unwrap(), ["one", "three"]);
    assert!(tmp.names().unwrap().is_empty(), "the losers clean up");
}

#[test]
fn an_empty_group_is_no_work() {
    assert!(place(&[]).is_empty());
}
