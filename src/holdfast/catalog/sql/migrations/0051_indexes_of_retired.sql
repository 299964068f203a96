-- Retired packs are asked for by when their time is over, and by whose they are.

CREATE INDEX retired_by_age ON retired (retired_at, name);

CREATE INDEX retired_of_tenant ON retired (tenant_id, size_bytes);
