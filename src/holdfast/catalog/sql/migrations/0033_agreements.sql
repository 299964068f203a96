-- What an attached directory held when its namespace's timeline last moved with it: written with the
-- snapshot, so that nobody takes what was captured from it for something that callers wrote.

CREATE TABLE agreements (
    namespace_id INTEGER NOT NULL,
    -- Which directory, and which time that it is attached.
    directory TEXT NOT NULL,
    attached INTEGER NOT NULL,
    -- The snapshot that it was committed with, and the files map that holds the directory.
    snapshot TEXT NOT NULL,
    files BYTES NOT NULL,
    PRIMARY KEY (namespace_id, directory)
) BY KEY;
