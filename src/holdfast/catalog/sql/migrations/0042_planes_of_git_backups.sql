-- Which planes a copy has beside files, and had; none where nothing is said. And how often it was
-- begun anew, since something was erased that it held.

ALTER TABLE git_backups ADD COLUMN planes TEXT;
ALTER TABLE git_backups ADD COLUMN had_planes TEXT;
ALTER TABLE git_backups ADD COLUMN era INTEGER;
