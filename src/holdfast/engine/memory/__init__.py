"""What is remembered: the plane of memories, the words that one is found by, and recall."""
