-- Memories on SQLite. Lists are given as JSON. A row of FTS5 is taken out of its index by telling
-- it what it holds: `memory_texts` knows that as long as the memory has not changed.

-- name: add_memory
INSERT INTO memories
    (namespace_id, id, session_id, user_id, agent_id, type, tags, metadata, is_searchable,
     version, created_at, updated_at, bytes, terms, content, embedding, checksum)
VALUES
    (:namespace_id, :id, :session_id, :user_id, :agent_id, :type, :tags, :metadata,
     :is_searchable, :version, :created_at, :updated_at, :bytes, :terms, :content, :embedding,
     :checksum)
RETURNING number

-- name: index_memory
INSERT INTO memory_index (rowid, words)
SELECT number, words FROM memory_texts WHERE number = :number

-- name: unindex_memory
INSERT INTO memory_index (memory_index, rowid, words)
SELECT 'delete', number, words FROM memory_texts WHERE number = :number

-- name: memories_by_id
SELECT {m.memory}, m.embedding FROM memories m
WHERE m.namespace_id = :namespace_id AND m.deleted_at IS NULL
  AND m.id IN (SELECT value FROM json_each(:ids))

-- name: count_memories_by_id
SELECT COUNT(*) FROM memories
WHERE namespace_id = :namespace_id AND deleted_at IS NULL AND id IN (SELECT value FROM json_each(:ids))

-- name: index_memories_by_id
INSERT INTO memory_index (rowid, words)
SELECT t.number, t.words FROM memories m JOIN memory_texts t ON t.number = m.number
WHERE m.namespace_id = :namespace_id AND m.id IN (SELECT value FROM json_each(:ids))

-- name: unindex_memories_by_id
INSERT INTO memory_index (memory_index, rowid, words)
SELECT 'delete', t.number, t.words FROM memories m JOIN memory_texts t ON t.number = m.number
WHERE m.namespace_id = :namespace_id AND m.id IN (SELECT value FROM json_each(:ids))

-- name: delete_memories_by_id
UPDATE memories SET deleted_at = :now
WHERE namespace_id = :namespace_id AND deleted_at IS NULL
  AND id IN (SELECT value FROM json_each(:ids))

-- name: unindex_memories
INSERT INTO memory_index (memory_index, rowid, words)
SELECT 'delete', t.number, t.words FROM memory_texts t JOIN memories m ON m.number = t.number
WHERE m.namespace_id = :namespace_id

-- Of a session: + 0, or the index of all by their age might be taken for that of the session's.
-- name: list_memories_of
SELECT {memory}, embedding FROM memories
WHERE namespace_id = :namespace_id AND session_id = :session_id AND created_at + 0 >= :since
  AND (:others IS NULL OR NOT EXISTS (
       SELECT 1 FROM json_each(:others) time
       WHERE memories.created_at >= json_extract(time.value, '$[0]')
         AND memories.created_at < json_extract(time.value, '$[1]')))
  AND deleted_at IS NULL

-- name: count_memories
SELECT COUNT(*), (SELECT 1 FROM lagging_memories WHERE namespace_id = :namespace_id)
FROM memories
WHERE namespace_id = :namespace_id AND session_id = :session_id AND created_at + 0 >= :since
  AND (:others IS NULL OR NOT EXISTS (
       SELECT 1 FROM json_each(:others) time
       WHERE memories.created_at >= json_extract(time.value, '$[0]')
         AND memories.created_at < json_extract(time.value, '$[1]')))
  AND deleted_at IS NULL

-- name: list_memories
SELECT {m.memory},
       CASE typeof(m.embedding) WHEN 'null' THEN NULL WHEN 'blob' THEN x'' ELSE 0 END
FROM memories m
WHERE m.namespace_id = :namespace_id AND m.created_at <= :before_at
  AND m.deleted_at IS NULL
  AND +m.is_searchable >= :searchable
  AND (:scope = 'all'
       OR (:scope IN ('visible', 'session') AND m.session_id = CAST(:session_id AS TEXT)
           AND m.created_at >= :since
           AND (:others IS NULL OR NOT EXISTS (
           SELECT 1 FROM json_each(:others) time
           WHERE m.created_at >= json_extract(time.value, '$[0]')
             AND m.created_at < json_extract(time.value, '$[1]'))))
       OR (:scope IN ('visible', 'user') AND m.user_id = CAST(:owner_id AS TEXT))
       OR (:scope IN ('visible', 'global') AND m.session_id IS NULL AND m.user_id IS NULL))
  AND (CAST(:user_id AS TEXT) IS NULL OR m.user_id = CAST(:user_id AS TEXT))
  AND (CAST(:agent_id AS TEXT) IS NULL OR m.agent_id = CAST(:agent_id AS TEXT))
  AND (:types IS NULL OR m.type IN (SELECT value FROM json_each(:types)))
  AND (:tags IS NULL OR EXISTS (
       SELECT 1 FROM json_each(m.tags) has JOIN json_each(:tags) wanted
       ON has.value = wanted.value))
ORDER BY m.created_at DESC, m.number DESC LIMIT :most

-- By number, of which few are asked for: left to itself, SQLite reads the namespace.
-- name: get_memories
SELECT {m.memory},
       CASE typeof(m.embedding) WHEN 'null' THEN NULL WHEN 'blob' THEN x'' ELSE 0 END
FROM memories m
WHERE +m.namespace_id = :namespace_id AND m.deleted_at IS NULL
  AND m.number IN (SELECT value FROM json_each(:numbers))

-- name: count_holders
SELECT given.value, held.doc
FROM json_each(:words) given JOIN memory_words held ON held.term = given.value

-- name: match_memories
-- CROSS: the index first. SQLite would ask it once for each memory of the namespace.
SELECT m.created_at, m.id, m.number, m.terms
FROM memory_index CROSS JOIN memories m ON m.number = memory_index.rowid
WHERE memory_index MATCH (
       SELECT group_concat(
           '"' || replace(value, '*', '') || '"' || substr('*', 1, value LIKE '%*'), ' OR ')
       FROM json_each(:words))
  AND m.namespace_id = :namespace_id
  AND (:scope = 'all'
       OR (:scope IN ('visible', 'session') AND m.session_id = CAST(:session_id AS TEXT)
           AND m.created_at >= :since
           AND (:others IS NULL OR NOT EXISTS (
           SELECT 1 FROM json_each(:others) time
           WHERE m.created_at >= json_extract(time.value, '$[0]')
             AND m.created_at < json_extract(time.value, '$[1]'))))
       OR (:scope IN ('visible', 'user') AND m.user_id = CAST(:owner_id AS TEXT))
       OR (:scope IN ('visible', 'global') AND m.session_id IS NULL AND m.user_id IS NULL))
  AND (CAST(:user_id AS TEXT) IS NULL OR m.user_id = CAST(:user_id AS TEXT))
  AND (CAST(:agent_id AS TEXT) IS NULL OR m.agent_id = CAST(:agent_id AS TEXT))
  AND (:types IS NULL OR m.type IN (SELECT value FROM json_each(:types)))
  AND (:tags IS NULL OR EXISTS (
       SELECT 1 FROM json_each(m.tags) has JOIN json_each(:tags) wanted
       ON has.value = wanted.value))

-- name: page_embeddings
SELECT m.created_at, m.id, m.number, m.embedding FROM memories m
WHERE m.namespace_id = :namespace_id AND m.number > :after AND m.embedding IS NOT NULL
  AND m.is_searchable = 1 AND m.deleted_at IS NULL
  AND (:scope = 'all'
       OR (:scope IN ('visible', 'session') AND m.session_id = CAST(:session_id AS TEXT)
           AND m.created_at >= :since
           AND (:others IS NULL OR NOT EXISTS (
           SELECT 1 FROM json_each(:others) time
           WHERE m.created_at >= json_extract(time.value, '$[0]')
             AND m.created_at < json_extract(time.value, '$[1]'))))
       OR (:scope IN ('visible', 'user') AND m.user_id = CAST(:owner_id AS TEXT))
       OR (:scope IN ('visible', 'global') AND m.session_id IS NULL AND m.user_id IS NULL))
  AND (CAST(:user_id AS TEXT) IS NULL OR m.user_id = CAST(:user_id AS TEXT))
  AND (CAST(:agent_id AS TEXT) IS NULL OR m.agent_id = CAST(:agent_id AS TEXT))
  AND (:types IS NULL OR m.type IN (SELECT value FROM json_each(:types)))
  AND (:tags IS NULL OR EXISTS (
       SELECT 1 FROM json_each(m.tags) has JOIN json_each(:tags) wanted
       ON has.value = wanted.value))
ORDER BY m.number LIMIT :most

-- name: index_words_anew
INSERT INTO memory_index (memory_index) VALUES ('rebuild')
