-- Who has changed a namespace last, and since when nobody else has; where tasks began by that count.

ALTER TABLE namespaces ADD COLUMN writer TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN began INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN is_named INTEGER NOT NULL DEFAULT 0;
