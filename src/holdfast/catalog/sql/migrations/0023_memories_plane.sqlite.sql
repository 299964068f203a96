-- An id is one namespace's own. SQLite drops no constraint: the table is made anew.

DROP VIEW memory_texts;

CREATE TABLE memories_anew (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    id TEXT NOT NULL,
    session_id TEXT,
    user_id TEXT,
    agent_id TEXT,
    type TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    is_searchable INTEGER NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    -- What it counts against a quota.
    bytes INTEGER NOT NULL,
    -- Its words as they are looked for, one space between two.
    terms TEXT NOT NULL,
    content TEXT NOT NULL,
    -- Little-endian float32. Last: what reads the columns before it does not read so much.
    embedding BLOB,
    UNIQUE (namespace_id, id)
) STRICT;

INSERT INTO memories_anew
    (number, namespace_id, id, session_id, user_id, agent_id, type, tags, metadata, is_searchable,
     version, created_at, updated_at, deleted_at, bytes, terms, content, embedding)
SELECT number, namespace_id, id, session_id, user_id, agent_id, type, tags, metadata, is_searchable,
       version, created_at, updated_at, deleted_at, bytes, terms, content, embedding
FROM memories;

-- No number is given out again, also of those whose rows are gone.
DELETE FROM sqlite_sequence WHERE name = 'memories_anew';

INSERT INTO sqlite_sequence (name, seq)
SELECT 'memories_anew', seq FROM sqlite_sequence WHERE name = 'memories';

DROP TABLE memories;

ALTER TABLE memories_anew RENAME TO memories;

-- In the order in which they are listed; with what a quota asks for.
CREATE INDEX memories_of_namespace ON memories (namespace_id, created_at, number, bytes);

CREATE INDEX memories_of_session ON memories (namespace_id, session_id)
WHERE session_id IS NOT NULL;

CREATE INDEX memories_deleted ON memories (namespace_id, deleted_at)
WHERE deleted_at IS NOT NULL;

CREATE INDEX memories_searchable ON memories (namespace_id, is_searchable, deleted_at, number);

-- A word begins with its namespace: then none is shared by two.
CREATE VIEW memory_texts AS
SELECT number, 'n' || namespace_id || 'x' || replace(terms, ' ', ' n' || namespace_id || 'x')
    AS words
FROM memories WHERE is_searchable = 1 AND deleted_at IS NULL AND terms != '';

-- What is remembered is in no snapshot yet: it is pending, as its rows have it.
INSERT INTO pending (namespace_id, plane, key, entry, sequence)
SELECT m.namespace_id, 'memories', CAST(m.id AS BLOB), X'910b', n.sequence
FROM memories m JOIN namespaces n ON n.id = m.namespace_id WHERE m.deleted_at IS NULL;

UPDATE namespaces
SET entries = entries + (
        SELECT COUNT(*) FROM memories m
        WHERE m.namespace_id = namespaces.id AND m.deleted_at IS NULL),
    bytes = bytes + (
        SELECT COALESCE(SUM(LENGTH(CAST(m.content AS BLOB))), 0) FROM memories m
        WHERE m.namespace_id = namespaces.id AND m.deleted_at IS NULL);
