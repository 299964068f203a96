-- Queries that read the same on SQLite and PostgreSQL. Parameters are written :name.
-- What differs between the two is in sqlite/queries.sql and postgres/queries.sql.

-- name: find_tenant
SELECT {tenant} FROM tenants WHERE name = :name

-- name: iter_tenants
SELECT {tenant} FROM tenants ORDER BY id

-- name: has_other_tenants
SELECT EXISTS (SELECT 1 FROM tenants WHERE id < :tenant_id OR id > :tenant_id)

-- name: add_tenant
INSERT INTO tenants (name, public_id, created_at) VALUES (:name, :public_id, :now)
ON CONFLICT (name) DO NOTHING

-- name: get_tenant
SELECT {tenant} FROM tenants WHERE id = :tenant_id

-- Whose id the database has given out; unless somebody has changed it since.
-- name: seal_tenant
UPDATE tenants SET checksum = :checksum WHERE id = :id AND checksum IS NULL

-- name: set_tenant_quota
UPDATE tenants SET quota_bytes = :quota_bytes, checksum = :checksum WHERE id = :id

-- name: get_epoch
SELECT epoch, quota_bytes FROM tenants WHERE id = :tenant_id

-- name: advance_epoch
UPDATE tenants SET epoch = epoch + 1 WHERE id = :tenant_id RETURNING epoch

-- name: find_head
SELECT {namespace}
FROM namespaces WHERE tenant_id = :tenant_id AND name = :name AND deleted_at IS NULL

-- name: find_head_by_id
SELECT {namespace}
FROM namespaces WHERE id = :namespace_id

-- name: find_at_head
SELECT {n.namespace}, p.key, p.entry, p.sequence, p.checksum
FROM namespaces n
LEFT JOIN pending p ON p.namespace_id = n.id AND p.plane = :plane AND p.key = :key
WHERE n.tenant_id = :tenant_id AND n.name = :name AND n.deleted_at IS NULL

-- name: iter_heads
SELECT {namespace}
FROM namespaces WHERE tenant_id = :tenant_id ORDER BY name, id

-- name: add_namespace
INSERT INTO namespaces
    (tenant_id, name, generation, sequence, root, position, redo, entries, bytes, created_at,
     quota_bytes, retention, fork_of, fork_root)
VALUES
    (:tenant_id, :name, :generation, :sequence, :root, :position, :redo, :entries, :bytes, :created_at,
     :quota_bytes, :retention, :fork_of, :fork_root)
ON CONFLICT DO NOTHING
RETURNING id

-- Whose id the database has given out.
-- name: seal_namespace
UPDATE namespaces SET checksum = :checksum WHERE id = :id

-- name: move_head
UPDATE namespaces
SET generation = :generation, root = :root, position = :position, redo = :redo,
    writer = :writer, checksum = :checksum, entries = entries + :more_entries, bytes = bytes + :more_bytes,
    unfolded = CASE WHEN sequence = :sequence THEN 0 ELSE unfolded END,
    row_bytes = row_bytes + CAST(:row_bytes AS BIGINT)
WHERE id = :id AND generation = :expected
RETURNING id

-- name: set_writer
UPDATE namespaces SET writer = :writer WHERE id = :namespace_id

-- name: advance_sequence
UPDATE namespaces
SET sequence = sequence + 1, writer = :writer, entries = entries + :more_entries, bytes = bytes + :more_bytes,
    unfolded = unfolded + CAST(:unfolded AS BIGINT)
WHERE id = :namespace_id
RETURNING sequence

-- name: advance_head
UPDATE namespaces
SET sequence = :sequence, writer = :writer, entries = entries + :more_entries, bytes = bytes + :more_bytes,
    unfolded = unfolded + CAST(:unfolded AS BIGINT)
WHERE id = :namespace_id

-- name: trust_namespace
SELECT n.id FROM namespaces n
WHERE n.id = :namespace_id AND n.sequence = :sequence AND n.writer = :writer AND n.checksum = :checksum
  AND EXISTS (SELECT 1 FROM tenants t WHERE t.id = :tenant_id AND t.quota_bytes IS NULL)

-- The mark of a key that is about to be put, if it is not pending yet.
-- name: mark_pending
UPDATE namespaces SET unfolded = unfolded + CAST(:mark AS BIGINT)
WHERE id = :namespace_id AND NOT EXISTS (
    SELECT 1 FROM pending p WHERE p.namespace_id = :namespace_id AND p.plane = :plane AND p.key = :key
)

-- That of one that is about to be discarded, if it is pending.
-- name: unmark_pending
UPDATE namespaces SET unfolded = unfolded - CAST(:mark AS BIGINT)
WHERE id = :namespace_id AND EXISTS (
    SELECT 1 FROM pending p WHERE p.namespace_id = :namespace_id AND p.plane = :plane AND p.key = :key
)

-- name: take_unfolded
UPDATE namespaces SET unfolded = unfolded - CAST(:mark AS BIGINT) WHERE id = :namespace_id

-- name: set_unfolded
UPDATE namespaces SET unfolded = :unfolded WHERE id = :namespace_id

-- name: set_head
UPDATE namespaces
SET deleted_at = :deleted_at, quota_bytes = :quota_bytes, retention = :retention,
    checksum = :checksum
WHERE id = :id

-- name: recover_namespace
UPDATE namespaces SET deleted_at = NULL, name = :name, checksum = :checksum
WHERE id = :id AND deleted_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM namespaces live
    WHERE live.tenant_id = namespaces.tenant_id AND live.name = :name
      AND live.deleted_at IS NULL
)

-- name: purge_pending
DELETE FROM pending WHERE namespace_id = :namespace_id

-- name: purge_snapshots
DELETE FROM snapshots WHERE namespace_id = :namespace_id

-- name: purge_log
DELETE FROM logs WHERE namespace_id = :namespace_id

-- name: find_agreement
SELECT attached, snapshot, files FROM agreements
WHERE namespace_id = :namespace_id AND directory = :directory

-- name: set_agreement
INSERT INTO agreements (namespace_id, directory, attached, snapshot, files)
VALUES (:namespace_id, :directory, :attached, :snapshot, :files)
ON CONFLICT (namespace_id, directory) DO UPDATE
SET attached = excluded.attached, snapshot = excluded.snapshot, files = excluded.files

-- name: purge_agreements
DELETE FROM agreements WHERE namespace_id = :namespace_id

-- name: purge_namespace
DELETE FROM namespaces WHERE id = :namespace_id

-- name: find_pending
SELECT key, entry, sequence, checksum FROM pending
WHERE namespace_id = :namespace_id AND plane = :plane AND key = :key

-- name: range_pending
SELECT key, entry, sequence, checksum FROM pending
WHERE namespace_id = :namespace_id AND plane = :plane AND key >= :start
ORDER BY key LIMIT :most

-- name: range_pending_until
SELECT key, entry, sequence, checksum FROM pending
WHERE namespace_id = :namespace_id AND plane = :plane AND key >= :start AND key < :stop
ORDER BY key LIMIT :most

-- name: last_pending
SELECT key, entry, sequence, checksum FROM pending
WHERE namespace_id = :namespace_id AND plane = :plane AND key >= :start AND key < :stop
ORDER BY key DESC LIMIT :most

-- name: all_pending_keys
SELECT plane, key FROM pending WHERE namespace_id = :namespace_id

-- name: all_pending
SELECT plane, key, entry, sequence, checksum FROM pending WHERE namespace_id = :namespace_id

-- name: count_pending
SELECT COUNT(*) FROM pending WHERE namespace_id = :namespace_id

-- name: put_pending
INSERT INTO pending (namespace_id, plane, key, entry, checksum, sequence)
VALUES (:namespace_id, :plane, :key, :entry, :checksum, :sequence)
ON CONFLICT (namespace_id, plane, key)
DO UPDATE SET entry = excluded.entry, checksum = excluded.checksum, sequence = excluded.sequence

-- name: add_new_pending
INSERT INTO pending (namespace_id, plane, key, entry, checksum, sequence)
VALUES (:namespace_id, :plane, :key, :entry, :checksum, :sequence)

-- name: add_pending
INSERT INTO pending (namespace_id, plane, key, entry, checksum, sequence)
VALUES (:namespace_id, :plane, :key, :entry, :checksum, :sequence)
ON CONFLICT (namespace_id, plane, key) DO NOTHING

-- name: drop_pending
DELETE FROM pending WHERE namespace_id = :namespace_id AND sequence <= :sequence

-- name: discard_pending
DELETE FROM pending WHERE namespace_id = :namespace_id AND plane = :plane AND key = :key

-- name: find_log
SELECT name, position FROM logs WHERE namespace_id = :namespace_id

-- name: set_log
INSERT INTO logs (namespace_id, name, position) VALUES (:namespace_id, :name, :position)
ON CONFLICT (namespace_id) DO UPDATE SET name = excluded.name, position = excluded.position

-- name: add_snapshot
INSERT INTO snapshots ({snapshot}) VALUES ({:snapshot})

-- name: find_snapshot
SELECT {snapshot}
FROM snapshots WHERE id = :id AND namespace_id = :namespace_id

-- name: find_snapshots_by_prefix
SELECT {snapshot}
FROM snapshots
WHERE namespace_id = :namespace_id AND id >= :start AND id < :stop AND deleted_at IS NULL
ORDER BY id LIMIT 2

-- name: timeline
SELECT {snapshot}
FROM snapshots WHERE namespace_id = :namespace_id AND number < :before
ORDER BY number DESC LIMIT :most

-- name: timeline_of_label
SELECT {snapshot}
FROM snapshots WHERE namespace_id = :namespace_id AND label = :name AND number < :before
ORDER BY number DESC LIMIT :most

-- As the index has it, then the whole: a plain `=` would keep SQLite from using that index.
-- name: timeline_of_task
SELECT {snapshot}
FROM snapshots
WHERE namespace_id = :namespace_id AND substr(task_id, 1, 64) = substr(:name, 1, 64)
    AND task_id IS NOT NULL AND task_id || '' = :name AND number < :before
ORDER BY number DESC LIMIT :most

-- name: timeline_of_trace
SELECT {snapshot}
FROM snapshots
WHERE namespace_id = :namespace_id AND substr(trace_id, 1, 64) = substr(:name, 1, 64)
    AND trace_id IS NOT NULL AND trace_id || '' = :name AND number < :before
ORDER BY number DESC LIMIT :most

-- As `is_expired` has it: `oldest` is when one without a term of its own was taken at the earliest.
-- name: count_usable_snapshots
SELECT COUNT(*) FROM snapshots
WHERE namespace_id = :namespace_id AND deleted_at IS NULL
    AND (id = :position OR pinned <> 0 OR COALESCE(expires_at > :now, created_at > :oldest))

-- name: list_forks
SELECT s.target, n.name
FROM namespaces n JOIN snapshots s ON s.namespace_id = n.id AND s.number = 1
WHERE n.tenant_id = :tenant_id AND n.fork_of = :namespace_id AND n.deleted_at IS NULL
    AND s.kind = 'fork' AND s.target IS NOT NULL
ORDER BY n.name LIMIT :most

-- name: set_snapshot
UPDATE snapshots
SET label = :label, pinned = :pinned, expires_at = :expires_at, deleted_at = :deleted_at,
    checksum = :checksum
WHERE id = :id AND namespace_id = :namespace_id

-- name: purge_snapshot
DELETE FROM snapshots WHERE id = :id AND namespace_id = :namespace_id

-- name: iter_snapshots
SELECT {s.snapshot}
FROM snapshots s JOIN namespaces n ON n.id = s.namespace_id
WHERE n.tenant_id = :tenant_id ORDER BY s.namespace_id, s.number

-- name: begin_pack
INSERT INTO packs (tenant_id, name, state, is_inline, writer, size_bytes, plain_bytes, created_at)
VALUES (:tenant_id, :name, 'writing', 0, :writer, :size_bytes, :plain_bytes, :now)
RETURNING id

-- name: add_inline_pack
INSERT INTO packs (tenant_id, name, state, is_inline, size_bytes, plain_bytes, created_at)
VALUES (:tenant_id, :name, 'stored', 1, :size_bytes, :plain_bytes, :now)

-- name: add_pack_data
INSERT INTO pack_data (pack_id, data) VALUES ((SELECT id FROM packs WHERE name = :name), :data)

-- name: get_pack_id
SELECT id FROM packs WHERE name = :name

-- name: finish_pack
UPDATE packs SET state = 'stored', writer = NULL WHERE id = :pack_id AND state = 'writing'

-- name: withdraw_pack
DELETE FROM packs WHERE id = :pack_id AND state = 'writing' RETURNING tenant_id, size_bytes

-- name: get_pack_data
SELECT data FROM pack_data WHERE pack_id = :pack_id

-- name: delete_pack_data
DELETE FROM pack_data WHERE pack_id = :pack_id

-- name: delete_pack
DELETE FROM packs WHERE id = :pack_id

-- name: iter_packs
SELECT id, name, state, is_inline, writer, size_bytes, plain_bytes
FROM packs WHERE tenant_id = :tenant_id ORDER BY id

-- name: unfinished_packs
SELECT id, name, state, is_inline, writer, size_bytes, plain_bytes
FROM packs WHERE tenant_id = :tenant_id AND state <> 'stored' ORDER BY id

-- name: small_packs
SELECT id, name, state, is_inline, writer, size_bytes, plain_bytes
FROM packs WHERE tenant_id = :tenant_id AND size_bytes < :below AND state = 'stored'
ORDER BY size_bytes, id LIMIT :most

-- name: outside_packs
SELECT name, size_bytes FROM packs
WHERE tenant_id = :tenant_id AND is_inline = 0 AND state = 'stored'

-- name: set_plain_bytes
UPDATE packs SET plain_bytes = :plain_bytes WHERE id = :pack_id

-- By where bytes are: what the row says of that may be damaged.
-- name: pack_names
SELECT name FROM packs p WHERE NOT EXISTS (SELECT 1 FROM pack_data d WHERE d.pack_id = p.id)

-- name: has_lost_packs
SELECT EXISTS (
    SELECT 1 FROM objects o WHERE NOT EXISTS (SELECT 1 FROM packs p WHERE p.id = o.pack_id))

-- name: pending_bytes
SELECT COALESCE(SUM(length(p.key) + COALESCE(length(p.entry), 0)), 0)
FROM pending p JOIN namespaces n ON n.id = p.namespace_id WHERE n.tenant_id = :tenant_id

-- name: stored_bytes
SELECT COALESCE(SUM(bytes), 0) FROM pack_sums WHERE tenant_id = :tenant_id

-- Packs are asked for one by one: where they are joined, PostgreSQL reads all of them, as long as it
-- knows nothing of those that came last.
-- name: locate_object
SELECT id, pack_id, name, block_offset, block_size, place, size,
       (SELECT substr(d.data, CAST(block_offset + 1 AS INTEGER), CAST(block_size AS INTEGER))
        FROM pack_data d WHERE d.pack_id = needed.pack_id)
FROM (
    SELECT o.id, o.pack_id, (SELECT p.name FROM packs p WHERE p.id = o.pack_id) AS name,
           o.block_offset, o.block_size, o.place, o.size
    FROM objects o WHERE o.tenant_id = :tenant_id AND o.id = :key
) AS needed
WHERE name IS NOT NULL

-- Of objects that lie in one block inside the catalog, the first has it: each with all of it would
-- be megabytes, for a value of some hundred kilobytes.
-- name: locate_objects
SELECT id, pack_id, name, block_offset, block_size, place, size,
       CASE WHEN number = 1 THEN
           (SELECT substr(d.data, CAST(block_offset + 1 AS INTEGER), CAST(block_size AS INTEGER))
            FROM pack_data d WHERE d.pack_id = needed.pack_id)
       END
FROM (
    SELECT o.id, o.pack_id, (SELECT p.name FROM packs p WHERE p.id = o.pack_id) AS name,
           o.block_offset, o.block_size, o.place, o.size,
           ROW_NUMBER() OVER (PARTITION BY o.pack_id, o.block_offset, o.block_size) AS number
    FROM objects o
    WHERE o.tenant_id = :tenant_id AND o.id = :key
) AS needed
WHERE name IS NOT NULL

-- name: find_object
SELECT id, touched FROM objects WHERE tenant_id = :tenant_id AND id = :key

-- name: add_object
INSERT INTO objects (tenant_id, id, pack_id, block_offset, block_size, place, size, touched)
VALUES (:tenant_id, :id, :pack, :block_offset, :block_size, :place, :size, :touched)
ON CONFLICT (tenant_id, id) DO UPDATE SET touched = excluded.touched
WHERE objects.touched < excluded.touched

-- In a pack whose id is not known yet.
-- name: add_inline_object
INSERT INTO objects (tenant_id, id, pack_id, block_offset, block_size, place, size, touched)
VALUES (:tenant_id, :id, (SELECT id FROM packs WHERE name = :pack),
        :block_offset, :block_size, :place, :size, :touched)
ON CONFLICT (tenant_id, id) DO UPDATE SET touched = excluded.touched
WHERE objects.touched < excluded.touched

-- name: touch_object
UPDATE objects SET touched = :epoch WHERE tenant_id = :tenant_id AND id = :id

-- name: delete_object
DELETE FROM objects WHERE tenant_id = :tenant_id AND id = :id AND touched < :epoch

-- name: move_object
UPDATE objects
SET pack_id = :pack_id, block_offset = :block_offset, block_size = :block_size, place = :place
WHERE tenant_id = :tenant_id AND id = :id AND pack_id = :from_pack_id

-- name: relocate_object
INSERT INTO objects (tenant_id, id, pack_id, block_offset, block_size, place, size, touched)
VALUES (:tenant_id, :id, :pack_id, :block_offset, :block_size, :place, :size, :touched)
ON CONFLICT (tenant_id, id) DO UPDATE
SET pack_id = excluded.pack_id, block_offset = excluded.block_offset,
    block_size = excluded.block_size, place = excluded.place, size = excluded.size,
    touched = CASE WHEN objects.touched < excluded.touched
                   THEN excluded.touched ELSE objects.touched END

-- name: page_objects
SELECT id, pack_id, size, touched FROM objects
WHERE tenant_id = :tenant_id AND id > :after ORDER BY id LIMIT :most

-- name: count_pack
INSERT INTO pack_sums (tenant_id, part, bytes, inline_packs, inline_bytes)
VALUES (:tenant_id, {part}, :bytes, :inline_packs, :inline_bytes)
ON CONFLICT (tenant_id, part) DO UPDATE
SET bytes = pack_sums.bytes + excluded.bytes,
    inline_packs = pack_sums.inline_packs + excluded.inline_packs,
    inline_bytes = pack_sums.inline_bytes + excluded.inline_bytes

-- name: count_pack_out
INSERT INTO pack_sums (tenant_id, part, bytes, inline_packs, inline_bytes)
SELECT tenant_id, {part}, -size_bytes,
       CASE WHEN is_inline <> 0 THEN -1 ELSE 0 END,
       CASE WHEN is_inline <> 0 THEN -size_bytes ELSE 0 END
FROM packs WHERE id = :pack_id
ON CONFLICT (tenant_id, part) DO UPDATE
SET bytes = pack_sums.bytes + excluded.bytes,
    inline_packs = pack_sums.inline_packs + excluded.inline_packs,
    inline_bytes = pack_sums.inline_bytes + excluded.inline_bytes

-- name: has_wrong_pack_sums
SELECT CASE WHEN EXISTS (
    SELECT 1 FROM (
        SELECT COALESCE(SUM(p.size_bytes), 0) AS bytes,
               COALESCE(SUM(CASE WHEN p.is_inline <> 0 THEN 1 ELSE 0 END), 0) AS packs,
               COALESCE(SUM(CASE WHEN p.is_inline <> 0 THEN p.size_bytes ELSE 0 END), 0) AS inside
        FROM packs p WHERE p.tenant_id = :tenant_id
    ) AS named, (
        SELECT COALESCE(SUM(s.bytes), 0) AS bytes, COALESCE(SUM(s.inline_packs), 0) AS packs,
               COALESCE(SUM(s.inline_bytes), 0) AS inside
        FROM pack_sums s WHERE s.tenant_id = :tenant_id
    ) AS needed
    WHERE named.bytes <> needed.bytes OR named.packs <> needed.packs
       OR named.inside <> needed.inside
) THEN 1 ELSE 0 END

-- Both sums of one moment: what another writes meanwhile is in both, or in neither.
-- name: mend_pack_sums
INSERT INTO pack_sums (tenant_id, part, bytes, inline_packs, inline_bytes)
SELECT CAST(:tenant_id AS BIGINT), {part}, named.bytes - needed.bytes,
       named.packs - needed.packs, named.inside - needed.inside
FROM (
    SELECT COALESCE(SUM(p.size_bytes), 0) AS bytes,
           COALESCE(SUM(CASE WHEN p.is_inline <> 0 THEN 1 ELSE 0 END), 0) AS packs,
           COALESCE(SUM(CASE WHEN p.is_inline <> 0 THEN p.size_bytes ELSE 0 END), 0) AS inside
    FROM packs p WHERE p.tenant_id = :tenant_id
) AS named, (
    SELECT COALESCE(SUM(s.bytes), 0) AS bytes, COALESCE(SUM(s.inline_packs), 0) AS packs,
           COALESCE(SUM(s.inline_bytes), 0) AS inside
    FROM pack_sums s WHERE s.tenant_id = :tenant_id
) AS needed
WHERE named.bytes <> needed.bytes OR named.packs <> needed.packs OR named.inside <> needed.inside
ON CONFLICT (tenant_id, part) DO UPDATE
SET bytes = pack_sums.bytes + excluded.bytes,
    inline_packs = pack_sums.inline_packs + excluded.inline_packs,
    inline_bytes = pack_sums.inline_bytes + excluded.inline_bytes
