-- A step of a delegation, in the order in which its owner learned of it.
CREATE TABLE subagent_event (
    session_id text NOT NULL,
    batch_entry_id text NOT NULL,
    n integer NOT NULL,
    owner_id text NOT NULL,
    task_id text NOT NULL,
    -- The ProcessEvent message, serialised.
    body bytea NOT NULL,
    PRIMARY KEY (session_id, batch_entry_id, n)
);

-- A SubagentResultBody with the task's final result and evidence, once it ended.
ALTER TABLE subagent_session ADD COLUMN outcome bytea;
CREATE INDEX subagent_session_by_batch ON subagent_session (session_id, batch_entry_id, sort_order);
