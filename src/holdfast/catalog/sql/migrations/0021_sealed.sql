-- Versions and turns are parts of rows of the journal, hashed apart: who reads one knows that it is
-- what was written. `sealing.py` carries those over that were there.

ALTER TABLE journal ADD COLUMN version_hash BYTES;

ALTER TABLE journal ADD COLUMN turn_hash BYTES;

ALTER TABLE sessions ADD COLUMN seal BYTES;

ALTER TABLE branches ADD COLUMN seal BYTES;

-- The row of the namespace's chain that has its hash.
ALTER TABLE versions ADD COLUMN journal INTEGER;

ALTER TABLE versions ADD COLUMN salt BYTES;

ALTER TABLE versions ADD COLUMN seal BYTES;

-- The chain that has its hash, and the row there.
ALTER TABLE turns ADD COLUMN stream INTEGER;

ALTER TABLE turns ADD COLUMN journal INTEGER;

ALTER TABLE turns ADD COLUMN salt BYTES;

ALTER TABLE turns ADD COLUMN seal BYTES;
