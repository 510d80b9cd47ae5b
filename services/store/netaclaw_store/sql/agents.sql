-- name: default_agent
-- Makes the owner's default agent if it is missing.
INSERT INTO agent (owner_id, agent_id, name, published, body)
VALUES ($1, $2, 'assistant', true, '')
ON CONFLICT (owner_id, name) DO NOTHING;

-- name: find_agent
-- By id, else by name.
SELECT * FROM agent WHERE owner_id = $1 AND agent_id = $2 AND $2 <> ''
UNION ALL
SELECT * FROM agent WHERE owner_id = $1 AND name = $3 AND $2 = '';

-- name: insert_agent
INSERT INTO agent (owner_id, agent_id, name, body) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
RETURNING *;

-- name: list_agents
SELECT * FROM agent
WHERE owner_id = $1 AND (create_time, agent_id) < (coalesce($2::timestamptz, 'infinity'), $3)
ORDER BY create_time DESC, agent_id DESC
LIMIT $4;

-- name: list_agent_options
SELECT * FROM agent
WHERE owner_id = $1 AND published AND name > $2
ORDER BY name
LIMIT $3;

-- name: lock_agent
SELECT * FROM agent WHERE owner_id = $1 AND agent_id = $2 FOR UPDATE;

-- name: update_agent
UPDATE agent SET name = $3, body = $4, etag_no = etag_no + 1, update_time = now()
WHERE owner_id = $1 AND agent_id = $2
RETURNING *;

-- name: publish_agent
UPDATE agent
SET published = $3, etag_no = etag_no + (published <> $3)::int,
    update_time = CASE WHEN published <> $3 THEN now() ELSE update_time END
WHERE owner_id = $1 AND agent_id = $2
RETURNING *;

-- name: delete_agent
DELETE FROM agent WHERE owner_id = $1 AND agent_id = $2;
