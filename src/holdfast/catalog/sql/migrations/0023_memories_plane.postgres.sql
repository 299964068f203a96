-- An id is one namespace's own.
ALTER TABLE memories DROP CONSTRAINT memories_id_key;

ALTER TABLE memories ADD UNIQUE (namespace_id, id);

-- In the order in which they are listed; with what a quota asks for.
DROP INDEX memories_of_namespace;

CREATE INDEX memories_of_namespace ON memories (namespace_id, created_at, number, bytes);

-- What is remembered is in no snapshot yet: it is pending, as its rows have it.
INSERT INTO pending (namespace_id, plane, key, entry, sequence)
SELECT m.namespace_id, 'memories', convert_to(m.id, 'UTF8'), '\x910b'::bytea, n.sequence
FROM memories m JOIN namespaces n ON n.id = m.namespace_id WHERE m.deleted_at IS NULL;

UPDATE namespaces
SET entries = entries + (
        SELECT COUNT(*) FROM memories m
        WHERE m.namespace_id = namespaces.id AND m.deleted_at IS NULL),
    bytes = bytes + (
        SELECT COALESCE(SUM(octet_length(m.content)), 0) FROM memories m
        WHERE m.namespace_id = namespaces.id AND m.deleted_at IS NULL);
