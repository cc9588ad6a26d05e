//! The record: how fast lines and envelopes come into the database, and what a question costs when a million are in.
//!
//! Made on a memory file system, since making a million envelopes on a disk measures the disk: the million is told by
//! lines of telemetry, and the files are a tenth of that. The floors are the same rows by bare calls of SQLite.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use netsky_disk::fs::Dir;
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_model::envelope::Envelope;
use netsky_model::hlc::Hlc;
use netsky_model::id::{AgentId, EnvelopeId};
use netsky_model::life::State;
use netsky_model::name::{Key, Name};
use rusqlite::{Connection, OpenFlags};

use super::pairs::{Pair, alternate, timed};
use super::{Programs, floor};

/// Lines and files of an ingest that is measured.
pub(crate) const LINES: u64 = 200_000;
pub(crate) const FILES: u64 = 100_000;
/// Envelopes in the record that is asked.
const MANY: u64 = 1_000_000;
/// Lines of one file: the size at which telemetry begins the next.
const PART: u64 = 200_000;
/// Rounds of an ingest, and of a question.
const INGESTS: usize = 3;
const QUESTIONS: usize = 15;

const SENDERS: [&str; 4] = ["agent0", "agent5", "owner", "peer:lab/agent3"];
const QUESTION: &str = "SELECT source, COUNT(*) AS n FROM messages GROUP BY source";

/// Where memory is a file system.
pub(crate) const MEMORY: &str = "/dev/shm";

pub(crate) fn measure(scratch: &Path, programs: &Programs) -> Result<Vec<Pair>> {
    let lines = lines(&scratch.join("lines"), programs)?;
    let files = files(&scratch.join("files"), programs)?;
    let question = question(&scratch.join("many"), programs)?;
    Ok(vec![lines, files, question])
}

fn lines(folder: &Path, programs: &Programs) -> Result<Pair> {
    let home = home(folder, "home")?;
    tell(&home, LINES)?;
    alternate(
        "ingest of 200,000 lines of telemetry",
        "the same events and envelopes inserted by bare SQLite",
        INGESTS,
        |round| bare_inserts(&folder.join(format!("floor-{round}.db")), LINES, false),
        |_| ingest(&home, programs),
    )
}

fn files(folder: &Path, programs: &Programs) -> Result<Pair> {
    let home = home(folder, "home")?;
    let inbox = fill(&home, FILES)?;
    alternate(
        "ingest of 100,000 files of envelopes",
        "the files read, and their rows inserted by bare SQLite",
        INGESTS,
        |round| {
            let read = timed(|| read_all(&inbox))?;
            Ok(read + bare_inserts(&folder.join(format!("floor-{round}.db")), FILES, true)?)
        },
        |_| ingest(&home, programs),
    )
}

fn question(folder: &Path, programs: &Programs) -> Result<Pair> {
    let home = home(folder, "home")?;
    tell(&home, MANY)?;
    ingest(&home, programs)?;
    let db = home.meta_db();
    alternate(
        "whole `netsky query` with GROUP BY over 1,000,000 envelopes",
        "the same question to the same database by bare SQLite",
        QUESTIONS,
        |_| timed(|| bare_question(&db)),
        |_| timed(|| programs.run(home.home(), &["query", QUESTION])),
    )
}

fn home(folder: &Path, name: &str) -> Result<Layout> {
    std::fs::create_dir_all(folder)?;
    let layout = Layout::new(folder.join(name));
    Home::init(&layout).map_err(|refused| anyhow::anyhow!("make a home: {refused}"))?;
    Ok(layout)
}

fn id(n: u64) -> String {
    format!("01a20159-f491-727d-91a0-{n:012x}")
}

fn hlc(n: u64) -> Hlc {
    Hlc(117_658_026_135_519_232 + n)
}

/// Lines as a send writes them, in files as large as telemetry makes them.
fn tell(home: &Layout, count: u64) -> Result<()> {
    for part in 0..count.div_ceil(PART) {
        let name = match part {
            0 => "telemetry-2026-11-20.jsonl".to_owned(),
            _ => format!("telemetry-2026-11-20.{}.jsonl", part + 1),
        };
        let mut file = BufWriter::new(std::fs::File::create(home.logs().join(name))?);
        for n in part * PART..count.min((part + 1) * PART) {
            let (id, hlc, from) = (id(n), hlc(n), SENDERS[n as usize % SENDERS.len()]);
            writeln!(
                file,
                r#"{{"v":1,"ts":"2026-11-20T10:00:00.123456789Z","boot_ms":{n},"event":"transition","process":{{"pid":4321,"start_time":123456,"boot_id":"0a1b2c3d","ns":4026531836}},"agent":"agent7","id":"{id}","hlc":"{hlc}","to":"written","attempt":1,"from":"{from}"}}"#
            )?;
        }
        file.flush()?;
    }
    Ok(())
}

/// Envelopes in one inbox, by bare writes; answers the inbox.
fn fill(home: &Layout, count: u64) -> Result<PathBuf> {
    let (agent, ts) = (AgentId::numbered(7), "2026-11-20T10:00:00Z".parse()?);
    let inbox = home.folder(&agent, State::Written);
    Dir::create(&inbox)?;
    for n in 0..count {
        let id: EnvelopeId = id(n).parse()?;
        let from = SENDERS[n as usize % SENDERS.len()].parse()?;
        let name = Name::fresh(Key { hlc: hlc(n), id: id.clone() }).to_string();
        let envelope = Envelope::new(id, from, agent.clone(), floor::TEXT.to_owned(), ts);
        std::fs::write(inbox.join(name), envelope.to_bytes()?)?;
    }
    Ok(inbox)
}

fn read_all(inbox: &Path) -> Result<()> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(inbox)? {
        bytes += std::fs::read(entry?.path())?.len();
    }
    ensure!(bytes > 0, "nothing was read");
    Ok(())
}

/// The rows of an ingest with nothing around them: one transaction, prepared statements, the same indices.
fn bare_inserts(db: &Path, count: u64, with_bodies: bool) -> Result<Duration> {
    let tables = netsky_ledger::schema()?;
    let made = Connection::open(db)?;
    made.pragma_update(None, "journal_mode", "WAL")?;
    made.pragma_update(None, "synchronous", "NORMAL")?;
    for table in tables.iter().filter(|table| table.kind == "table") {
        made.execute_batch(&table.sql)?;
    }
    made.execute_batch(
        "CREATE INDEX a ON envelopes (to_agent, state, file) WHERE file IS NOT NULL; CREATE INDEX b ON envelopes (source);
         CREATE INDEX c ON envelopes (id); CREATE INDEX d ON envelope_events (id); BEGIN",
    )?;
    let taken = timed(|| {
        let mut event = made.prepare(
            "INSERT INTO envelope_events VALUES (?1, 'transition', 'agent7', ?2, ?3, 'written', 1, ?4, NULL, NULL, NULL,
             4321, ?3, 20261120001, ?3)",
        )?;
        let mut envelope = made.prepare(
            "INSERT INTO envelopes (id, from_agent, to_agent, source, ts_utc, bytes, state, attempt, hlc, file, written_at)
             VALUES (?2, ?4, 'agent7', 'agent', ?1, 330, 'written', 1, ?3, ?5, ?1)",
        )?;
        let mut body = made.prepare("INSERT INTO bodies VALUES (?1, ?2)")?;
        for n in 0..count {
            let (id, hlc, from) = (id(n), hlc(n).0 as i64, SENDERS[n as usize % SENDERS.len()]);
            let file = with_bodies.then(|| format!("{hlc}-{id}.json"));
            envelope.execute(("2026-11-20T10:00:00.123456789Z", &id, hlc, from, file))?;
            if with_bodies {
                body.execute((n as i64 + 1, floor::TEXT))?;
            } else {
                event.execute(("2026-11-20T10:00:00.123456789Z", &id, hlc, from))?;
            }
        }
        Ok(made.execute_batch("COMMIT")?)
    });
    drop(made);
    std::fs::remove_file(db)?;
    taken
}

fn bare_question(db: &Path) -> Result<()> {
    let db = Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut asked = db.prepare(QUESTION)?;
    let rows = asked.query_map([], |row| row.get::<_, i64>(1))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    ensure!(rows.iter().sum::<i64>() == MANY as i64, "{rows:?}");
    Ok(())
}

/// One ingest of everything, into a database that is not there.
fn ingest(home: &Layout, programs: &Programs) -> Result<Duration> {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", home.meta_db().display()));
    }
    timed(|| programs.run(home.home(), &["ledger", "ingest"]))
}
