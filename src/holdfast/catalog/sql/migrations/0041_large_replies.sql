-- Kept answers that are large are counted before another is kept.

CREATE INDEX replies_large ON replies (key_id, length(body)) WHERE length(body) > 4096;
