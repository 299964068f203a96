-- What the traces count against a quota that somebody has added: those of a namespace, and with the
-- tenant those of its own chain and of namespaces that are gone. Those from before count for nothing.

ALTER TABLE namespaces ADD COLUMN added_bytes INTEGER NOT NULL DEFAULT 0;

ALTER TABLE tenants ADD COLUMN added_bytes INTEGER NOT NULL DEFAULT 0;
