-- Memories, and which of them hold a word.

CREATE TABLE memories (
    -- AUTOINCREMENT: the index of words may still be asked about a number whose row is gone.
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    id TEXT NOT NULL UNIQUE,
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
    embedding BLOB
) STRICT;

-- With what a quota asks for.
CREATE INDEX memories_of_namespace ON memories (namespace_id, number, bytes);

CREATE INDEX memories_of_session ON memories (namespace_id, session_id)
WHERE session_id IS NOT NULL;

CREATE INDEX memories_searchable ON memories (namespace_id, is_searchable, deleted_at, number);

CREATE INDEX memories_deleted ON memories (namespace_id, deleted_at)
WHERE deleted_at IS NOT NULL;

-- A word begins with its namespace: then none is shared by two.
CREATE VIEW memory_texts AS
SELECT number, 'n' || namespace_id || 'x' || replace(terms, ' ', ' n' || namespace_id || 'x')
    AS words
FROM memories WHERE is_searchable = 1 AND deleted_at IS NULL AND terms != '';

-- `ascii` takes what is not ASCII for letters: it cuts the words where we have cut them.
CREATE VIRTUAL TABLE memory_index USING fts5 (
    words, content = 'memory_texts', content_rowid = 'number', tokenize = 'ascii',
    detail = 'none', columnsize = 0
);

CREATE VIRTUAL TABLE memory_words USING fts5vocab ('memory_index', 'row');
