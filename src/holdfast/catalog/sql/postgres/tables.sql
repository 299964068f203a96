-- What only PostgreSQL has: the index of words, and how bytes are stored.

-- Its blocks are compressed already. Left as they are, one is read without the others.
ALTER TABLE pack_data ALTER COLUMN data SET STORAGE EXTERNAL;

-- Each word begins with its namespace: then none is shared by two. NULL if it is not searched.
ALTER TABLE memories ADD COLUMN words TSVECTOR;

CREATE INDEX memories_searchable ON memories (namespace_id, number)
WHERE is_searchable = 1 AND deleted_at IS NULL;

-- No list of words yet to be sorted in: every search would read it.
CREATE INDEX memories_by_words ON memories USING gin (words) WITH (fastupdate = off);
