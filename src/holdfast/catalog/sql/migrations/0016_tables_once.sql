-- From the last format whose tables were made by fifteen migrations: they are the same tables.

DELETE FROM migrations;
