-- name: read_session
SELECT s.*, EXISTS (
    SELECT FROM entry q WHERE q.session_id = s.session_id AND q.open_question
) AS needs_attention
FROM session s WHERE s.session_id = $1 AND s.owner_id = $2;

-- name: list_sessions
-- Last changed first, of those before $3 and $4 and after $5; the search looks at titles and messages, $2 is an escaped
-- LIKE pattern or empty.
SELECT s.*, coalesce(
    (SELECT true FROM entry q WHERE q.session_id = s.session_id AND q.open_question LIMIT 1), false
) AS needs_attention
FROM session s
WHERE s.owner_id = $1
    AND (s.update_time, s.session_id) < (coalesce($3::timestamptz, 'infinity'), $4)
    AND s.update_time > coalesce($5::timestamptz, '-infinity')
    AND (
        $2 = '' OR s.title ILIKE $2
        -- Not EXISTS, which the planner may turn into one look at all entries of everybody.
        OR (SELECT true FROM entry e WHERE e.session_id = s.session_id AND e.search_text ILIKE $2 LIMIT 1)
    )
ORDER BY s.update_time DESC, s.session_id DESC
LIMIT $6;

-- name: tree_page
-- In order of making, until the bodies reach $5 bytes; kinds 5 and 6 are filled from rows, most to less than 64 KiB.
-- At least one entry.
SELECT entry_no, parent_entry_id, label, updated_seq, create_time, update_time, body
FROM (
    SELECT *, sum(body_bytes + CASE WHEN kind IN (5, 6) THEN 65536 ELSE 256 END) OVER in_order AS bytes,
        row_number() OVER in_order AS place
    FROM (
        SELECT entry_no, parent_entry_id, label, updated_seq, create_time, update_time, body, kind, body_bytes
        FROM entry WHERE session_id = $1 AND owner_id = $2 AND entry_no > $3 ORDER BY session_id, entry_no LIMIT $4
    ) AS page
    WINDOW in_order AS (ORDER BY entry_no ROWS UNBOUNDED PRECEDING)
) AS measured
WHERE bytes <= $5 OR place = 1
ORDER BY entry_no;

-- name: path_ids
-- The path to an entry, root first, without bodies; $4 is the entry that the caller knows.
WITH RECURSIVE path AS (
    SELECT e.entry_id, e.parent_entry_id, e.kind, e.body_bytes, 1 AS depth
    FROM entry e
    WHERE e.session_id = $1 AND e.owner_id = $2 AND e.entry_id = $3 AND e.entry_id <> $4 AND e.kind <= 4
    UNION ALL
    SELECT e.entry_id, e.parent_entry_id, e.kind, e.body_bytes, p.depth + 1
    FROM path p, LATERAL (
        SELECT entry_id, parent_entry_id, kind, body_bytes
        FROM entry WHERE session_id = $1 AND entry_id = p.parent_entry_id AND entry_id <> $4 OFFSET 0
    ) AS e
)
SELECT entry_id, kind, body_bytes FROM path ORDER BY depth DESC;

-- name: question_ids
-- Questions to people, in the order in which they were asked, without bodies; of a turn, where $3 names one.
SELECT entry_id, body_bytes FROM entry
WHERE session_id = $1 AND owner_id = $2 AND kind = 7 AND ($3 = '' OR turn_id = $3)
ORDER BY entry_no;

-- name: entry_sizes
SELECT entry_id, body_bytes + CASE WHEN kind IN (5, 6) THEN 65536 ELSE 0 END AS body_bytes
FROM entry WHERE session_id = $1 AND owner_id = $2 AND entry_id = ANY ($3::text[]);

-- name: entries_in
SELECT entry_id, parent_entry_id, label, body, updated_seq, create_time, update_time
FROM entry WHERE session_id = $1 AND owner_id = $2 AND entry_id = ANY ($3::text[]);

-- name: events_after
SELECT seq, kind, entry_id, subject_entry_id, turn_id, task_id, payload, time
FROM event WHERE session_id = $1 AND owner_id = $2 AND seq > $3 AND seq <= $4
ORDER BY seq
LIMIT $5;

-- name: open_drafts
-- What is being written now: drafts of streaming entries and of running tasks.
SELECT d.session_id, d.generation, d.entry_id, d.task_id, d.channel, d.attempt, d.body
FROM entry_draft d
JOIN session s ON s.session_id = d.session_id
LEFT JOIN entry e ON e.session_id = d.session_id AND e.entry_id = d.entry_id
LEFT JOIN subagent_session t ON t.session_id = d.session_id AND t.task_id = d.task_id AND d.task_id <> ''
WHERE d.session_id = $1 AND d.owner_id = $2 AND s.running_turn_id <> ''
    AND CASE WHEN d.task_id = '' THEN e.state = 1 ELSE t.status = 'running' END
ORDER BY d.entry_id, d.task_id, d.channel
LIMIT 1000;

-- name: content_size
SELECT max(end_byte) FROM content WHERE session_id = $1 AND owner_id = $2 AND content_id = $3;

-- name: content_range
SELECT start_byte, body FROM content
WHERE session_id = $1 AND owner_id = $2 AND content_id = $3 AND end_byte > $4 AND start_byte < $5
ORDER BY chunk_no;

-- name: read_task
SELECT task FROM subagent_session WHERE session_id = $1 AND owner_id = $2 AND task_id = $3;

-- name: subagent_entries
SELECT n, message, create_time FROM subagent_entry
WHERE session_id = $1 AND owner_id = $2 AND task_id = $3 AND n > $4
ORDER BY n
LIMIT $5;

-- name: usage
-- Of an owner, a session ($2) or one of its turns ($3): what model calls of the main agent cost, and tasks apart.
WITH spent AS (
    SELECT e.token_usage AS u, false AS of_task
    FROM session s JOIN entry e ON e.session_id = s.session_id
    WHERE s.owner_id = $1 AND ($2 = '' OR s.session_id = $2) AND ($3 = '' OR e.turn_id = $3)
        AND e.token_usage IS NOT NULL
    UNION ALL
    SELECT t.token_usage, true
    FROM session s JOIN subagent_session t ON t.session_id = s.session_id
    WHERE s.owner_id = $1 AND ($2 = '' OR s.session_id = $2) AND t.token_usage IS NOT NULL
        AND ($3 = '' OR EXISTS (
            SELECT FROM entry e
            WHERE e.session_id = t.session_id AND e.entry_id = t.parent_entry_id AND e.turn_id = $3
        ))
    UNION ALL
    SELECT s.lost_usage, false
    FROM session s
    WHERE s.owner_id = $1 AND ($2 = '' OR s.session_id = $2) AND $3 = '' AND s.lost_usage IS NOT NULL
)
SELECT of_task, coalesce(sum((u ->> 'inputTokens')::bigint), 0)::bigint AS input_tokens,
    coalesce(sum((u ->> 'outputTokens')::bigint), 0)::bigint AS output_tokens,
    coalesce(sum((u ->> 'cachedInputTokens')::bigint), 0)::bigint AS cached_input_tokens,
    coalesce(sum((u ->> 'reasoningTokens')::bigint), 0)::bigint AS reasoning_tokens,
    coalesce(sum((u ->> 'modelCalls')::bigint), 0)::bigint AS model_calls,
    coalesce(sum((u ->> 'costMicros')::bigint), 0)::bigint AS cost_micros,
    coalesce(sum((u ->> 'estimatedCalls')::bigint), 0)::bigint AS estimated_calls
FROM spent GROUP BY of_task;

-- name: update_session
UPDATE session
SET title = $2, agent_id = $3, thinking_level = $4, etag_no = etag_no + $5::int
WHERE session_id = $1;

-- name: set_label
UPDATE entry SET label = $3, updated_seq = $4, update_time = now()
WHERE session_id = $1 AND entry_id = $2
RETURNING parent_entry_id, label, body, updated_seq, create_time, update_time;

-- name: log_events
INSERT INTO event (session_id, seq, owner_id, kind, entry_id, subject_entry_id, turn_id, task_id, payload)
SELECT $1, v.seq, $2, v.kind, v.entry_id, v.subject_entry_id, v.turn_id, v.task_id, v.payload
FROM unnest(
    $3::bigint[], $4::smallint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[]
) AS v (seq, kind, entry_id, subject_entry_id, turn_id, task_id, payload);

-- name: advance_session
UPDATE session SET seq = $2, leaf_entry_id = $3, update_time = now() WHERE session_id = $1;

-- name: doomed_sessions
-- Locks what is to be deleted, in one order for all, so that writers in progress end first.
SELECT session_id FROM session
WHERE owner_id = $1 AND ($3 OR session_id = ANY ($2::text[]))
ORDER BY session_id
FOR UPDATE;

-- name: branch_ids
-- An entry and all below it, attachments included.
WITH RECURSIVE branch AS (
    SELECT entry_id, parent_entry_id FROM entry WHERE session_id = $1 AND entry_id = $2
    UNION
    SELECT e.entry_id, e.parent_entry_id
    FROM branch b, LATERAL (
        SELECT entry_id, parent_entry_id FROM entry WHERE session_id = $1 AND parent_entry_id = b.entry_id OFFSET 0
    ) AS e
)
SELECT entry_id FROM branch;

-- name: parent_of
SELECT parent_entry_id FROM entry WHERE session_id = $1 AND entry_id = $2 AND kind <= 4;

-- name: delete_entries
DELETE FROM entry WHERE session_id = $1 AND entry_id = ANY ($2::text[]);

-- name: delete_entry_contents
DELETE FROM content WHERE session_id = $1 AND entry_id = ANY ($2::text[]);

-- name: delete_entry_drafts
DELETE FROM entry_draft WHERE session_id = $1 AND entry_id = ANY ($2::text[]);

-- name: delete_entry_tasks
WITH gone AS (
    DELETE FROM subagent_session
    WHERE session_id = $1 AND (parent_entry_id = ANY ($2::text[]) OR batch_entry_id = ANY ($2::text[]))
    RETURNING task_id
)
DELETE FROM subagent_entry WHERE session_id = $1 AND task_id IN (SELECT task_id FROM gone);

-- name: blank_events
-- Events of deleted entries keep their seq and lose everything else; but how a turn ended (kinds 39 and 40) stays, for
-- whoever follows it.
UPDATE event SET kind = $3, payload = '', subject_entry_id = '',
    entry_id = CASE WHEN subject_entry_id = '' THEN entry_id ELSE subject_entry_id END
WHERE session_id = $1 AND (entry_id = ANY ($2::text[]) OR subject_entry_id = ANY ($2::text[])) AND kind NOT IN (39, 40);

-- name: usage_of_entries
-- What was spent on entries and on the tasks that hang on them.
SELECT token_usage FROM entry
WHERE session_id = $1 AND entry_id = ANY ($2::text[]) AND token_usage IS NOT NULL
UNION ALL
SELECT token_usage FROM subagent_session
WHERE session_id = $1 AND (parent_entry_id = ANY ($2::text[]) OR batch_entry_id = ANY ($2::text[]))
    AND token_usage IS NOT NULL;

-- name: keep_usage
UPDATE session SET lost_usage = $2::json WHERE session_id = $1;

-- name: fork_session
INSERT INTO session (session_id, owner_id, title, workspace, agent_id, thinking_level, forked_from_session_id)
SELECT $2, owner_id, title, workspace, agent_id, thinking_level, session_id
FROM session WHERE session_id = $1 AND owner_id = $3
ON CONFLICT (session_id) DO NOTHING;

-- name: fork_source
-- A page of what is copied, in order: everything, or the entries of a path with their attachments ($4).
SELECT entry_id, entry_no, parent_entry_id, label, body, updated_seq, create_time, update_time
FROM entry
WHERE session_id = $1 AND entry_no > $2
    AND ($4::text[] IS NULL OR entry_id = ANY ($4) OR (kind > 4 AND parent_entry_id = ANY ($4)))
ORDER BY entry_no
LIMIT $3;

-- name: insert_entries
INSERT INTO entry (session_id, entry_id, owner_id, entry_no, parent_entry_id, turn_id, kind, state, tool_call_id,
    label, body, body_bytes, search_text, updated_seq, create_time)
SELECT $1, u.entry_id, $2, u.entry_no, u.parent_entry_id, u.turn_id, u.kind, u.state, u.tool_call_id, u.label, u.body,
    length(u.body), u.search_text, u.entry_no, u.create_time
FROM unnest(
    $3::text[], $4::bigint[], $5::text[], $6::text[], $7::smallint[], $8::smallint[], $9::text[], $10::text[],
    $11::bytea[], $12::text[], $13::timestamptz[]
) AS u (
    entry_id, entry_no, parent_entry_id, turn_id, kind, state, tool_call_id, label, body, search_text, create_time
);

-- name: fork_contents
INSERT INTO content (session_id, content_id, chunk_no, owner_id, entry_id, start_byte, end_byte, body)
SELECT $2, c.content_id, c.chunk_no, c.owner_id, m.new_id, c.start_byte, c.end_byte, c.body
FROM content c
JOIN unnest($3::text[], $4::text[]) AS m (old_id, new_id) ON m.old_id = c.entry_id
WHERE c.session_id = $1;

-- name: fork_tasks
-- Whatever the tasks cost is the source's; nobody runs them on in the copy.
INSERT INTO subagent_session (session_id, task_id, owner_id, parent_entry_id, parent_tool_call_id, parent_agent_id,
    batch_entry_id, source_type, preset_agent_id, name, goal, context, status, model, tool_names, summary,
    result_payload, error, sort_order, started_at, ended_at, task, outcome, create_time)
SELECT $2, t.task_id, t.owner_id, a.new_id, t.parent_tool_call_id, t.parent_agent_id, b.new_id, t.source_type,
    t.preset_agent_id, t.name, t.goal, t.context, t.status, t.model, t.tool_names, t.summary, t.result_payload, t.error,
    t.sort_order, t.started_at, t.ended_at, t.task, t.outcome, t.create_time
FROM subagent_session t
JOIN unnest($3::text[], $4::text[]) AS a (old_id, new_id) ON a.old_id = t.parent_entry_id
JOIN unnest($3::text[], $4::text[]) AS b (old_id, new_id) ON b.old_id = t.batch_entry_id
WHERE t.session_id = $1;

-- name: open_tasks_of_fork
SELECT task_id, task, now() AS now FROM subagent_session
WHERE session_id = $1 AND status IN ('queued', 'running', 'unspecified');

-- name: end_task_of_fork
UPDATE subagent_session SET status = 'cancelled', error = $3, ended_at = now(), task = $4
WHERE session_id = $1 AND task_id = $2;

-- name: fork_transcripts
INSERT INTO subagent_entry (session_id, task_id, n, owner_id, message, create_time)
SELECT $2, e.task_id, e.n, e.owner_id, e.message, e.create_time
FROM subagent_entry e
WHERE e.session_id = $1
    AND e.task_id IN (SELECT t.task_id FROM subagent_session t WHERE t.session_id = $2);

-- name: finish_fork
UPDATE session SET leaf_entry_id = $2, seq = $3, entry_count = $3 WHERE session_id = $1;

-- name: changed_since
-- A page of them, after a time and an id: any number may have changed in one moment.
SELECT session_id, owner_id, seq, update_time FROM session
WHERE (update_time, session_id) > ($1, $2)
ORDER BY update_time, session_id
LIMIT $3;

-- name: entries_beyond
SELECT EXISTS (SELECT FROM entry WHERE session_id = $1 AND entry_no > $2);
