//! A database in the place of another.

use rusqlite::Connection;

use crate::house::House;

#[test]
fn fm_rebuild_kill_a_log_that_was_left_is_not_read_as_that_of_the_new_database() {
    let house = House::new();
    house.send(7, 1, "agent0", false);
    house.ingest();
    let (path, log) = (house.layout.meta_db(), house.layout.home().join("meta.db-wal"));
    let db = Connection::open(&path).expect("opens");
    db.execute_batch("PRAGMA wal_autocheckpoint = 0; CREATE TABLE old (x)").expect("written");
    let left = std::fs::read(&log).expect("a log");
    drop(db);
    std::fs::write(&log, left).expect("as one leaves it that was killed");
    house.rebuild();
    assert_eq!(house.ask("SELECT count(*) FROM sqlite_schema WHERE name = 'old'"), [["0"]]);
    assert_eq!(house.ask("SELECT id FROM envelopes"), [["note-1"]]);
}
