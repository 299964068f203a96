-- Objects that were sent ahead of the snapshot that will name them, by the namespace that they
-- were sent for. They outlive collection for a while, and go when a snapshot has named them.

CREATE TABLE received (
    namespace_id BIGINT NOT NULL,
    id BYTEA NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (namespace_id, id)
);

CREATE INDEX received_by_age ON received (namespace_id, received_at);
