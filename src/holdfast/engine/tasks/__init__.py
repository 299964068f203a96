"""Pieces of an agent's work: what asks for snapshots by itself."""
