-- Envelopes whose content or reason did not read: few, and looked for whenever their folder is.
CREATE INDEX envelopes_lacking ON envelopes (to_agent, state, file)
  WHERE file IS NOT NULL AND (bytes IS NULL OR state = 'poisoned' AND reason IS NULL);
