"""A namespace and its planes in a transaction: handles, views, units of work, who wrote."""
