"""What the clients of others need of this server beside its own routes, a package for each.

Their paths, aliases, shapes and quirks, as tables and small functions over our operations: our own
routes know nothing of them.
"""
