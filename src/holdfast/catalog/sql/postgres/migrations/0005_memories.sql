-- Memories, and which of them hold a word.

CREATE TABLE memories (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    session_id TEXT COLLATE "C",
    user_id TEXT COLLATE "C",
    agent_id TEXT COLLATE "C",
    type TEXT COLLATE "C" NOT NULL,
    tags TEXT COLLATE "C" NOT NULL,
    metadata TEXT COLLATE "C" NOT NULL,
    is_searchable BIGINT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    -- What it counts against a quota.
    bytes BIGINT NOT NULL,
    -- Its words as they are looked for, one space between two.
    terms TEXT COLLATE "C" NOT NULL,
    content TEXT COLLATE "C" NOT NULL,
    -- Little-endian float32.
    embedding BYTEA,
    -- Each word begins with its namespace: then none is shared by two. NULL if it is not searched.
    words TSVECTOR
);

-- With what a quota asks for.
CREATE INDEX memories_of_namespace ON memories (namespace_id, number, bytes);

CREATE INDEX memories_of_session ON memories (namespace_id, session_id)
WHERE session_id IS NOT NULL;

CREATE INDEX memories_searchable ON memories (namespace_id, number)
WHERE is_searchable = 1 AND deleted_at IS NULL;

CREATE INDEX memories_deleted ON memories (namespace_id, deleted_at)
WHERE deleted_at IS NOT NULL;

-- No list of words yet to be sorted in: every search would read it.
CREATE INDEX memories_by_words ON memories USING gin (words) WITH (fastupdate = off);
