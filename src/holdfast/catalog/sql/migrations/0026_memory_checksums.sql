-- Format 26: memories have a checksum, too.

ALTER TABLE memories ADD COLUMN checksum INTEGER;
