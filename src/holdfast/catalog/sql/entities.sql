-- What a session knows of things, and how many things there are. Of a session that is gone, or past its time, nothing is known.

-- name: add_entity
INSERT INTO entities ({entity}) VALUES ({:entity})
ON CONFLICT (namespace_id, session_id, entity_type, entity_id) WHERE deleted_at IS NULL DO NOTHING

-- name: find_entity
SELECT {e.entity}, s.id
FROM entities e
LEFT JOIN sessions s ON s.namespace_id = e.namespace_id AND s.id = e.session_id
WHERE e.id = :id AND e.namespace_id = :namespace_id AND e.deleted_at IS NULL
  AND s.deleted_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > :now)

-- Deleted ones, too, and those of sessions that are gone: a list goes on behind what was seen.
-- name: find_entity_as_seen
SELECT {entity} FROM entities WHERE id = :id AND namespace_id = :namespace_id
UNION ALL
SELECT {entity} FROM former_entities WHERE id = :id AND namespace_id = :namespace_id

-- Sessions whose entities are not shown: of one, or with an empty id of all.
-- name: ended_sessions_of_entities
SELECT {s.session}
FROM entities e JOIN sessions s ON s.namespace_id = e.namespace_id AND s.id = e.session_id
WHERE e.namespace_id = :namespace_id AND e.deleted_at IS NULL AND (:id = '' OR e.id = :id)
  AND (s.deleted_at IS NOT NULL OR s.expires_at <= :now)

-- name: list_entities
SELECT {e.entity}, s.id
FROM entities e
LEFT JOIN sessions s ON s.namespace_id = e.namespace_id AND s.id = e.session_id
WHERE e.namespace_id = :namespace_id AND e.deleted_at IS NULL
  AND s.deleted_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > :now)
  AND (:entity_type = '' OR e.entity_type = :entity_type)
  AND (e.created_at < :before_at OR (e.created_at = :before_at AND e.id < :before_id))
ORDER BY e.created_at DESC, e.id DESC LIMIT :most

-- name: list_entities_of_session
SELECT {e.entity}, s.id
FROM entities e
LEFT JOIN sessions s ON s.namespace_id = e.namespace_id AND s.id = e.session_id
WHERE e.namespace_id = :namespace_id AND e.session_id = :session_id AND e.deleted_at IS NULL
  AND s.deleted_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > :now)
  AND (:entity_type = '' OR e.entity_type = :entity_type)
  AND (e.created_at < :before_at OR (e.created_at = :before_at AND e.id < :before_id))
ORDER BY e.created_at DESC, e.id DESC LIMIT :most

-- name: count_entities
SELECT COUNT(*) FROM entities
WHERE namespace_id = :namespace_id AND session_id = :session_id AND deleted_at IS NULL

-- name: set_entity
UPDATE entities
SET attributes = :attributes, version = :version, updated_at = :updated_at, checksum = :checksum
WHERE id = :id AND namespace_id = :namespace_id

-- name: delete_entity
UPDATE entities SET deleted_at = :now WHERE id = :id AND namespace_id = :namespace_id

-- Not if the session has come to know the same thing anew.
-- name: recover_entity
UPDATE entities SET deleted_at = NULL
WHERE id = :id AND namespace_id = :namespace_id AND deleted_at IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM entities other
    WHERE other.namespace_id = entities.namespace_id AND other.session_id = entities.session_id
      AND other.entity_type = entities.entity_type AND other.entity_id = entities.entity_id
      AND other.deleted_at IS NULL
  )

-- name: purge_deleted_entities
DELETE FROM entities WHERE deleted_at <= :before
  AND namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- name: purge_deleted_former_entities
DELETE FROM former_entities WHERE deleted_at <= :before
  AND namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- A namespace of number 0 stands for all of a tenant's.
-- name: total_sessions
SELECT COUNT(*), COALESCE(SUM(s.turns), 0)
FROM namespaces n JOIN sessions s ON s.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND n.deleted_at IS NULL
  AND (:namespace_id = 0 OR n.id = :namespace_id)
  AND s.is_present = 1 AND s.deleted_at IS NULL
  AND (s.expires_at IS NULL OR s.expires_at > :now)

-- name: total_memories
SELECT COUNT(*) FROM namespaces n JOIN memories m ON m.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND n.deleted_at IS NULL
  AND (:namespace_id = 0 OR n.id = :namespace_id) AND m.deleted_at IS NULL

-- name: total_entities
SELECT COUNT(*) FROM namespaces n JOIN entities e ON e.namespace_id = n.id
JOIN sessions s ON s.namespace_id = e.namespace_id AND s.id = e.session_id
WHERE n.tenant_id = :tenant_id AND n.deleted_at IS NULL
  AND (:namespace_id = 0 OR n.id = :namespace_id)
  AND e.deleted_at IS NULL AND s.deleted_at IS NULL
  AND (s.expires_at IS NULL OR s.expires_at > :now)

-- name: count_by_hour
SELECT t.created_at / 3600000000, COUNT(*)
FROM namespaces n JOIN journal t ON t.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND n.deleted_at IS NULL
  AND (:namespace_id = 0 OR n.id = :namespace_id) AND t.created_at >= :since
GROUP BY t.created_at / 3600000000 ORDER BY 1
