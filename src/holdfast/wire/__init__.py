"""What stands on the wire: one struct for each request and each answer.

The server decodes and encodes them; a client can do the same from the other end. Names of fields
are those of the contracts that we keep; a field that may be missing may also be null, and means
the same then. Nothing here has behaviour.
"""
