"""What a server does by itself: delivers webhooks, keeps schedules, ends sessions, collects.

Each is a loop in a thread of its own that asks the engine what is due. Any number of servers and
workers run the same loops over one vault: whatever is due is claimed in the catalog first.
"""
