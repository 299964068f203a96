-- An id is one namespace's own. SQLite drops no constraint: the table is made anew.

DROP VIEW memory_texts;

DROP INDEX memories_of_namespace;

DROP INDEX memories_of_session;

DROP INDEX memories_deleted;

DROP INDEX memories_searchable;

-- With the table's name the greatest of its numbers goes to another: none is given out again, also
-- of those whose rows are gone.

ALTER TABLE memories RENAME TO old_memories;

MAKE memories;

INSERT INTO memories
    (number, namespace_id, id, session_id, user_id, agent_id, type, tags, metadata, is_searchable,
     version, created_at, updated_at, deleted_at, bytes, terms, content, embedding)
SELECT number, namespace_id, id, session_id, user_id, agent_id, type, tags, metadata, is_searchable,
       version, created_at, updated_at, deleted_at, bytes, terms, content, embedding
FROM old_memories;

DELETE FROM sqlite_sequence WHERE name = 'memories';

INSERT INTO sqlite_sequence (name, seq)
SELECT 'memories', seq FROM sqlite_sequence WHERE name = 'old_memories';

DROP TABLE old_memories;

MAKE memory_texts;

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
