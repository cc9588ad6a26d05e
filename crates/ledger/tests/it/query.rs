//! A15: what a question may do is read the record, in bounded time; the rest of the house does not notice it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use netsky_ledger::{Answer, Cell, Error, Limits, Result, query, schema};
use netsky_model::life::State;

use crate::house::House;

/// What has an answer has it in far less time, on however busy a machine.
const LIMITS: Limits = Limits { rows: 1_000, time: Duration::from_secs(60) };

fn house() -> House {
    let house = House::new();
    for n in 1..=9 {
        let from = if n % 3 == 0 { "owner" } else { "agent0" };
        let sent = house.send(7, n, from, true);
        if n % 2 == 0 {
            house.turn(&sent, State::Claimed, true);
        }
    }
    house.ingest();
    house
}

fn ask(house: &House, question: &str) -> Result<Option<Answer>> {
    query(&house.layout, question, LIMITS)
}

/// Every file below a folder and what is in it, but for the shared memory of readers of the database.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("lists") {
        let path = entry.expect("listed").path();
        if path.is_dir() {
            files.extend(tree(&path));
            files.insert(path, Vec::new());
        } else if !path.to_string_lossy().ends_with("meta.db-shm") {
            files.insert(path.clone(), std::fs::read(&path).expect("reads"));
        }
    }
    // Made by whoever reads where no ingester is at work; empty.
    files.retain(|path, bytes| !(path.to_string_lossy().ends_with("meta.db-wal") && bytes.is_empty()));
    files
}

#[test]
fn the_question_of_the_seeds_is_answered() {
    let house = house();
    let answer = ask(&house, "SELECT source, COUNT(*) AS n FROM messages GROUP BY source").expect("answers");
    let text = |text: &str| Cell::Text(text.to_owned());
    let rows = vec![vec![text("agent"), Cell::Int(6)], vec![text("owner"), Cell::Int(3)]];
    let columns = vec!["source".to_owned(), "n".to_owned()];
    assert_eq!(answer, Some(Answer { columns, rows, more: false }));
    let path = house.ask("SELECT path FROM envelopes WHERE id = 'note-2'").remove(0).remove(0);
    assert!(house.layout.home().join(&path).is_file(), "{path}");
}

#[test]
fn honest_questions_are_answered() {
    let house = house();
    for question in [
        "SELECT state, count(*) FROM envelopes GROUP BY state HAVING count(*) > 1 ORDER BY 2 DESC;",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 50) SELECT sum(x) FROM n",
        "SELECT id, row_number() OVER (PARTITION BY to_agent ORDER BY hlc) FROM envelopes",
        "SELECT key, data ->> '$.n', json_extract(data, '$.n') FROM facts",
        "SELECT strftime('%H', ts_utc), upper(substr(body, 1, 4)), length(body) FROM messages LIMIT 3",
        "SELECT e.id FROM envelopes e JOIN envelope_events v ON v.id = e.id WHERE e.kind IS NULL",
        "PRAGMA table_info(envelopes)",
        "SELECT name FROM pragma_table_info('envelopes')",
        "SELECT name FROM sqlite_schema",
        "EXPLAIN QUERY PLAN SELECT * FROM messages",
        "SELECT * FROM pages; -- and nothing behind it",
        "VALUES (1), (2)",
    ] {
        let answer = ask(&house, question);
        assert!(matches!(answer, Ok(Some(_))), "{question}: {answer:?}");
    }
}

/// What is tried on a console that is open to anybody; `@` is the folder of the home.
const HOSTILE: &str = "
INSERT INTO facts VALUES (9, '', '', '', '', '')
UPDATE envelopes SET state = 'acked'
DELETE FROM facts
REPLACE INTO about VALUES ('a', 'b')
INSERT INTO about SELECT 'a', 'b' RETURNING key
WITH x AS (SELECT 1) DELETE FROM facts
WITH x AS (SELECT 1) INSERT INTO about SELECT 'a', 'b'
DROP TABLE envelopes
DROP VIEW messages
DROP INDEX envelopes_by_file
CREATE TABLE x (a)
CREATE TABLE x AS SELECT * FROM facts
CREATE TEMP TABLE x (a)
CREATE TEMP TABLE x AS SELECT 1
CREATE VIEW x AS SELECT 1
CREATE TEMP VIEW x AS SELECT 1
CREATE INDEX x ON facts (ts_utc)
CREATE TRIGGER x AFTER INSERT ON facts BEGIN DELETE FROM facts; END
CREATE TEMP TRIGGER x AFTER INSERT ON facts BEGIN DELETE FROM facts; END
CREATE VIRTUAL TABLE x USING fts5 (a)
CREATE VIRTUAL TABLE x USING fts3 (a)
CREATE VIRTUAL TABLE temp.x USING rtree (a, b, c)
CREATE VIRTUAL TABLE x USING dbstat
ALTER TABLE facts RENAME TO lies
ALTER TABLE facts ADD COLUMN x
ALTER TABLE facts DROP COLUMN data
ATTACH '@/stolen.db' AS x
ATTACH DATABASE '@/meta.db' AS again
ATTACH ':memory:' AS x
ATTACH '' AS x
ATTACH 'file:@/x.db?mode=rwc' AS x
DETACH main
DETACH temp
VACUUM
VACUUM INTO '@/copy.db'
VACUUM main INTO '@/copy2.db'
REINDEX
REINDEX facts
ANALYZE
ANALYZE facts
BEGIN
BEGIN IMMEDIATE
BEGIN EXCLUSIVE
COMMIT
ROLLBACK
END
SAVEPOINT x
RELEASE x
ROLLBACK TO x
PRAGMA journal_mode = DELETE
PRAGMA journal_mode
PRAGMA main.journal_mode = OFF
PRAGMA writable_schema = ON
PRAGMA query_only = OFF
PRAGMA query_only
PRAGMA user_version = 7
PRAGMA user_version
PRAGMA application_id = 7
PRAGMA wal_checkpoint(TRUNCATE)
PRAGMA optimize
PRAGMA incremental_vacuum
PRAGMA temp_store_directory = '@/tmp'
PRAGMA data_store_directory = '@/tmp'
PRAGMA temp_store = 1
PRAGMA trusted_schema = ON
PRAGMA load_extension = 1
PRAGMA locking_mode = EXCLUSIVE
PRAGMA secure_delete = ON
PRAGMA auto_vacuum = FULL
PRAGMA page_size = 512
PRAGMA encoding = 'UTF-16'
PRAGMA case_sensitive_like = ON
PRAGMA mmap_size = 1000000000000
PRAGMA cache_size = 1000000000
PRAGMA hard_heap_limit = 0
PRAGMA soft_heap_limit = 0
PRAGMA shrink_memory
PRAGMA busy_timeout = 1000000
PRAGMA foreign_keys = OFF
PRAGMA database_list
PRAGMA function_list
PRAGMA integrity_check
PRAGMA schema_version = 1
SELECT * FROM pragma_database_list
SELECT * FROM pragma_journal_mode('DELETE')
SELECT * FROM pragma_user_version
SELECT load_extension('@/evil.so')
SELECT load_extension('@/evil.so', 'entry')
SELECT fts3_tokenizer('simple')
SELECT fts3_tokenizer('x', x'0000000000000000')
SELECT writefile('@/x', 'y')
SELECT readfile('/etc/passwd')
SELECT edit('x')
SELECT * FROM fsdir('@')
SELECT sqlite_log(1, 'x')
SELECT LOAD_EXTENSION('x')
SELECT zeroblob(1000000000)
SELECT randomblob(1000000000)
SELECT last_insert_rowid()
SELECT changes()
SELECT hex(zeroblob(100))
SELECT 1; DELETE FROM facts
SELECT 1; SELECT 2
;DELETE FROM facts
DELETE FROM facts; SELECT 1
SELECT (DELETE FROM facts)
EXPLAIN DELETE FROM facts
.shell touch @/x
.import /etc/passwd facts
SELECT ?1
SELECT @a
-- nothing
/* nothing
";

#[test]
fn a15_a_hundred_statements_that_are_no_questions_change_nothing() {
    let house = house();
    let home = house.layout.home();
    let before = tree(home);
    let statements: Vec<String> =
        HOSTILE.trim().lines().map(|line| line.replace('@', &home.display().to_string())).collect();
    assert!(statements.len() >= 100, "{}", statements.len());
    for statement in &statements {
        let answer = ask(&house, statement);
        assert!(answer.is_err(), "{statement}: {answer:?}");
        assert_eq!(tree(home), before, "{statement}");
    }
}

#[test]
fn a15_a_question_without_end_ends() {
    let house = house();
    for question in [
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "SELECT count(*) FROM envelopes a, envelopes b, envelopes c, envelopes d, envelopes e, envelopes f, envelopes g,
         envelopes h, envelopes i, envelopes j",
        "SELECT a.id FROM envelopes a, envelopes b, envelopes c, envelopes d, envelopes e, envelopes f, envelopes g,
         envelopes h ORDER BY a.id || b.id || c.id || d.id",
    ] {
        let began = Instant::now();
        let soon = Limits { time: Duration::from_millis(300), ..LIMITS };
        let answer = query(&house.layout, question, soon);
        assert!(matches!(answer, Err(Error::TooSlow(_) | Error::Sql { .. })), "{question}: {answer:?}");
        assert!(began.elapsed() < LIMITS.time, "{question}: {:?}", began.elapsed());
    }
}

#[test]
fn a15_an_answer_is_cut_and_says_so() {
    let house = house();
    let long =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000) SELECT x FROM n";
    let answer = ask(&house, long).expect("answers").expect("there is one");
    assert_eq!((answer.rows.len(), answer.more), (1_000, true));
    let exact =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000) SELECT x FROM n";
    let answer = ask(&house, exact).expect("answers").expect("there is one");
    assert_eq!((answer.rows.len(), answer.more), (1_000, false));
    let wide = "SELECT replace(printf('%1000000d', 0), ' ', 'xxxxxxxx') FROM envelopes, facts, sources, envelope_events";
    let answer = ask(&house, &wide.replace("facts, ", "")).expect("answers").expect("there is one");
    assert!(answer.more && answer.rows.len() < 20, "{}", answer.rows.len());
    let row = ["replace(printf('%1000000d', 0), ' ', 'xxxxxxxx')"; 12].join(", ");
    let answer = ask(&house, &format!("SELECT {row}")).expect("answers").expect("there is one");
    assert_eq!((answer.rows.len(), answer.more), (0, true), "one row that is larger than an answer may be");
    let huge = ask(&house, "SELECT printf('%100000000d', 0)");
    assert!(matches!(huge, Err(Error::Sql { .. })), "{huge:?}");
}

#[test]
fn without_a_database_there_is_no_answer_and_none_is_made() {
    let house = House::new();
    assert_eq!(ask(&house, "SELECT 1").expect("no error"), None);
    assert!(!house.layout.meta_db().exists());
}

#[test]
fn the_schema_names_every_table_of_a_database() {
    let house = house();
    let names: Vec<String> = schema().expect("declared").into_iter().map(|table| table.name).collect();
    let asked = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name";
    assert_eq!(house.ask(asked).concat(), names);
    assert!(names.iter().any(|name| name == "messages"), "{names:?}");
}
