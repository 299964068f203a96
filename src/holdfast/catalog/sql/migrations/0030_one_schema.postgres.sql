-- An id is one namespace's own.

ALTER TABLE memories DROP CONSTRAINT memories_id_key;

ALTER TABLE memories ADD UNIQUE (namespace_id, id);

ALTER TABLE memories ADD COLUMN checksum BIGINT;

DROP INDEX memories_of_namespace;

MAKE memories_of_namespace;

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

-- Eight columns compared their text as the database was set up to, and not by its bytes. Two of
-- them go.

ALTER TABLE namespaces ALTER COLUMN writer TYPE TEXT COLLATE "C";

ALTER TABLE retired ALTER COLUMN name TYPE TEXT COLLATE "C";

ALTER TABLE sessions
    ALTER COLUMN metadata TYPE TEXT COLLATE "C",
    ALTER COLUMN forked_from TYPE TEXT COLLATE "C";

ALTER TABLE versions
    ALTER COLUMN kind TYPE TEXT COLLATE "C",
    ALTER COLUMN trace_id TYPE TEXT COLLATE "C";
