"""Sessions: versioned state, turns, and their part in a namespace's snapshots."""
