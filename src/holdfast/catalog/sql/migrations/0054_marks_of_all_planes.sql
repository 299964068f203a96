-- The sum of a head has the marks of sessions and memories, too: of those that are pending nobody has
-- kept it. Who does not know of this would fold what is whole as if something were missing.

UPDATE namespaces SET unfolded = NULL
WHERE EXISTS (
    SELECT 1 FROM pending p
    WHERE p.namespace_id = namespaces.id AND p.plane IN ('sessions', 'memories')
);
