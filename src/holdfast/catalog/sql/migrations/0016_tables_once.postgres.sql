-- Eight columns compared their text as the database was set up to, and not by its bytes.

ALTER TABLE namespaces ALTER COLUMN writer TYPE TEXT COLLATE "C";
ALTER TABLE retired ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE sessions
    ALTER COLUMN metadata TYPE TEXT COLLATE "C",
    ALTER COLUMN forked_from TYPE TEXT COLLATE "C";
ALTER TABLE versions
    ALTER COLUMN kind TYPE TEXT COLLATE "C",
    ALTER COLUMN reasoning TYPE TEXT COLLATE "C",
    ALTER COLUMN actor TYPE TEXT COLLATE "C",
    ALTER COLUMN trace_id TYPE TEXT COLLATE "C";
