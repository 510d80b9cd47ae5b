-- Questions are read without the rest of their session's tree.
CREATE INDEX entry_question ON entry (session_id, entry_no) WHERE kind = 7;

-- The generation whose holder is compacting; 0 when nobody is.
ALTER TABLE session ADD COLUMN compaction_generation bigint NOT NULL DEFAULT 0;
-- What model calls have cost that left neither an entry nor a task.
ALTER TABLE session ADD COLUMN lost_usage json;
CREATE INDEX session_compacting ON session (session_id) WHERE compaction_generation <> 0;
