-- The schema as it stands; a test proves that the migrations lead to it. Tables of a session have session_id first in
-- their keys, so that they can be distributed by it later; every table but the store's own two has owner_id.

-- A running orchestrator. Leases of sessions live as long as its row does.
CREATE TABLE instance (
    instance_id text PRIMARY KEY,
    incarnation_id text NOT NULL,
    address text NOT NULL,
    start_time timestamptz NOT NULL DEFAULT now(),
    expire_time timestamptz NOT NULL
);

CREATE TABLE session (
    session_id text PRIMARY KEY,
    owner_id text NOT NULL,
    title text NOT NULL DEFAULT '',
    workspace text NOT NULL,
    agent_id text NOT NULL DEFAULT '',
    thinking_level smallint NOT NULL DEFAULT 0,
    leaf_entry_id text NOT NULL DEFAULT '',
    -- Seq of the last durable event; events up to trimmed_seq are gone.
    seq bigint NOT NULL DEFAULT 0,
    trimmed_seq bigint NOT NULL DEFAULT 0,
    -- How many entries were ever made: the next entry_no less one.
    entry_count bigint NOT NULL DEFAULT 0,
    etag_no bigint NOT NULL DEFAULT 1,
    running_turn_id text NOT NULL DEFAULT '',
    -- The fence: every write of a lease's holder carries it.
    generation bigint NOT NULL DEFAULT 0,
    lease_instance_id text NOT NULL DEFAULT '',
    lease_incarnation_id text NOT NULL DEFAULT '',
    -- The last append of this generation, and the seq that it was answered with.
    append_no bigint NOT NULL DEFAULT 0,
    append_seq bigint NOT NULL DEFAULT 0,
    forked_from_session_id text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    -- The generation whose holder is compacting; 0 when nobody is.
    compaction_generation bigint NOT NULL DEFAULT 0,
    -- What model calls have cost that left neither an entry nor a task.
    lost_usage json
) WITH (fillfactor = 70);
-- Every append updates the session's row: no index holds a column that it changes, and pages keep room for the new row.
CREATE INDEX session_by_owner ON session (owner_id);
CREATE INDEX session_by_lease ON session (lease_instance_id) WHERE lease_instance_id <> '';
CREATE INDEX session_running ON session (session_id) WHERE running_turn_id <> '';
CREATE INDEX session_compacting ON session (session_id) WHERE compaction_generation <> 0;

-- A node of the tree. body is the Entry message without what stands in columns that others may change.
CREATE TABLE entry (
    session_id text NOT NULL,
    entry_id text NOT NULL,
    owner_id text NOT NULL,
    entry_no bigint NOT NULL,
    parent_entry_id text NOT NULL DEFAULT '',
    turn_id text NOT NULL DEFAULT '',
    kind smallint NOT NULL,
    state smallint NOT NULL,
    tool_call_id text NOT NULL DEFAULT '',
    label text NOT NULL DEFAULT '',
    body bytea NOT NULL,
    body_bytes integer NOT NULL,
    search_text text NOT NULL DEFAULT '',
    -- True for a question that waits for a person.
    open_question boolean NOT NULL DEFAULT false,
    -- Of an assistant entry: what its model call cost.
    token_usage json,
    updated_seq bigint NOT NULL DEFAULT 0,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, entry_id)
);
CREATE UNIQUE INDEX entry_in_order ON entry (session_id, entry_no);
CREATE INDEX entry_by_parent ON entry (session_id, parent_entry_id);
CREATE INDEX entry_open_question ON entry (session_id) WHERE open_question;
CREATE INDEX entry_question ON entry (session_id, entry_no) WHERE kind = 7;

-- A durable event: references and changed parts, joined with the current rows when read.
CREATE TABLE event (
    session_id text NOT NULL,
    seq bigint NOT NULL,
    owner_id text NOT NULL,
    -- Field number of the ChatEvent's event.
    kind smallint NOT NULL,
    entry_id text NOT NULL DEFAULT '',
    -- The entry that the event reports on, where it reports on one.
    subject_entry_id text NOT NULL DEFAULT '',
    turn_id text NOT NULL DEFAULT '',
    task_id text NOT NULL DEFAULT '',
    -- The event's own message, serialised.
    payload bytea NOT NULL DEFAULT '',
    time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE turn (
    session_id text NOT NULL,
    turn_id text NOT NULL,
    owner_id text NOT NULL,
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'ended')),
    outcome smallint NOT NULL DEFAULT 0,
    request_id text NOT NULL DEFAULT '',
    request_hash bytea NOT NULL DEFAULT '',
    -- True where the request named no session: its request_id is unique per owner.
    made_session boolean NOT NULL DEFAULT false,
    agent_id text NOT NULL DEFAULT '',
    user_entry_id text NOT NULL DEFAULT '',
    assistant_entry_id text NOT NULL DEFAULT '',
    -- Seq before the turn's first event.
    start_seq bigint NOT NULL DEFAULT 0,
    takeovers integer NOT NULL DEFAULT 0,
    start_time timestamptz NOT NULL DEFAULT now(),
    end_time timestamptz,
    PRIMARY KEY (session_id, turn_id)
);
CREATE UNIQUE INDEX turn_by_request ON turn (session_id, request_id) WHERE request_id <> '';
CREATE UNIQUE INDEX turn_by_owner_request ON turn (owner_id, request_id) WHERE request_id <> '' AND made_session;

-- A message that waits for the running turn, or entered one, or was taken back; kept then, so that a repeat finds it.
CREATE TABLE queued_message (
    session_id text NOT NULL,
    message_no bigint NOT NULL,
    owner_id text NOT NULL,
    request_id text NOT NULL,
    request_hash bytea NOT NULL,
    when_busy smallint NOT NULL,
    -- The turn that it entered; empty while it waits; 'retracted' where it was taken back.
    taken_turn_id text NOT NULL DEFAULT '',
    -- Seq before its receipt.
    start_seq bigint NOT NULL,
    content bytea NOT NULL,
    agent_id text NOT NULL DEFAULT '',
    agent_name text NOT NULL DEFAULT '',
    leaf_entry_id text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT now(),
    from_root boolean NOT NULL DEFAULT false,
    PRIMARY KEY (session_id, message_no)
);
CREATE UNIQUE INDEX queued_message_by_request ON queued_message (session_id, request_id);
CREATE INDEX queued_message_waiting ON queued_message (session_id) WHERE taken_turn_id = '';

-- One task of a delegation.
CREATE TABLE subagent_session (
    session_id text NOT NULL,
    task_id text NOT NULL,
    owner_id text NOT NULL,
    parent_entry_id text NOT NULL,
    parent_tool_call_id text,
    parent_agent_id text NOT NULL,
    batch_entry_id text NOT NULL,
    source_type text NOT NULL CHECK (source_type IN ('preset', 'clone', 'unspecified')),
    preset_agent_id text,
    name text NOT NULL,
    goal text NOT NULL,
    context text,
    status text NOT NULL CHECK (
        status IN (
            'queued', 'running', 'completed', 'partial', 'timed_out', 'failed', 'cancelled', 'in_doubt', 'unspecified'
        )
    ),
    model text NOT NULL,
    tool_names json,
    summary text,
    result_payload json,
    error text,
    token_usage json,
    sort_order integer NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    -- The exact SubagentTask; the columns above are for people and their queries.
    task bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    -- A SubagentResultBody with the task's final result and evidence, once it ended.
    outcome bytea,
    PRIMARY KEY (session_id, task_id)
);
CREATE INDEX subagent_session_by_batch ON subagent_session (session_id, batch_entry_id, sort_order);
CREATE INDEX subagent_session_by_parent ON subagent_session (session_id, parent_entry_id, sort_order);
CREATE INDEX subagent_session_by_status ON subagent_session (session_id, status);
CREATE INDEX subagent_session_by_agent ON subagent_session (parent_agent_id, create_time);

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

-- One message of a child's transcript.
CREATE TABLE subagent_entry (
    session_id text NOT NULL,
    task_id text NOT NULL,
    n integer NOT NULL,
    owner_id text NOT NULL,
    message bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, task_id, n)
);

-- Text of a running answer, for the case of a crash.
CREATE TABLE entry_draft (
    session_id text NOT NULL,
    entry_id text NOT NULL,
    task_id text NOT NULL DEFAULT '',
    channel smallint NOT NULL,
    owner_id text NOT NULL,
    generation bigint NOT NULL,
    attempt integer NOT NULL,
    body bytea NOT NULL,
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, entry_id, task_id, channel)
);

-- A stretch of large content.
CREATE TABLE content (
    session_id text NOT NULL,
    content_id text NOT NULL,
    chunk_no integer NOT NULL,
    owner_id text NOT NULL,
    entry_id text NOT NULL,
    start_byte bigint NOT NULL,
    end_byte bigint NOT NULL,
    body bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, content_id, chunk_no)
);
CREATE INDEX content_by_entry ON content (session_id, entry_id);

CREATE TABLE agent (
    owner_id text NOT NULL,
    agent_id text NOT NULL,
    name text NOT NULL,
    published boolean NOT NULL DEFAULT false,
    -- The Agent message without what stands in columns.
    body bytea NOT NULL,
    etag_no bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner_id, agent_id)
);
CREATE UNIQUE INDEX agent_by_name ON agent (owner_id, name);
CREATE INDEX agent_newest ON agent (owner_id, create_time DESC, agent_id DESC);

-- A key of the gateway's callers; the secret itself is not kept.
CREATE TABLE api_key (
    key_id text PRIMARY KEY,
    owner_id text NOT NULL,
    name text NOT NULL DEFAULT '',
    secret_hash bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    expire_time timestamptz,
    revoke_time timestamptz
);
CREATE UNIQUE INDEX api_key_by_secret ON api_key (secret_hash);
