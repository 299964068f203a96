"""The journal to read: traces, the proof that none was touched, and what they add up to."""
