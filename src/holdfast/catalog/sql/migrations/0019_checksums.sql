-- Format 19: rows that nothing else vouches for have a checksum. NULL for those that are older.

ALTER TABLE pending ADD COLUMN checksum INTEGER;

ALTER TABLE tenants ADD COLUMN checksum INTEGER;

ALTER TABLE namespaces ADD COLUMN checksum INTEGER;

ALTER TABLE snapshots ADD COLUMN checksum INTEGER;

ALTER TABLE entities ADD COLUMN checksum INTEGER;

ALTER TABLE keys ADD COLUMN checksum INTEGER;

ALTER TABLE webhooks ADD COLUMN checksum INTEGER;

ALTER TABLE deliveries ADD COLUMN checksum INTEGER;

ALTER TABLE tasks ADD COLUMN checksum INTEGER;

ALTER TABLE schedules ADD COLUMN checksum INTEGER;
