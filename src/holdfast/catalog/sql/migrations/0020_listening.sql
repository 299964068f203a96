-- Whether somebody listens to events, and since when: without the row, none is told.
CREATE TABLE listening (
    what TEXT PRIMARY KEY,
    since INTEGER NOT NULL
);

-- Where some were told, somebody did listen.
INSERT INTO listening (what, since)
SELECT 'events', 0
WHERE EXISTS (SELECT 1 FROM event_ends) OR EXISTS (SELECT 1 FROM told)
    OR EXISTS (SELECT 1 FROM webhooks);
