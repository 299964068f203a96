-- A pending row may hold a file of up to 16 KiB, which whoever folds it cuts. No table is another:
-- but a version that does not know of it would put the file into a map as it is.

UPDATE pending SET entry = entry WHERE plane = 'files' AND key IS NULL;
