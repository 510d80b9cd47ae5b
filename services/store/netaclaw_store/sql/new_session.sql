-- name: begin_in_new_session
-- As begin_turn, for a session that does not exist yet: it is made as the turn's beginning leaves it. No row when
-- anything stands in the way.
-- $1 instance, $2 owner, $3 session, $4 turn, $5 user entry, $6 placeholder, $7 agent id, $8 agent name, $9 request id,
-- $10 request hash, $11 title, $12 user body, $13 its search text, $14 placeholder body, $15 workspace
WITH answering AS (
    SELECT agent_id, name, published, body, etag_no, create_time, update_time
    FROM agent
    WHERE owner_id = $2
        AND CASE WHEN $7 <> '' THEN agent_id = $7 WHEN $8 <> '' THEN name = $8 ELSE name = 'assistant' END
    LIMIT 1
), made AS (
    INSERT INTO session (session_id, owner_id, title, workspace, seq, entry_count, etag_no, leaf_entry_id,
        running_turn_id, generation, lease_instance_id, lease_incarnation_id)
    SELECT $3, $2, $11, $15, 3 + ($11 <> '')::int, 2, 1 + ($11 <> '')::int, $6, $4, 1, c.instance_id, c.incarnation_id
    FROM instance c, answering
    WHERE c.instance_id = $1 AND c.expire_time > now()
        AND ($9 = '' OR NOT EXISTS (
            SELECT FROM turn t
            WHERE t.owner_id = $2 AND t.request_id = $9 AND t.request_id <> '' AND t.made_session
        ))
    ON CONFLICT (session_id) DO NOTHING
    RETURNING *
), after AS (
    SELECT made.*, $11 <> '' AS untitled, 0::bigint AS start_seq, answering.agent_id AS answering_agent_id,
        '' AS head_entry_id
    FROM made, answering
), new_turn AS (
    INSERT INTO turn (session_id, turn_id, owner_id, request_id, request_hash, made_session, agent_id, user_entry_id,
        assistant_entry_id, start_seq)
    SELECT $3, $4, $2, $9, $10, true, answering_agent_id, $5, $6, 0 FROM after
), new_entries AS (
    INSERT INTO entry (session_id, entry_id, owner_id, entry_no, parent_entry_id, turn_id, kind, state, body,
        body_bytes, search_text, updated_seq)
    SELECT $3, $5, $2, 1, '', $4, 1::smallint, 2::smallint, $12::bytea, length($12), $13, 1 FROM after
    UNION ALL
    SELECT $3, $6, $2, 2, $5, $4, 2::smallint, 1::smallint, $14::bytea, length($14), '', 2 FROM after
), new_events AS (
    INSERT INTO event (session_id, seq, owner_id, kind, entry_id, subject_entry_id, turn_id)
    SELECT $3, 1, $2, 10::smallint, $5, $5, $4 FROM after
    UNION ALL SELECT $3, 2, $2, 10::smallint, $6, $6, $4 FROM after
    UNION ALL SELECT $3, 3, $2, 13::smallint, $6, '', $4 FROM after
    UNION ALL SELECT $3, 4, $2, 14::smallint, '', '', $4 FROM after WHERE untitled
), presets AS (
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
    NULL AS path_bodies, NULL::bigint AS path_bytes
FROM after, agents;
