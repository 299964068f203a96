"""A copy of a namespace in a git repository of its owner's: every snapshot is a commit there."""
