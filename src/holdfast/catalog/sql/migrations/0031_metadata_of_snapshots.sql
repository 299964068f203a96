-- What people keep with a snapshot in words of their own: a JSON object, NULL if there is nothing.

ALTER TABLE snapshots ADD COLUMN metadata TEXT;
