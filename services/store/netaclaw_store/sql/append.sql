-- name: lock_for_append
SELECT s.*, now() AS now,
    EXISTS (SELECT FROM entry q WHERE q.session_id = s.session_id AND q.open_question) AS needs_attention
FROM session s WHERE s.session_id = $1
FOR UPDATE OF s;

-- name: entries_by_id
SELECT entry_id, parent_entry_id, label, body, updated_seq, create_time, update_time
FROM entry WHERE session_id = $1 AND entry_id = ANY ($2::text[]);

-- name: append_rows
-- One batch: entries, events and the session's new state. An event of kind 10 (added) becomes 11 (updated) when its
-- entry was there before.
WITH known AS (
    SELECT entry_id FROM entry WHERE session_id = $1 AND entry_id = ANY ($4::text[])
), written AS (
    INSERT INTO entry (session_id, entry_id, owner_id, entry_no, parent_entry_id, turn_id, kind, state, tool_call_id,
        body, body_bytes, search_text, open_question, token_usage, updated_seq)
    -- New entries count on from $3; the number of a known one stays as it is.
    SELECT $1, u.entry_id, $2, $3 + row_number() OVER (PARTITION BY k.entry_id IS NULL ORDER BY u.n), u.parent_entry_id, u.turn_id, u.kind, u.state, u.tool_call_id, u.body,
        length(u.body), u.search_text, u.open_question, u.token_usage::json, u.updated_seq
    FROM unnest(
        $4::text[], $5::text[], $6::text[], $7::smallint[], $8::smallint[], $9::text[], $10::bytea[], $11::text[],
        $12::boolean[], $13::text[], $14::bigint[]
    ) WITH ORDINALITY AS u (
        entry_id, parent_entry_id, turn_id, kind, state, tool_call_id, body, search_text, open_question, token_usage,
        updated_seq, n
    )
    LEFT JOIN known k ON k.entry_id = u.entry_id
    ON CONFLICT (session_id, entry_id) DO UPDATE
    SET parent_entry_id = excluded.parent_entry_id, turn_id = excluded.turn_id, kind = excluded.kind,
        state = excluded.state, tool_call_id = excluded.tool_call_id, body = excluded.body,
        body_bytes = excluded.body_bytes, search_text = excluded.search_text,
        open_question = excluded.open_question, token_usage = excluded.token_usage,
        updated_seq = CASE WHEN excluded.updated_seq > 0 THEN excluded.updated_seq ELSE entry.updated_seq END,
        update_time = CASE WHEN excluded.updated_seq > 0 THEN now() ELSE entry.update_time END
    RETURNING entry_id, (xmax = 0) AS added, label, create_time, updated_seq
), logged AS (
    INSERT INTO event (session_id, seq, owner_id, kind, entry_id, subject_entry_id, turn_id, task_id, payload)
    SELECT $1, v.seq, $2, CASE WHEN v.kind = 10 AND NOT w.added THEN 11 ELSE v.kind END, v.entry_id,
        v.subject_entry_id, v.turn_id, v.task_id, v.payload
    FROM unnest(
        $15::bigint[], $16::smallint[], $17::text[], $18::text[], $19::text[], $20::text[], $21::bytea[]
    ) AS v (seq, kind, entry_id, subject_entry_id, turn_id, task_id, payload)
    LEFT JOIN written w ON v.kind = 10 AND w.entry_id = v.subject_entry_id
), moved AS (
    UPDATE session
    SET seq = $22, entry_count = $3 + (SELECT count(*) FROM written WHERE added), leaf_entry_id = $23, running_turn_id = $24,
        append_no = $25, append_seq = $22, update_time = now()
    WHERE session_id = $1
)
SELECT entry_id, added, label, create_time, updated_seq FROM written;

-- name: note_compaction
UPDATE session SET compaction_generation = $2, lost_usage = $3::json WHERE session_id = $1;

-- name: end_turn
WITH ended AS (
    UPDATE turn SET state = 'ended', outcome = $3, end_time = now()
    WHERE session_id = $1 AND turn_id = $2
)
DELETE FROM entry_draft WHERE session_id = $1;

-- name: upsert_tasks
INSERT INTO subagent_session (session_id, owner_id, task_id, parent_entry_id, parent_tool_call_id, parent_agent_id,
    batch_entry_id, source_type, preset_agent_id, name, goal, context, status, model, tool_names, summary,
    result_payload, error, token_usage, sort_order, started_at, ended_at, task, outcome)
SELECT $1, $2, t.task_id, t.parent_entry_id, nullif(t.parent_tool_call_id, ''), t.parent_agent_id, t.batch_entry_id,
    t.source_type, nullif(t.preset_agent_id, ''), t.name, t.goal, nullif(t.context, ''), t.status, t.model,
    t.tool_names::json, nullif(t.summary, ''), t.result_payload::json, nullif(t.error, ''), t.token_usage::json,
    t.sort_order, t.started_at, t.ended_at, t.task, t.outcome
FROM unnest(
    $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
    $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[],
    $20::integer[], $21::timestamptz[], $22::timestamptz[], $23::bytea[], $24::bytea[]
) AS t (
    task_id, parent_entry_id, parent_tool_call_id, parent_agent_id, batch_entry_id, source_type, preset_agent_id, name,
    goal, context, status, model, tool_names, summary, result_payload, error, token_usage, sort_order, started_at,
    ended_at, task, outcome
)
ON CONFLICT (session_id, task_id) DO UPDATE
SET parent_entry_id = excluded.parent_entry_id, parent_tool_call_id = excluded.parent_tool_call_id,
    parent_agent_id = excluded.parent_agent_id, batch_entry_id = excluded.batch_entry_id,
    source_type = excluded.source_type, preset_agent_id = excluded.preset_agent_id, name = excluded.name,
    goal = excluded.goal, context = excluded.context, status = excluded.status, model = excluded.model,
    tool_names = excluded.tool_names, summary = excluded.summary,
    result_payload = coalesce(excluded.result_payload, subagent_session.result_payload), error = excluded.error,
    token_usage = excluded.token_usage, sort_order = excluded.sort_order, started_at = excluded.started_at,
    ended_at = excluded.ended_at, task = excluded.task,
    outcome = coalesce(excluded.outcome, subagent_session.outcome), update_time = now()
-- The first end state wins: a row that has ended is only ever replaced by the same state.
WHERE subagent_session.status IN ('queued', 'running', 'unspecified') OR subagent_session.status = excluded.status;

-- name: upsert_subagent_entries
INSERT INTO subagent_entry (session_id, task_id, n, owner_id, message)
SELECT $1, m.task_id, m.n, $2, m.message
FROM unnest($3::text[], $4::integer[], $5::bytea[]) AS m (task_id, n, message)
ON CONFLICT (session_id, task_id, n) DO UPDATE SET message = excluded.message;

-- name: cut_transcripts
-- Messages behind a place; the transcript is written anew from there.
DELETE FROM subagent_entry e
USING unnest($2::text[], $3::integer[]) AS c (task_id, n)
WHERE e.session_id = $1 AND e.task_id = c.task_id AND e.n > c.n;

-- name: append_content
INSERT INTO content (session_id, content_id, chunk_no, owner_id, entry_id, start_byte, end_byte, body)
SELECT $1, $2, coalesce(max(chunk_no), -1) + 1, $3, $4, coalesce(max(end_byte), 0),
    coalesce(max(end_byte), 0) + length($5::bytea), $5
FROM content WHERE session_id = $1 AND content_id = $2;

-- name: write_drafts
-- Only of sessions whose generation is still the writer's and whose turn still runs.
INSERT INTO entry_draft (session_id, entry_id, task_id, channel, owner_id, generation, attempt, body)
SELECT d.session_id, d.entry_id, d.task_id, d.channel, s.owner_id, d.generation, d.attempt, d.body
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::smallint[], $6::integer[], $7::bytea[])
    AS d (session_id, generation, entry_id, task_id, channel, attempt, body)
JOIN session s ON s.session_id = d.session_id AND s.generation = d.generation AND s.running_turn_id <> ''
ON CONFLICT (session_id, entry_id, task_id, channel) DO UPDATE
SET generation = excluded.generation, attempt = excluded.attempt, body = excluded.body, update_time = now();
