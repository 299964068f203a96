-- Which planes a copy has beside files; none where nothing is said.

ALTER TABLE git_backups ADD COLUMN planes TEXT;
