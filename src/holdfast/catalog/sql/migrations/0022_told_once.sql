-- Why a version was made, and by whom, stands in its row of the journal.

ALTER TABLE versions DROP COLUMN reasoning;

ALTER TABLE versions DROP COLUMN actor;
