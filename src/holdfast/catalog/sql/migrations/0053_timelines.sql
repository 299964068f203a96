-- On which timeline of the database the last events got their numbers: another one begins where a
-- replica is promoted. NULL where nobody can say.

ALTER TABLE event_ends ADD COLUMN timeline INTEGER;
