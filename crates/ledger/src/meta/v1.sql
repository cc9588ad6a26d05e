-- One row an envelope: where its file is decides its state, telemetry tells when it came there.
CREATE TABLE envelopes (
  n            INTEGER PRIMARY KEY,
  id           TEXT NOT NULL,
  from_agent   TEXT,              -- who says to have sent it
  to_agent     TEXT NOT NULL,     -- in whose mailbox it is
  kind         TEXT,
  thread       TEXT,
  source       TEXT,              -- agent, owner or peer: what sort of sender
  ts_utc       TEXT,              -- when its sender wrote it, as it says
  bytes        INTEGER,           -- size of its file
  state        TEXT NOT NULL,     -- written, claimed, delivered, acked, forwarded, poisoned
  attempt      INTEGER NOT NULL,
  generation   INTEGER,           -- which incarnation of to_agent took it
  written_at   TEXT,
  claimed_at   TEXT,
  delivered_at TEXT,
  acked_at     TEXT,
  forwarded_at TEXT,
  poisoned_at  TEXT,
  reason       TEXT,              -- why it is a dead letter
  hlc          INTEGER NOT NULL,  -- its place in the order of the home
  file         TEXT,              -- its name; none once retention has removed it
  told_src     INTEGER,           -- the last line about it: which file of lines,
  told_pos     INTEGER,           -- at which byte,
  told_state   TEXT,              -- and what it says
  told_attempt INTEGER,
  told_reason  TEXT,
  path         TEXT GENERATED ALWAYS AS ('channels/agent/' || to_agent || '/' || CASE state
                 WHEN 'written' THEN 'inbox' WHEN 'poisoned' THEN 'poison' ELSE state END || '/' || file) VIRTUAL,
  UNIQUE (to_agent, hlc, id)
);
CREATE INDEX envelopes_by_file ON envelopes (to_agent, state, file) WHERE file IS NOT NULL;
CREATE INDEX envelopes_by_source ON envelopes (source);
CREATE INDEX envelopes_by_id ON envelopes (id);

-- What envelopes say.
CREATE TABLE bodies (
  envelope INTEGER PRIMARY KEY,   -- envelopes.n
  body     TEXT NOT NULL
);

-- Messages as people read them.
CREATE VIEW messages AS
  SELECT e.id, e.ts_utc, e.source, CASE e.source WHEN 'agent' THEN 'internal' ELSE 'in' END AS direction,
         e.thread AS chat_id, e.from_agent, e.to_agent, b.body
  FROM envelopes e LEFT JOIN bodies b ON b.envelope = e.n;

-- Moves and surfacings of envelopes, one row a line of telemetry.
CREATE TABLE envelope_events (
  ts_utc     TEXT NOT NULL,
  event      TEXT NOT NULL,       -- transition or surfaced
  to_agent   TEXT NOT NULL,
  id         TEXT NOT NULL,
  hlc        INTEGER NOT NULL,
  state      TEXT NOT NULL,       -- where it went
  attempt    INTEGER NOT NULL,
  from_agent TEXT,
  generation INTEGER,
  reason     TEXT,
  cause      TEXT,                -- why it went back
  pid        INTEGER,             -- which process did it
  boot_ms    INTEGER,
  src        INTEGER NOT NULL,    -- file of lines: its day and part
  pos        INTEGER NOT NULL     -- byte in it
);
CREATE INDEX envelope_events_by_id ON envelope_events (id);

-- Runs of our programs.
CREATE TABLE cli_invocations (
  ts_utc  TEXT NOT NULL,
  program TEXT NOT NULL,
  verb    TEXT NOT NULL,
  args    TEXT,                   -- JSON; no bodies, no secrets
  agent   TEXT,                   -- in whose session
  exit    INTEGER,
  millis  INTEGER,
  pid     INTEGER,
  src     INTEGER NOT NULL,
  pos     INTEGER NOT NULL
);

-- Runs of the ticks.
CREATE TABLE ticks (
  ts_utc  TEXT NOT NULL,
  name    TEXT NOT NULL,
  outcome TEXT NOT NULL,
  millis  INTEGER,
  src     INTEGER NOT NULL,
  pos     INTEGER NOT NULL
);

-- What the watchdog did.
CREATE TABLE watchdog_events (
  ts_utc TEXT NOT NULL,
  what   TEXT NOT NULL,
  agent  TEXT,
  why    TEXT,
  src    INTEGER NOT NULL,
  pos    INTEGER NOT NULL
);

-- Facts: what exists in no other file.
CREATE TABLE facts (
  seq    INTEGER PRIMARY KEY,
  ts_utc TEXT NOT NULL,
  kind   TEXT NOT NULL,
  key    TEXT NOT NULL,
  data   TEXT NOT NULL,           -- JSON
  hash   TEXT NOT NULL
);
CREATE INDEX facts_by_kind ON facts (kind, key);

-- Messages that must reach the owner.
CREATE VIEW pages AS
  SELECT seq, ts_utc, key AS condition, data ->> '$.agent' AS agent, data ->> '$.reason' AS reason, data
  FROM facts WHERE kind = 'page';

-- Lines and files that are not what they should be; the rest was read.
CREATE TABLE source_errors (
  file TEXT NOT NULL,
  pos  INTEGER NOT NULL,          -- byte, or line of a file of facts; 0 for the whole file
  why  TEXT NOT NULL,
  PRIMARY KEY (file, pos)
);

-- How far each source was read.
CREATE TABLE sources (
  name    TEXT PRIMARY KEY,
  pos     INTEGER NOT NULL DEFAULT 0,
  version TEXT                    -- of a folder, or a file of facts
);

-- About this database.
CREATE TABLE about (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
