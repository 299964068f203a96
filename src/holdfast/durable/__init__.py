"""A store in memory that lasts: every write is in a log first, and the log ends in a vault.

`Store.open` is the door. `store` is the store itself, `log` the file that it writes to, `plane`
its way into the catalog and back. Why it is done this way is in
`docs/adr/0012-a-log-before-the-catalog.md`.
"""

from holdfast.durable.store import DurableStore, open_store

__all__ = ["DurableStore", "open_store"]
