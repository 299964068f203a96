"""The client of a server: what the embedded door does, over HTTP, plain or asynchronous.

    client = holdfast.Client(api_key="…", namespace="alice")
    before = client.snapshot("before the risky step")
    ...
    client.restore(before)

Names, arguments, answers and errors are those of `holdfast.Namespace`, so that a program moves
from a laptop to a server by changing the line that opens it. Every call is described once, as
data (`calls`); one sender makes a request of it and waits (`sending`), another awaits it
(`awaiting`). Light: nothing here needs an engine, a database or a server's libraries, and the
HTTP library is loaded by the first client that is made.
"""
