"""Commands that somebody else chose, where they can do no harm.

A command runs in bubblewrap: with namespaces of its own, a system that it can read, one folder that
it can write to, a filter of what it asks the kernel for, and an end to its time, memory, processes,
output and disk. Where that cannot be had, nothing is run. Knows nothing of vaults.
"""
