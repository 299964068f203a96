"""Where the log goes, and what of it: a line for each thing, on stderr.

Requests are JSON in a line of their own (`observing`), for programs to read; the rest is for
people. Nothing logs a key, a body or a query.
"""

import logging
from typing import Final, TextIO

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


def log_to(stream: TextIO) -> None:
    """Lets the log of this process be written to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("holdfast").setLevel(logging.INFO)
