-- name: sessions_to_trim
-- The next $2 sessions after $1, and whether the oldest event that each still has is due by age ($3 seconds, 0: never)
-- or number ($4, 0: any).
SELECT s.session_id, coalesce(
    ($3::float8 > 0 AND oldest.time < now() - make_interval(secs => $3)) OR ($4::bigint > 0 AND oldest.seq <= s.seq - $4),
    false
) AS due
FROM (SELECT session_id, seq, trimmed_seq FROM session WHERE session_id > $1 ORDER BY session_id LIMIT $2) AS s
LEFT JOIN LATERAL (
    SELECT e.seq, e.time FROM event e
    WHERE e.session_id = s.session_id AND e.seq > s.trimmed_seq
    ORDER BY e.seq LIMIT 1
) AS oldest ON true
ORDER BY s.session_id;

-- name: trim_events
-- Deletes the oldest events of a session that are due, at most $4, and moves trimmed_seq; answers how many. Events of a
-- running turn stay. No row when another store holds the session or a writer is at work: the next round comes by.
WITH held AS (
    SELECT s.session_id, s.seq, s.trimmed_seq, coalesce(t.start_seq, s.seq) AS newest
    FROM session s
    LEFT JOIN turn t ON t.session_id = s.session_id AND t.turn_id = s.running_turn_id AND s.running_turn_id <> ''
    WHERE s.session_id = $1
    FOR UPDATE OF s SKIP LOCKED
), oldest AS (
    SELECT e.seq, h.seq AS last_seq, e.time
    FROM held h, LATERAL (
        SELECT seq, time FROM event
        WHERE session_id = h.session_id AND seq > h.trimmed_seq AND seq <= h.newest
        ORDER BY seq LIMIT $4
    ) AS e
), judged AS (
    SELECT seq, ($2::float8 > 0 AND time < now() - make_interval(secs => $2))
        OR ($3::bigint > 0 AND seq <= last_seq - $3) AS due
    FROM oldest
), cut AS (
    -- Up to the first that stays: what is kept has no gap.
    SELECT coalesce(min(seq) FILTER (WHERE NOT due) - 1, max(seq)) AS seq FROM judged
), trimmed AS (
    DELETE FROM event e USING held h, cut c
    WHERE e.session_id = h.session_id AND e.seq > h.trimmed_seq AND e.seq <= c.seq
    RETURNING e.seq
), moved AS (
    UPDATE session s SET trimmed_seq = greatest(s.trimmed_seq, c.seq)
    FROM held h, cut c
    WHERE s.session_id = h.session_id AND c.seq IS NOT NULL
)
SELECT count(*) AS trimmed FROM trimmed;
