"""What every use case is given: the ports, the limits, the caches, and words for places.

Nothing here knows a namespace, and nothing here is a use case.
"""
