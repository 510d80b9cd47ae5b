-- name: renew_instance
-- Registers or renews. A newer incarnation replaces an older one; an older one gets no row.
INSERT INTO instance (instance_id, incarnation_id, address, expire_time)
VALUES ($1, $2, $3, now() + make_interval(secs => $4))
ON CONFLICT (instance_id) DO UPDATE
SET incarnation_id = excluded.incarnation_id, address = excluded.address, expire_time = excluded.expire_time,
    start_time = CASE
        WHEN instance.incarnation_id = excluded.incarnation_id THEN instance.start_time ELSE now()
    END
WHERE instance.incarnation_id <= excluded.incarnation_id
RETURNING start_time = now() AS is_new;

-- name: free_leases
-- Raises the generation of what another incarnation holds, so that its writes are refused from now on.
UPDATE session
SET lease_instance_id = '', lease_incarnation_id = '', generation = generation + 1, append_no = 0, append_seq = 0
WHERE lease_instance_id = $1 AND lease_instance_id <> '' AND lease_incarnation_id <> $2;

-- name: forget_dead_instances
DELETE FROM instance WHERE expire_time < now() - interval '1 day';

-- name: take_lease
UPDATE session s
SET generation = s.generation + 1, lease_instance_id = i.instance_id, lease_incarnation_id = i.incarnation_id,
    append_no = 0, append_seq = 0
FROM instance i
WHERE s.session_id = $1 AND i.instance_id = $2 AND i.expire_time > now()
RETURNING s.generation;

-- name: release_lease
UPDATE session SET lease_instance_id = '', lease_incarnation_id = ''
WHERE session_id = $1 AND lease_instance_id = $2 AND generation = $3;

-- name: orphaned_turns
-- Running turns whose owner is gone, oldest first; rows that another claimer looks at are passed over. A scalar subquery,
-- not NOT EXISTS: an anti join is not looked at again when the row was claimed between snapshot and lock.
SELECT s.session_id, s.owner_id
FROM session s
WHERE s.running_turn_id <> '' AND (
    SELECT true FROM instance i
    WHERE i.instance_id = s.lease_instance_id AND i.incarnation_id = s.lease_incarnation_id AND i.expire_time > now()
    LIMIT 1
) IS NULL
ORDER BY s.update_time
LIMIT $1
FOR UPDATE OF s SKIP LOCKED;

-- name: orphaned_queues
-- Sessions in which messages wait, no turn runs, and whose owner is gone, or asks: it may not have heard of them.
SELECT s.session_id, s.owner_id
FROM session s
WHERE s.session_id IN (SELECT q.session_id FROM queued_message q WHERE q.taken_turn_id = '')
    AND s.running_turn_id = '' AND (
        s.lease_instance_id = $2 OR (
            SELECT true FROM instance i
            WHERE i.instance_id = s.lease_instance_id AND i.incarnation_id = s.lease_incarnation_id
                AND i.expire_time > now()
            LIMIT 1
        ) IS NULL
    )
LIMIT $1;

-- name: unheard_turns
-- Running turns that are leased to an instance which does not run them. One that has just been begun may be on its way.
SELECT s.session_id, s.owner_id
FROM session s
JOIN turn t ON t.session_id = s.session_id AND t.turn_id = s.running_turn_id
WHERE s.lease_instance_id = $1 AND s.lease_instance_id <> '' AND s.running_turn_id <> ALL ($2::text[])
    AND (t.takeovers > 0 OR t.start_time < now() - interval '1 minute')
LIMIT $3
FOR UPDATE OF s SKIP LOCKED;

-- name: orphaned_compactions
-- Whose owner is gone, or has lost the session since; as above.
SELECT s.*, now() AS now, EXISTS (
        SELECT FROM entry q WHERE q.session_id = s.session_id AND q.open_question
    ) AS needs_attention, (
        SELECT true FROM instance i
        WHERE i.instance_id = s.lease_instance_id AND i.incarnation_id = s.lease_incarnation_id
            AND i.expire_time > now()
        LIMIT 1
    ) IS NULL AS lease_is_dead
FROM session s
WHERE s.compaction_generation <> 0 AND (
    s.compaction_generation <> s.generation OR (
        SELECT true FROM instance i
        WHERE i.instance_id = s.lease_instance_id AND i.incarnation_id = s.lease_incarnation_id
            AND i.expire_time > now()
        LIMIT 1
    ) IS NULL
)
ORDER BY s.update_time
LIMIT $1
FOR UPDATE OF s SKIP LOCKED;

-- name: end_compaction
-- A dead lease ($3) is ended with it, so that its holder's last words are refused.
UPDATE session
SET compaction_generation = 0, lost_usage = $2::json, generation = generation + $3::boolean::int,
    lease_instance_id = CASE WHEN $3 THEN '' ELSE lease_instance_id END,
    lease_incarnation_id = CASE WHEN $3 THEN '' ELSE lease_incarnation_id END,
    append_no = CASE WHEN $3 THEN 0 ELSE append_no END, append_seq = CASE WHEN $3 THEN 0 ELSE append_seq END
WHERE session_id = $1;

-- name: count_takeover
UPDATE turn SET takeovers = takeovers + 1 WHERE session_id = $1 AND turn_id = $2
RETURNING takeovers, agent_id;

-- name: owner_of_session
SELECT s.*, EXISTS (
        SELECT FROM entry q WHERE q.session_id = s.session_id AND q.open_question
    ) AS needs_attention,
    coalesce(i.instance_id, '') AS holder_id, coalesce(i.address, '') AS holder_address,
    i.expire_time AS holder_expire_time
FROM session s
LEFT JOIN instance i ON i.instance_id = s.lease_instance_id AND i.incarnation_id = s.lease_incarnation_id
    AND i.expire_time > now()
WHERE s.session_id = $1 AND s.owner_id = $2;

-- name: other_instances
SELECT address FROM instance WHERE instance_id <> $1 AND expire_time > now() ORDER BY instance_id LIMIT 64;

-- name: open_tasks
SELECT t.task
FROM subagent_session t JOIN entry e ON e.session_id = t.session_id AND e.entry_id = t.parent_entry_id
WHERE t.session_id = $1 AND t.owner_id = $2 AND e.turn_id = $3 AND t.status IN ('queued', 'running')
ORDER BY t.create_time, t.sort_order
LIMIT 1000;
