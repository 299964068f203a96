"""The engine's side of a real directory: what is in it, and how it follows its namespace's head."""
