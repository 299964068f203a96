-- Memories. What differs between the two databases is the index of words, and how lists are given:
-- see sqlite/memories.sql and postgres/memories.sql.

-- name: find_memory
SELECT {memory}, embedding
FROM memories WHERE id = :id AND namespace_id = :namespace_id AND deleted_at IS NULL

-- name: set_memory
UPDATE memories
SET type = :type, tags = :tags, metadata = :metadata, version = :version,
    updated_at = :updated_at, bytes = :bytes, terms = :terms, content = :content,
    embedding = :embedding
WHERE number = :number AND namespace_id = :namespace_id

-- name: delete_memory
UPDATE memories SET deleted_at = :now WHERE number = :number AND namespace_id = :namespace_id

-- name: delete_memories_of
UPDATE memories SET deleted_at = :now
WHERE namespace_id = :namespace_id AND session_id = :session_id AND deleted_at IS NULL

-- name: recover_memory
UPDATE memories SET deleted_at = NULL
WHERE id = :id AND namespace_id = :namespace_id AND deleted_at IS NOT NULL
RETURNING number

-- name: purge_deleted_memories
DELETE FROM memories WHERE deleted_at <= :before
  AND namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- name: purge_memories
DELETE FROM memories WHERE namespace_id = :namespace_id

-- name: count_memories
SELECT COUNT(*) FROM memories
WHERE namespace_id = :namespace_id AND session_id = :session_id AND deleted_at IS NULL

-- name: count_searchable
SELECT COUNT(*) FROM memories
WHERE namespace_id = :namespace_id AND is_searchable = 1 AND deleted_at IS NULL

-- name: memory_bytes
SELECT COALESCE(SUM(m.bytes), 0) FROM memories m JOIN namespaces n ON n.id = m.namespace_id
WHERE n.tenant_id = :tenant_id
