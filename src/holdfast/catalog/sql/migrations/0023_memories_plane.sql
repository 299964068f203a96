-- Memories are a plane of the snapshot. Rows still hold what they are now, and are what is searched;
-- a fork has those of its origin under the same ids.

-- Namespaces whose memories have no rows yet: forks, until somebody asks for a memory of theirs.
CREATE TABLE lagging_memories (
    namespace_id INTEGER PRIMARY KEY REFERENCES namespaces (id)
);
