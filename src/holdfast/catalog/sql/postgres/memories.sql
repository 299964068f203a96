-- Memories on PostgreSQL. Lists are given as JSON. Words are quoted, and hold nothing but letters
-- and digits: no parser and no dictionary of the server's looks at them.

-- name: add_memory
INSERT INTO memories
    (namespace_id, id, session_id, user_id, agent_id, type, tags, metadata, is_searchable,
     version, created_at, updated_at, bytes, terms, content, embedding, checksum, words)
VALUES
    (:namespace_id, :id, :session_id, :user_id, :agent_id, :type, :tags, :metadata,
     :is_searchable, :version, :created_at, :updated_at, :bytes, :terms, :content, :embedding,
     :checksum,
     CASE WHEN :is_searchable = 1 AND :terms != '' THEN array_to_tsvector(string_to_array(
         'n' || CAST(:namespace_id AS BIGINT) || 'x'
             || replace(:terms, ' ', ' n' || CAST(:namespace_id AS BIGINT) || 'x'), ' ')) END)
RETURNING number

-- name: index_memory
UPDATE memories SET words = array_to_tsvector(string_to_array(
    'n' || namespace_id || 'x' || replace(terms, ' ', ' n' || namespace_id || 'x'), ' '))
WHERE number = :number AND is_searchable = 1 AND deleted_at IS NULL AND terms != ''
  AND words IS NULL

-- name: unindex_memory
UPDATE memories SET words = NULL WHERE number = :number

-- name: memories_by_id
SELECT {m.memory}, m.embedding FROM memories m
WHERE m.namespace_id = :namespace_id AND m.deleted_at IS NULL
  AND m.id IN (SELECT jsonb_array_elements_text(CAST(:ids AS JSONB)))

-- name: count_memories_by_id
SELECT COUNT(*) FROM memories
WHERE namespace_id = :namespace_id AND deleted_at IS NULL AND id IN (SELECT jsonb_array_elements_text(CAST(:ids AS JSONB)))

-- name: index_memories_by_id
UPDATE memories SET words = array_to_tsvector(string_to_array(
    'n' || namespace_id || 'x' || replace(terms, ' ', ' n' || namespace_id || 'x'), ' '))
WHERE namespace_id = :namespace_id AND is_searchable = 1 AND deleted_at IS NULL AND terms != ''
  AND id IN (SELECT jsonb_array_elements_text(CAST(:ids AS JSONB)))

-- name: unindex_memories_by_id
UPDATE memories SET words = NULL
WHERE namespace_id = :namespace_id AND words IS NOT NULL
  AND id IN (SELECT jsonb_array_elements_text(CAST(:ids AS JSONB)))

-- name: delete_memories_by_id
UPDATE memories SET deleted_at = :now
WHERE namespace_id = :namespace_id AND deleted_at IS NULL
  AND id IN (SELECT jsonb_array_elements_text(CAST(:ids AS JSONB)))

-- name: unindex_memories
UPDATE memories SET words = NULL WHERE namespace_id = :namespace_id AND words IS NOT NULL

-- Of a session: + 0, or the index of all by their age might be taken for that of the session's.
-- name: list_memories_of
SELECT {memory}, embedding FROM memories
WHERE namespace_id = :namespace_id AND session_id = :session_id AND created_at + 0 >= :since
  AND (CAST(:others AS TEXT) IS NULL OR NOT EXISTS (
       SELECT 1 FROM jsonb_array_elements(CAST(:others AS JSONB)) AS others (time)
       WHERE memories.created_at >= CAST(others.time ->> 0 AS BIGINT)
         AND memories.created_at < CAST(others.time ->> 1 AS BIGINT)))
  AND deleted_at IS NULL

-- name: count_memories
SELECT COUNT(*), (SELECT 1 FROM lagging_memories WHERE namespace_id = :namespace_id)
FROM memories
WHERE namespace_id = :namespace_id AND session_id = :session_id AND created_at + 0 >= :since
  AND (CAST(:others AS TEXT) IS NULL OR NOT EXISTS (
       SELECT 1 FROM jsonb_array_elements(CAST(:others AS JSONB)) AS others (time)
       WHERE memories.created_at >= CAST(others.time ->> 0 AS BIGINT)
         AND memories.created_at < CAST(others.time ->> 1 AS BIGINT)))
  AND deleted_at IS NULL

-- name: list_memories
SELECT {m.memory},
       CASE WHEN m.embedding IS NULL THEN NULL ELSE CAST('' AS BYTEA) END
FROM memories m
WHERE m.namespace_id = :namespace_id AND m.created_at <= :before_at
  AND m.deleted_at IS NULL
  AND m.is_searchable >= :searchable
  AND (:scope = 'all'
       OR (:scope IN ('visible', 'session') AND m.session_id = CAST(:session_id AS TEXT)
           AND m.created_at >= :since
           AND (CAST(:others AS TEXT) IS NULL OR NOT EXISTS (
           SELECT 1 FROM jsonb_array_elements(CAST(:others AS JSONB)) AS others (time)
           WHERE m.created_at >= CAST(others.time ->> 0 AS BIGINT)
             AND m.created_at < CAST(others.time ->> 1 AS BIGINT))))
       OR (:scope IN ('visible', 'user') AND m.user_id = CAST(:owner_id AS TEXT))
       OR (:scope IN ('visible', 'global') AND m.session_id IS NULL AND m.user_id IS NULL))
  AND (CAST(:user_id AS TEXT) IS NULL OR m.user_id = CAST(:user_id AS TEXT))
  AND (CAST(:agent_id AS TEXT) IS NULL OR m.agent_id = CAST(:agent_id AS TEXT))
  AND (CAST(:types AS TEXT) IS NULL
       OR m.type IN (SELECT jsonb_array_elements_text(CAST(:types AS JSONB))))
  AND (CAST(:tags AS TEXT) IS NULL OR CAST(m.tags AS JSONB) ?|
       ARRAY(SELECT jsonb_array_elements_text(CAST(:tags AS JSONB))))
ORDER BY m.created_at DESC, m.number DESC LIMIT :most

-- name: get_memories
SELECT {m.memory},
       CASE WHEN m.embedding IS NULL THEN NULL ELSE CAST('' AS BYTEA) END
FROM memories m
WHERE m.namespace_id = :namespace_id AND m.deleted_at IS NULL AND m.number IN (
    SELECT CAST(jsonb_array_elements_text(CAST(:numbers AS JSONB)) AS BIGINT))

-- name: count_holders
SELECT given.word, (
    SELECT COUNT(*) FROM memories m WHERE m.words @@ CAST('''' || given.word || '''' AS TSQUERY))
FROM jsonb_array_elements_text(CAST(:words AS JSONB)) AS given (word)

-- The words say which namespace it is. `+ 0`: without it, and before the table was analysed, the
-- server reads the namespace instead of asking the index of words.
-- name: match_memories
SELECT m.created_at, m.id, m.number, m.terms FROM memories m
WHERE m.words @@ CAST((
       SELECT string_agg('''' || replace(given.word, '*', '') || '''' || CASE
           WHEN right(given.word, 1) = '*' THEN ':*' ELSE '' END, ' | ')
       FROM jsonb_array_elements_text(CAST(:words AS JSONB)) AS given (word)) AS TSQUERY)
  AND m.namespace_id + 0 = :namespace_id
  AND (:scope = 'all'
       OR (:scope IN ('visible', 'session') AND m.session_id = CAST(:session_id AS TEXT)
           AND m.created_at >= :since
           AND (CAST(:others AS TEXT) IS NULL OR NOT EXISTS (
           SELECT 1 FROM jsonb_array_elements(CAST(:others AS JSONB)) AS others (time)
           WHERE m.created_at >= CAST(others.time ->> 0 AS BIGINT)
             AND m.created_at < CAST(others.time ->> 1 AS BIGINT))))
       OR (:scope IN ('visible', 'user') AND m.user_id = CAST(:owner_id AS TEXT))
       OR (:scope IN ('visible', 'global') AND m.session_id IS NULL AND m.user_id IS NULL))
  AND (CAST(:user_id AS TEXT) IS NULL OR m.user_id = CAST(:user_id AS TEXT))
  AND (CAST(:agent_id AS TEXT) IS NULL OR m.agent_id = CAST(:agent_id AS TEXT))
  AND (CAST(:types AS TEXT) IS NULL
       OR m.type IN (SELECT jsonb_array_elements_text(CAST(:types AS JSONB))))
  AND (CAST(:tags AS TEXT) IS NULL OR CAST(m.tags AS JSONB) ?|
       ARRAY(SELECT jsonb_array_elements_text(CAST(:tags AS JSONB))))

-- name: page_embeddings
SELECT m.created_at, m.id, m.number, m.embedding FROM memories m
WHERE m.namespace_id = :namespace_id AND m.number > :after AND m.embedding IS NOT NULL
  AND m.is_searchable = 1 AND m.deleted_at IS NULL
  AND (:scope = 'all'
       OR (:scope IN ('visible', 'session') AND m.session_id = CAST(:session_id AS TEXT)
           AND m.created_at >= :since
           AND (CAST(:others AS TEXT) IS NULL OR NOT EXISTS (
           SELECT 1 FROM jsonb_array_elements(CAST(:others AS JSONB)) AS others (time)
           WHERE m.created_at >= CAST(others.time ->> 0 AS BIGINT)
             AND m.created_at < CAST(others.time ->> 1 AS BIGINT))))
       OR (:scope IN ('visible', 'user') AND m.user_id = CAST(:owner_id AS TEXT))
       OR (:scope IN ('visible', 'global') AND m.session_id IS NULL AND m.user_id IS NULL))
  AND (CAST(:user_id AS TEXT) IS NULL OR m.user_id = CAST(:user_id AS TEXT))
  AND (CAST(:agent_id AS TEXT) IS NULL OR m.agent_id = CAST(:agent_id AS TEXT))
  AND (CAST(:types AS TEXT) IS NULL
       OR m.type IN (SELECT jsonb_array_elements_text(CAST(:types AS JSONB))))
  AND (CAST(:tags AS TEXT) IS NULL OR CAST(m.tags AS JSONB) ?|
       ARRAY(SELECT jsonb_array_elements_text(CAST(:tags AS JSONB))))
ORDER BY m.number LIMIT :most

-- The words of a row stand in it.
-- name: index_words_anew
SELECT 1
