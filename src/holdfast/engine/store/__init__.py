"""The store plane: values by namespace and key, and the snapshots that a store sees."""
