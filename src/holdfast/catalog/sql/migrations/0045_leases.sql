-- Locks between the users of a database, and who of them writes packs. By the database's clock.

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL,
    -- Another one for each who has it, also when one has not noticed that it is over.
    token INTEGER NOT NULL
);

CREATE TABLE writers (
    name TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL
);
