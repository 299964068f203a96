-- What only SQLite has: the index of words.

CREATE INDEX memories_searchable ON memories (namespace_id, is_searchable, deleted_at, number);

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
