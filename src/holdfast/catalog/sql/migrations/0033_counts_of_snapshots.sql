-- How much a snapshot changed, counted when it was taken: a JSON object, NULL if it was not.

ALTER TABLE snapshots ADD COLUMN counts TEXT;

-- A timeline names what was forked from it.
CREATE INDEX namespaces_by_origin ON namespaces (fork_of) WHERE fork_of IS NOT NULL;
