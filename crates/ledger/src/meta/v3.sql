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
