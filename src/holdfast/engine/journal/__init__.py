"""The journal: what was done, hash-chained, and told to whoever listens."""
