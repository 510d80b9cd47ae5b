-- name: begin_turn
-- One round trip: takes the lease, writes turn, user entry, placeholder, leaf and events, and answers the context.
-- Answers no row, and writes nothing, when anything stands in the way or changed since the statement's snapshot; the
-- caller then looks closer under a lock.
-- $1 instance, $2 owner, $3 session, $4 turn, $5 user entry, $6 placeholder, $7 agent id, $8 agent name, $9 head,
-- $10 request id, $11 request hash, $12 made_session, $13 known entry, $14 title, $15 user body, $16 its search text,
-- $17 placeholder body, $18 most bytes of the path, $19 from the root
WITH RECURSIVE caller AS (
    SELECT instance_id, incarnation_id FROM instance WHERE instance_id = $1 AND expire_time > now()
), before AS (
    SELECT s.session_id, s.seq, s.generation, s.agent_id, s.leaf_entry_id, s.entry_count,
        s.title = '' AND s.entry_count = 0 AND $14 <> '' AS untitled
    FROM session s
    WHERE s.session_id = $3 AND s.owner_id = $2 AND s.running_turn_id = ''
        AND (
            s.lease_instance_id IN ('', $1)
            OR NOT EXISTS (
                SELECT FROM instance i
                WHERE i.instance_id = s.lease_instance_id AND i.incarnation_id = s.lease_incarnation_id
                    AND i.expire_time > now()
            )
        )
        AND ($9 = '' OR EXISTS (SELECT FROM entry e WHERE e.session_id = $3 AND e.entry_id = $9 AND e.kind <= 4))
        AND ($10 = '' OR NOT EXISTS (
            SELECT FROM turn t WHERE t.session_id = $3 AND t.request_id = $10 AND t.request_id <> ''
        ))
        AND ($10 = '' OR NOT EXISTS (SELECT FROM queued_message q WHERE q.session_id = $3 AND q.request_id = $10))
        AND (NOT $12 OR $10 = '' OR NOT EXISTS (
            SELECT FROM turn t
            WHERE t.owner_id = $2 AND t.request_id = $10 AND t.request_id <> '' AND t.made_session
        ))
), answering AS (
    SELECT a.agent_id, a.name, a.published, a.body, a.etag_no, a.create_time, a.update_time
    FROM agent a, before b
    WHERE a.owner_id = $2
        AND CASE
            WHEN $7 <> '' THEN a.agent_id = $7
            WHEN $8 <> '' THEN a.name = $8
            ELSE a.agent_id = b.agent_id OR a.name = 'assistant'
        END
    ORDER BY a.agent_id = b.agent_id DESC
    LIMIT 1
), after AS (
    UPDATE session s
    SET seq = s.seq + 3 + b.untitled::int,
        etag_no = s.etag_no + b.untitled::int,
        title = CASE WHEN b.untitled THEN $14 ELSE s.title END,
        leaf_entry_id = $6,
        entry_count = s.entry_count + 2,
        running_turn_id = $4,
        generation = s.generation + 1,
        lease_instance_id = c.instance_id,
        lease_incarnation_id = c.incarnation_id,
        append_no = 0,
        append_seq = 0,
        update_time = now()
    FROM before b, caller c, answering a
    WHERE s.session_id = b.session_id AND s.seq = b.seq AND s.generation = b.generation AND s.running_turn_id = ''
    RETURNING s.*, b.untitled, b.seq AS start_seq, b.entry_count AS entries_before, a.agent_id AS answering_agent_id,
        CASE WHEN $19 THEN '' WHEN $9 = '' THEN b.leaf_entry_id ELSE $9 END AS head_entry_id
), new_turn AS (
    INSERT INTO turn (session_id, turn_id, owner_id, request_id, request_hash, made_session, agent_id, user_entry_id,
        assistant_entry_id, start_seq)
    SELECT $3, $4, $2, $10, $11, $12, answering_agent_id, $5, $6, start_seq FROM after
), new_entries AS (
    INSERT INTO entry (session_id, entry_id, owner_id, entry_no, parent_entry_id, turn_id, kind, state, body,
        body_bytes, search_text, updated_seq)
    SELECT $3, $5, $2, entries_before + 1, head_entry_id, $4, 1::smallint, 2::smallint, $15::bytea, length($15),
        $16, start_seq + 1 FROM after
    UNION ALL
    SELECT $3, $6, $2, entries_before + 2, $5, $4, 2::smallint, 1::smallint, $17::bytea, length($17), '',
        start_seq + 2 FROM after
), new_events AS (
    INSERT INTO event (session_id, seq, owner_id, kind, entry_id, subject_entry_id, turn_id)
    SELECT $3, start_seq + 1, $2, 10::smallint, $5, $5, $4 FROM after
    UNION ALL SELECT $3, start_seq + 2, $2, 10::smallint, $6, $6, $4 FROM after
    UNION ALL SELECT $3, start_seq + 3, $2, 13::smallint, $6, '', $4 FROM after
    UNION ALL SELECT $3, start_seq + 4, $2, 14::smallint, '', '', $4 FROM after WHERE untitled
), path AS (
    -- OFFSET 0: one probe of the primary key per step, whatever the planner believes of the session's size.
    SELECT e.*, 1 AS depth, e.body_bytes::bigint AS bytes
    FROM after, LATERAL (
        SELECT parent_entry_id, label, body, updated_seq, create_time, update_time, body_bytes
        FROM entry WHERE session_id = $3 AND entry_id = after.head_entry_id AND entry_id <> $13 OFFSET 0
    ) AS e
    UNION ALL
    SELECT e.*, p.depth + 1, p.bytes + e.body_bytes
    FROM path p, LATERAL (
        SELECT parent_entry_id, label, body, updated_seq, create_time, update_time, body_bytes
        FROM entry WHERE session_id = $3 AND entry_id = p.parent_entry_id AND entry_id <> $13 OFFSET 0
    ) AS e
    WHERE p.bytes <= $18
), listed_path AS (
    SELECT array_agg(parent_entry_id ORDER BY depth DESC) AS parents, array_agg(label ORDER BY depth DESC) AS labels,
        array_agg(body ORDER BY depth DESC) AS bodies, array_agg(updated_seq ORDER BY depth DESC) AS updated_seqs,
        array_agg(create_time ORDER BY depth DESC) AS create_times,
        array_agg(update_time ORDER BY depth DESC) AS update_times, max(bytes) AS bytes
    FROM path
), presets AS (
    -- As many as an answer has room for: 1 MiB of them.
    SELECT agent_id, name, published, body, etag_no, create_time, update_time
    FROM (
        SELECT a.*, sum(length(a.body)) OVER (ORDER BY a.name ROWS UNBOUNDED PRECEDING) AS bytes
        FROM agent a WHERE a.owner_id = $2 AND a.published ORDER BY a.name LIMIT 100
    ) AS in_order
    WHERE bytes <= 1048576
), agents AS (
    SELECT array_agg(agent_id) AS ids, array_agg(name) AS names, array_agg(body) AS bodies,
        array_agg(published) AS published, array_agg(etag_no) AS etags, array_agg(create_time) AS create_times,
        array_agg(update_time) AS update_times
    FROM (SELECT * FROM answering UNION ALL SELECT * FROM presets) AS listed
)
SELECT after.*, now() AS now, false AS needs_attention,
    agents.ids AS agent_ids, agents.names AS agent_names, agents.bodies AS agent_bodies,
    agents.published AS agent_published, agents.etags AS agent_etags, agents.create_times AS agent_create_times,
    agents.update_times AS agent_update_times,
    listed_path.parents AS path_parents, listed_path.labels AS path_labels, listed_path.bodies AS path_bodies,
    listed_path.updated_seqs AS path_updated_seqs, listed_path.create_times AS path_create_times,
    listed_path.update_times AS path_update_times, listed_path.bytes AS path_bytes
FROM after, agents, listed_path;

-- name: turn_by_request
-- Of the session, or of any session that a request without one made ($4).
SELECT session_id, turn_id, request_hash, start_seq
FROM turn WHERE owner_id = $1 AND session_id = $2 AND request_id = $3 AND request_id <> ''
UNION ALL
SELECT session_id, turn_id, request_hash, start_seq
FROM turn WHERE owner_id = $1 AND request_id = $3 AND request_id <> '' AND made_session AND $4
LIMIT 1;

-- name: queued_by_request
SELECT session_id, taken_turn_id AS turn_id, request_hash, start_seq
FROM queued_message WHERE owner_id = $1 AND session_id = $2 AND request_id = $3;

-- name: lock_session
-- A session with its lease; holder columns are empty when the lease is not a live one.
SELECT s.*, now() AS now,
    EXISTS (SELECT FROM entry q WHERE q.session_id = s.session_id AND q.open_question) AS needs_attention,
    coalesce(i.instance_id, '') AS holder_id, coalesce(i.address, '') AS holder_address
FROM session s
LEFT JOIN instance i ON i.instance_id = s.lease_instance_id AND i.incarnation_id = s.lease_incarnation_id
    AND i.expire_time > now()
WHERE s.session_id = $1 AND s.owner_id = $2
FOR UPDATE OF s;

-- name: insert_session
INSERT INTO session (session_id, owner_id, title, workspace, agent_id)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (session_id) DO NOTHING;

-- name: live_instance
SELECT incarnation_id FROM instance WHERE instance_id = $1 AND expire_time > now();

-- name: path_entry_exists
SELECT EXISTS (SELECT FROM entry WHERE session_id = $1 AND entry_id = $2 AND owner_id = $3 AND kind <= 4);

-- name: enqueue_message
INSERT INTO queued_message (session_id, message_no, owner_id, request_id, request_hash, when_busy, content, agent_id,
    agent_name, leaf_entry_id, from_root, start_seq)
SELECT $1, coalesce(max(message_no), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11
FROM queued_message WHERE session_id = $1;

-- name: count_queued
SELECT count(*) FROM queued_message WHERE session_id = $1 AND taken_turn_id = '';

-- name: shown_waiting
SELECT request_id, substr(content, 1, $3) AS head, create_time FROM queued_message
WHERE session_id = $1 AND owner_id = $2 AND taken_turn_id = ''
ORDER BY message_no;

-- name: next_queued
-- Takes the message that has waited longest out of the queue, interrupting ones ($2) first.
DELETE FROM queued_message
WHERE session_id = $1 AND message_no = (
    SELECT message_no FROM queued_message WHERE session_id = $1 AND taken_turn_id = ''
    ORDER BY when_busy = $2 DESC, message_no LIMIT 1
)
RETURNING request_id, content, agent_id, agent_name, leaf_entry_id, from_root;

-- name: waiting_messages
-- With their contents as long as these come to $2 bytes at most; without it from there on.
SELECT request_id, when_busy, CASE WHEN bytes <= $2 THEN content END AS content
FROM (
    SELECT request_id, when_busy, content, message_no,
        sum(length(content)) OVER (ORDER BY message_no ROWS UNBOUNDED PRECEDING) AS bytes
    FROM queued_message WHERE session_id = $1 AND taken_turn_id = ''
    ORDER BY message_no LIMIT 100
) AS in_order
ORDER BY message_no;

-- name: take_queued
-- Its words are those of an entry from now on, and go with it.
UPDATE queued_message SET taken_turn_id = $3, content = ''
WHERE session_id = $1 AND request_id = $2 AND taken_turn_id = ''
RETURNING request_id;

-- name: retract_queued
-- What is taken back begins no turn either when its request is sent again.
UPDATE queued_message SET taken_turn_id = $3, content = ''
WHERE session_id = $1 AND request_id = $2 AND taken_turn_id = ''
RETURNING request_id;

-- name: turn_start
SELECT start_seq FROM turn WHERE session_id = $1 AND turn_id = $2;

-- name: start_turn_at
UPDATE turn SET start_seq = $3 WHERE session_id = $1 AND turn_id = $2;

-- name: presets
-- As in begin_turn.
SELECT * FROM (
    SELECT a.*, sum(length(a.body)) OVER (ORDER BY a.name ROWS UNBOUNDED PRECEDING) AS bytes
    FROM agent a WHERE a.owner_id = $1 AND a.published ORDER BY a.name LIMIT 100
) AS in_order
WHERE bytes <= 1048576
ORDER BY name;
