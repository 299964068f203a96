"""The server: one HTTP API over an engine, for many tenants and many agents at once.

A request is admitted (`callers`), validated into structs of `holdfast.wire`, and handed to the
engine by a route; what the engine raises becomes an answer in `problems`. Routes decide nothing.
"""
