-- Memories. What differs between the two databases is the index of words, and how lists are given:
-- see sqlite/memories.sql and postgres/memories.sql.

-- name: find_memory
SELECT {memory}, embedding
FROM memories WHERE id = :id AND namespace_id = :namespace_id AND deleted_at IS NULL

-- Deleted ones, too: a list goes on behind one that was deleted since it was seen.
-- name: find_memory_as_seen
SELECT {memory}, embedding FROM memories WHERE id = :id AND namespace_id = :namespace_id

-- name: set_memory
UPDATE memories
SET type = :type, tags = :tags, metadata = :metadata, version = :version,
    updated_at = :updated_at, bytes = :bytes, terms = :terms, content = :content,
    embedding = :embedding, checksum = :checksum
WHERE number = :number AND namespace_id = :namespace_id

-- name: delete_memory
UPDATE memories SET deleted_at = :now WHERE number = :number AND namespace_id = :namespace_id

-- name: all_memories
SELECT {memory}, embedding FROM memories
WHERE namespace_id = :namespace_id AND deleted_at IS NULL AND id > :after
ORDER BY id LIMIT :most

-- name: memory_ids
SELECT id FROM memories WHERE namespace_id = :namespace_id

-- What was deleted, or set aside, comes back.
-- name: put_memory
INSERT INTO memories
    (namespace_id, id, session_id, user_id, agent_id, type, tags, metadata, is_searchable,
     version, created_at, updated_at, bytes, terms, content, embedding, checksum)
VALUES
    (:namespace_id, :id, :session_id, :user_id, :agent_id, :type, :tags, :metadata,
     :is_searchable, :version, :created_at, :updated_at, :bytes, :terms, :content, :embedding,
     :checksum)
ON CONFLICT (namespace_id, id) DO UPDATE
SET session_id = excluded.session_id, user_id = excluded.user_id, agent_id = excluded.agent_id,
    type = excluded.type, tags = excluded.tags, metadata = excluded.metadata,
    is_searchable = excluded.is_searchable, version = excluded.version,
    created_at = excluded.created_at, updated_at = excluded.updated_at, deleted_at = NULL,
    bytes = excluded.bytes, terms = excluded.terms, content = excluded.content,
    embedding = excluded.embedding, checksum = excluded.checksum

-- name: add_lagging_memories
INSERT INTO lagging_memories (namespace_id) VALUES (:namespace_id)
ON CONFLICT (namespace_id) DO NOTHING

-- name: is_lagging_memories
SELECT 1 FROM lagging_memories WHERE namespace_id = :namespace_id

-- name: drop_lagging_memories
DELETE FROM lagging_memories WHERE namespace_id = :namespace_id

-- name: recover_memory
UPDATE memories SET deleted_at = NULL
WHERE id = :id AND namespace_id = :namespace_id AND deleted_at IS NOT NULL
RETURNING number

-- name: purge_deleted_memories
DELETE FROM memories WHERE deleted_at <= :before
  AND namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- name: purge_memories
DELETE FROM memories WHERE namespace_id = :namespace_id

-- name: count_searchable
SELECT COUNT(*) FROM memories
WHERE namespace_id = :namespace_id AND is_searchable = 1 AND deleted_at IS NULL

-- name: memory_bytes
SELECT COALESCE(SUM(m.bytes), 0) FROM memories m JOIN namespaces n ON n.id = m.namespace_id
WHERE n.tenant_id = :tenant_id
