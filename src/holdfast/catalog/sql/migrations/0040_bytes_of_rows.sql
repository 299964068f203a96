-- What the texts of snapshots, tasks and entities count against a quota. Moved by whoever adds such a
-- row; what is gone, and what was there before, is counted by the next collection.

ALTER TABLE namespaces ADD COLUMN row_bytes INTEGER NOT NULL DEFAULT 0;
