-- Sessions that will end, by when: what a server asks for every second.

CREATE INDEX sessions_by_end ON sessions (expires_at)
WHERE expires_at IS NOT NULL AND is_present = 1 AND deleted_at IS NULL;
