-- Answers that a repeated request gets again.

CREATE TABLE replies (
    key_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    method TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    leased_until BIGINT NOT NULL,
    -- None while it is being worked on.
    status BIGINT,
    media_type TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key_id, name, method, path)
);

CREATE INDEX replies_by_age ON replies (created_at);
