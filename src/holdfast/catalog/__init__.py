"""The catalog: rows that say what there is and what it is called.

Heads, pending changes, snapshots, packs and the object index live here, in SQLite or in
PostgreSQL, behind one port. Content does not: a row names objects, it never explains them.
"""
