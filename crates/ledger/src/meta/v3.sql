-- What `facts` say of work, as it stands: a view follows a rebuild by itself. One view a part, in the order of a task's life.

-- Tasks, as the newest fact of each has them.
CREATE VIEW tasks AS
  SELECT key AS id,
    data ->> '$.task.title' AS title,
    data ->> '$.task.state.is' AS state,        -- open, claimed, blocked, ready, closed
    data ->> '$.task.state.how' AS how,         -- of a closed one: landed, done, dropped
    data ->> '$.task.state.by' AS holder,       -- of one that somebody has
    data ->> '$.task.state.generation' AS generation,
    coalesce(data ->> '$.task.state.why', data ->> '$.task.state.note') AS why,
    data ->> '$.task.state.sha' AS landed_sha,
    data ->> '$.task.priority' AS priority,     -- urgent, high, normal, low
    data ->> '$.task.assignee' AS assignee,
    data ->> '$.task.by' AS made_by,
    data ->> '$.task.repo' AS repo,
    data ->> '$.task.main' AS main,
    data ->> '$.task.brief.digest' AS brief,    -- blake3 of its text
    data -> '$.task.labels' AS labels,          -- JSON, as the next
    data -> '$.task.after' AS after,
    data ->> '$.task.created' AS created_utc,
    data ->> '$.task.updated' AS updated_utc,
    seq                                         -- of that fact
  FROM facts WHERE seq IN (SELECT max(seq) FROM facts WHERE kind GLOB 'task.*' GROUP BY key);

-- Clones of repositories, one row each that was made.
CREATE VIEW workspaces AS
  SELECT key AS task,
    data ->> '$.agent' AS agent,                -- who works there
    data ->> '$.repo' AS repo,
    data ->> '$.main' AS main,
    data ->> '$.branch' AS branch,
    data ->> '$.base' AS base,                  -- the commit that it began at
    data ->> '$.folder' AS folder,
    ts_utc AS created_at,
    (SELECT min(gone.ts_utc) FROM facts gone
      WHERE gone.kind = 'workspace.removed' AND gone.key = made.key AND gone.seq > made.seq) AS removed_at,
    seq
  FROM facts made WHERE kind = 'workspace.created';

-- What came of harvests, one row a fact.
CREATE VIEW harvest_events AS
  SELECT seq, ts_utc,
    kind AS event,                              -- harvest.started, .landed, .conflict, .refused, .pushed, gate.failed
    data ->> '$.task' AS task,
    data ->> '$.title' AS title,
    data ->> '$.agent' AS agent,                -- who did the work
    data ->> '$.repo' AS repo,
    data ->> '$.main' AS main,
    data ->> '$.branch' AS branch,
    data ->> '$.base' AS base,                  -- the commit that the branch began at
    data ->> '$.sha' AS sha,                    -- the last commit that landed
    data ->> '$.gate' AS gate,
    data -> '$.files' AS files,                 -- JSON: what landed changed, or what does not fit
    data ->> '$.why' AS why
  FROM facts WHERE kind GLOB 'harvest.*' OR kind = 'gate.failed';
-- What the owner sees; `netsky events` says the same in words. Recorded twice an occurrence is one, but for pages.
CREATE VIEW owner_events AS
  SELECT seq, ts_utc, kind, CASE kind WHEN 'page' THEN coalesce(data ->> '$.condition', key) ELSE key END AS key,
    CASE WHEN kind = 'page' THEN 'page'
      WHEN kind IN ('harvest.started', 'watchdog.crashloop', 'budget.reached') THEN 'quiet'
      WHEN kind = 'loop.missed' AND data -> '$.unread' IS NOT NULL THEN 'quiet'
      ELSE 'milestone' END AS level,            -- told at once, with others, or only to who looks
    data ->> '$.agent' AS agent,
    CASE json_type(data, '$.task') WHEN 'object' THEN data ->> '$.task.id' ELSE data ->> '$.task' END AS task,
    data
  FROM facts f
  WHERE kind IN ('page', 'clone.finished', 'clone.blocked', 'harvest.started', 'harvest.landed', 'harvest.conflict', 'harvest.refused',
      'gate.failed', 'watchdog.repaired', 'watchdog.crashloop', 'agent.blocked', 'loop.missed', 'budget.reached',
      'owner.message')
    AND (kind = 'page' OR NOT EXISTS (
      SELECT 1 FROM facts e WHERE e.kind = f.kind AND e.key = f.key AND e.seq < f.seq));

-- What the owner sent to agents.
CREATE VIEW owner_directives AS
  SELECT e.id, e.ts_utc, e.to_agent, e.kind, e.thread, e.state, e.delivered_at, e.acked_at, b.body
  FROM envelopes e LEFT JOIN bodies b ON b.envelope = e.n WHERE e.source = 'owner';

-- What each turn of a driven agent took, as its program said.
CREATE VIEW token_usage AS
  SELECT seq, ts_utc,                           -- when the turn was over
    data ->> '$.agent' AS agent, data ->> '$.lineage' AS lineage, data ->> '$.generation' AS generation,
    data ->> '$.runtime' AS runtime, data ->> '$.model' AS model, data ->> '$.turn' AS turn,
    data ->> '$.outcome.how' AS outcome,        -- done, interrupted, failed
    data ->> '$.usage.input' AS input, data ->> '$.usage.output' AS output,
    data ->> '$.usage.cache_read' AS cache_read, data ->> '$.usage.cache_write' AS cache_write,
    data ->> '$.usage.cost_micros' AS cost_micros -- millionths of the currency of the bill, where it is said
  FROM facts WHERE kind = 'turn.finished';

-- Tasks in the hands of clones, one row a brief, and what became of each.
CREATE VIEW clone_dispatches AS
  SELECT b.data ->> '$.task' AS task,
    b.data ->> '$.dispatch' AS dispatch,
    b.data ->> '$.agent' AS agent,
    b.data ->> '$.generation' AS generation,    -- which had the brief first; the claim follows to later ones
    b.data ->> '$.by' AS dispatcher,
    b.data ->> '$.envelope' AS envelope,        -- the brief
    b.data ->> '$.folder' AS folder,
    b.ts_utc AS briefed_utc,
    f.data ->> '$.verdict' AS verdict,          -- done, failed, stopped, died; none as long as it is in hand
    f.data ->> '$.text' AS text,
    f.data ->> '$.generation' AS ended_generation,
    f.ts_utc AS ended_utc
  FROM facts b LEFT JOIN facts f ON f.kind = 'clone.finished' AND f.key = b.key
  WHERE b.kind = 'clone.briefed';
