-- Format 25: events have a checksum, too.

ALTER TABLE events ADD COLUMN checksum INTEGER;

ALTER TABLE told ADD COLUMN checksum INTEGER;
