-- name: delegated_tasks
SELECT batch_entry_id, parent_entry_id, coalesce(parent_tool_call_id, '') AS tool_call_id, task, outcome
FROM subagent_session
WHERE session_id = $1 AND batch_entry_id = ANY ($2::text[])
ORDER BY batch_entry_id, sort_order, task_id;

-- name: delegations_of_entry
-- All tasks that hang on an entry, batch by batch; kind 6 is a batch's result.
SELECT t.batch_entry_id, coalesce(t.parent_tool_call_id, '') AS tool_call_id, t.task, coalesce(b.body, '') AS batch_body,
    EXISTS (
        SELECT FROM entry r
        WHERE r.session_id = t.session_id AND r.parent_entry_id = t.parent_entry_id AND r.kind = 6
            AND r.tool_call_id = t.parent_tool_call_id
    ) AS result_written
FROM subagent_session t
LEFT JOIN entry b ON b.session_id = t.session_id AND b.entry_id = t.batch_entry_id
WHERE t.session_id = $1 AND t.owner_id = $2 AND t.parent_entry_id = $3
ORDER BY t.batch_entry_id, t.sort_order, t.task_id;

-- name: steer_receipts
-- Of messages to tasks that hang on an entry; kind 38 is a steer_receipt.
SELECT e.task_id, e.payload
FROM event e
WHERE e.session_id = $1 AND e.owner_id = $2 AND e.entry_id = $3 AND e.kind = 38 AND e.seq > (
    SELECT t.start_seq FROM entry a JOIN turn t ON t.session_id = a.session_id AND t.turn_id = a.turn_id
    WHERE a.session_id = $1 AND a.entry_id = $3
)
ORDER BY e.seq;

-- name: last_steps
-- The last $3 process events of each batch, oldest first, and how many there are: places are dense from 0.
SELECT b.batch_entry_id, e.n, e.body
FROM unnest($2::text[]) AS b (batch_entry_id), LATERAL (
    SELECT n, body FROM subagent_event
    WHERE session_id = $1 AND batch_entry_id = b.batch_entry_id
    ORDER BY n DESC LIMIT $3
) AS e
ORDER BY b.batch_entry_id, e.n;

-- name: process_events
SELECT n, body FROM subagent_event
WHERE session_id = $1 AND batch_entry_id = $2 AND owner_id = $3 AND n > $4 AND ($5 = '' OR task_id = $5)
ORDER BY n
LIMIT $6;

-- name: batch_exists
SELECT EXISTS (
    SELECT FROM subagent_session WHERE session_id = $1 AND batch_entry_id = $2 AND owner_id = $3
);

-- name: missing_batches
-- Of the batches that entries refer to, those whose entry is not there.
SELECT b.batch_entry_id FROM unnest($2::text[]) AS b (batch_entry_id)
WHERE NOT EXISTS (SELECT FROM entry e WHERE e.session_id = $1 AND e.entry_id = b.batch_entry_id);

-- name: insert_steps
INSERT INTO subagent_event (session_id, batch_entry_id, n, owner_id, task_id, body)
SELECT $1, s.batch_entry_id, s.n, $2, s.task_id, s.body
FROM unnest($3::text[], $4::integer[], $5::text[], $6::bytea[]) AS s (batch_entry_id, n, task_id, body)
ON CONFLICT (session_id, batch_entry_id, n) DO NOTHING;

-- name: read_outcome
SELECT task, outcome FROM subagent_session WHERE session_id = $1 AND owner_id = $2 AND task_id = $3;

-- name: fork_steps
INSERT INTO subagent_event (session_id, batch_entry_id, n, owner_id, task_id, body)
SELECT $2, m.new_id, e.n, e.owner_id, e.task_id, e.body
FROM subagent_event e
JOIN unnest($3::text[], $4::text[]) AS m (old_id, new_id) ON m.old_id = e.batch_entry_id
WHERE e.session_id = $1;

-- name: delete_entry_steps
DELETE FROM subagent_event WHERE session_id = $1 AND batch_entry_id = ANY ($2::text[]);
