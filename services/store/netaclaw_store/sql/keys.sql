-- name: create_key
INSERT INTO api_key (key_id, owner_id, name, secret_hash, expire_time) VALUES ($1, $2, $3, $4, $5);

-- name: verify_key
SELECT owner_id, key_id, expire_time FROM api_key
WHERE secret_hash = $1 AND revoke_time IS NULL AND (expire_time IS NULL OR expire_time > now());

-- name: revoke_key
UPDATE api_key SET revoke_time = coalesce(revoke_time, now()) WHERE key_id = $1 RETURNING key_id;

-- name: list_keys
SELECT key_id, owner_id, name, create_time, expire_time, revoke_time FROM api_key
WHERE ($1 = '' OR owner_id = $1)
  AND (NOT $2 OR (revoke_time IS NULL AND (expire_time IS NULL OR expire_time > now())))
  AND ($3 = '' OR key_id < $3)
ORDER BY key_id DESC LIMIT $4;

-- name: check_keys
SELECT key_id FROM api_key
WHERE key_id = ANY ($1::text[]) AND revoke_time IS NULL AND (expire_time IS NULL OR expire_time > now());
