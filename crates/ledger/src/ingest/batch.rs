//! Rows on their way in: transactions of bounded size, each with how far its sources were read.

use std::collections::HashSet;
use std::time::Duration;

use netsky_disk::clock;
use netsky_disk::layout::Layout;
use rusqlite::{Connection, OptionalExtension, Params, Statement};

use super::Ingested;
use super::refused::{self, Row};
use crate::error::{Error, PREPARE, Result, sql};
use crate::meta;

/// How far an ingest goes at once.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Rows after which a transaction is full.
    pub(super) rows: usize,
    /// When the boot clock says so, no further transaction begins.
    pub(super) until: Option<Duration>,
}

/// An open transaction, renewed whenever it is full.
pub(super) struct Batch<'db> {
    pub(super) layout: &'db Layout,
    pub(super) done: Ingested,
    db: &'db Connection,
    save: Statement<'db>,
    release: Statement<'db>,
    rows: usize,
    bounds: Bounds,
}

impl<'db> Batch<'db> {
    pub(super) fn begin(layout: &'db Layout, db: &'db Connection, bounds: Bounds) -> Result<Batch<'db>> {
        db.execute_batch("BEGIN IMMEDIATE").map_err(sql("write to"))?;
        let prepare = |text| db.prepare(text).map_err(sql(PREPARE));
        let (save, release) = (prepare("SAVEPOINT one")?, prepare("RELEASE one")?);
        Ok(Batch { layout, done: Ingested::default(), db, save, release, rows: 0, bounds })
    }

    /// A statement of ours.
    pub(super) fn prepare(&self, text: &str) -> Result<Statement<'db>> {
        self.db.prepare(text).map_err(sql(PREPARE))
    }

    /// What was said about the database.
    pub(super) fn said(&self, key: &str) -> Result<Option<String>> {
        let mut asked = self.prepare("SELECT value FROM about WHERE key = ?1")?;
        asked.query_row([key], |row| row.get(0)).optional().map_err(sql("read"))
    }

    /// Fails as damage where a page is not where it should be.
    pub(super) fn check(&self) -> Result<()> {
        meta::need_sound(self.db)
    }

    /// Says something about the database.
    pub(super) fn about(&self, key: &str, value: &str) -> Result<()> {
        self.run("INSERT OR REPLACE INTO about VALUES (?1, ?2)", (key, value))
    }

    /// Runs a statement that is needed seldom.
    pub(super) fn run(&self, text: &str, params: impl Params) -> Result<()> {
        self.prepare(text)?.execute(params).map(drop).map_err(sql("write to"))
    }

    /// How far a source was read.
    pub(super) fn position(&self, source: &str) -> Result<u64> {
        let mut asked = self.prepare("SELECT pos FROM sources WHERE name = ?1")?;
        asked
            .query_row([source], |row| row.get(0))
            .optional()
            .map_err(sql("read"))
            .map(Option::unwrap_or_default)
    }

    /// Says how far a source was read, in the transaction that holds its rows.
    pub(super) fn reached(&self, source: &str, position: u64) -> Result<()> {
        self.run("INSERT OR REPLACE INTO sources (name, pos) VALUES (?1, ?2)", (source, position))
    }

    /// As [`Batch::reached`], with what the file was like before.
    pub(super) fn reached_as(&self, source: &str, position: u64, version: Option<&str>) -> Result<()> {
        let text = "INSERT OR REPLACE INTO sources (name, pos, version) VALUES (?1, ?2, ?3)";
        self.run(text, (source, position, version))
    }

    /// What a folder or a file was like when it was last read.
    pub(super) fn version(&self, source: &str) -> Result<Option<String>> {
        let mut asked = self.prepare("SELECT version FROM sources WHERE name = ?1")?;
        asked.query_row([source], |row| row.get(0)).optional().map_err(sql("read")).map(Option::flatten)
    }

    /// Says what a folder was like before it was listed.
    pub(super) fn saw(&self, source: &str, version: Option<&str>) -> Result<()> {
        self.run("INSERT OR REPLACE INTO sources (name, version) VALUES (?1, ?2)", (source, version))
    }

    /// Lists a line or a file that is not what it should be.
    pub(super) fn list(&mut self, file: &str, position: u64, why: &str) -> Result<()> {
        let mut list = self.prepare(
            "INSERT INTO source_errors VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET why = excluded.why WHERE why <> excluded.why",
        )?;
        // What is on the list already is no news, and no work that the next ingest need not do.
        let news = list.execute((file, position, why)).map_err(sql("write to"))?;
        self.rows += news;
        self.done.errors += news as u64;
        Ok(())
    }

    /// Lists what a file has that is not what it should be, and takes off that list what it has no more.
    pub(super) fn list_all(&mut self, file: &str, broken: &[(usize, String)]) -> Result<()> {
        let mut asked = self.prepare("SELECT pos, why FROM source_errors WHERE file = ?1")?;
        let listed =
            asked.query_map([file], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect);
        let listed: Vec<(usize, String)> = listed.map_err(sql("read"))?;
        for (position, _) in listed.iter().filter(|one| !broken.contains(one)) {
            self.unlist(file, *position as u64)?;
        }
        for (position, why) in broken {
            self.list(file, *position as u64, why)?;
        }
        Ok(())
    }

    /// Takes off that list what is in a folder no more.
    pub(super) fn unlist_gone(&self, folder: &str, names: &[String]) -> Result<()> {
        // What begins with the folder and a slash, by the index: `0` is the character behind the slash.
        let mut asked =
            self.prepare("SELECT file FROM source_errors WHERE file > ?1 || '/' AND file < ?1 || '0'")?;
        let listed = asked.query_map([folder], |row| row.get(0)).and_then(Iterator::collect);
        let listed: Vec<String> = listed.map_err(sql("read"))?;
        let there: HashSet<&str> = names.iter().map(String::as_str).collect();
        for gone in listed.iter().filter(|file| !there.contains(&file[folder.len() + 1..])) {
            self.run("DELETE FROM source_errors WHERE file = ?1", [gone])?;
        }
        Ok(())
    }

    /// Takes an entry off that list.
    pub(super) fn unlist(&mut self, file: &str, position: u64) -> Result<()> {
        self.run("DELETE FROM source_errors WHERE file = ?1 AND pos = ?2", (file, position))
    }

    /// Whether there is such an entry.
    pub(super) fn is_listed(&self, file: &str, position: u64) -> Result<bool> {
        self.prepare("SELECT 1 FROM source_errors WHERE file = ?1 AND pos = ?2")?
            .exists((file, position))
            .map_err(sql("read"))
    }

    /// Puts a row in by `put`; one that the database refuses leaves nothing and is kept by `name` for one more try.
    pub(super) fn row(
        &mut self,
        name: impl FnOnce() -> Row,
        put: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        self.rows += 1;
        self.save.execute([]).map_err(sql("write to"))?;
        match put() {
            Ok(()) => {
                self.release.execute([]).map_err(sql("write to"))?;
                Ok(true)
            }
            Err(error) if error.is_of_one_row() => {
                self.db.execute_batch("ROLLBACK TO one; RELEASE one").map_err(sql("write to"))?;
                self.refused(name(), &error)?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn refused(&mut self, name: Row, error: &Error) -> Result<()> {
        self.done.refused += 1;
        refused::keep(self, name, error)
    }

    /// Whether the transaction is full; its caller says how far it got and turns it over.
    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.bounds.rows
    }

    /// Commits, and begins the next if there is time for it.
    pub(super) fn turn_over(&mut self) -> Result<()> {
        self.rows = 0;
        self.db.execute_batch("COMMIT").map_err(sql("write to"))?;
        if self.bounds.until.is_some_and(|until| clock::boot() >= until) {
            return Err(Error::PutOff);
        }
        self.db.execute_batch("BEGIN IMMEDIATE").map_err(sql("write to"))
    }

    /// Commits the last.
    pub(super) fn end(self) -> Result<Ingested> {
        self.db.execute_batch("COMMIT").map_err(sql("write to"))?;
        Ok(self.done)
    }
}
