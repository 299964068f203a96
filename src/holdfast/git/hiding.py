"""What a remote was shown in confidence, cut out of whatever it or git says.

A remote may repeat what it was given, as it came or in another form, and what it says is kept and
shown to more people than those who know the password.
"""

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from holdfast.escaping import spaced

MARK: Final = "[password]"


class Hiding:
    """Cuts one login out of texts: its password, both together, and either in other forms."""

    def __init__(self, login: str | None = None) -> None:
        """`login` is a user, a colon, and a password; with none, nothing is cut out."""
        forms = set[str]() if login is None else {*_forms(login)}
        ordered = sorted(filter(None, forms), key=len, reverse=True)  # None is a part of a later.
        # In any case of letters: a percent sign is followed by either.
        self._expression = re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE)
        self.longest: Final = len(ordered[0]) if ordered else 0
        """Characters that a form has at the most."""

    def __repr__(self) -> str:
        return "Hiding(…)"

    def clean(self, text: str) -> str:
        """Returns a text without it."""
        return self._expression.sub(MARK, text) if self.longest else text


def _forms(login: str) -> Iterator[str]:
    password = login.partition(":")[2]
    for text in (password, login):
        yield text
        yield " ".join(spaced(text).split())  # As what is said is kept.
        yield from (quote(text), quote(text, safe=""), quote_plus(text))
        yield html.escape(text)
        yield json.dumps(text)[1:-1]
        data = text.encode()
        for coded in (base64.b64encode(data), base64.urlsafe_b64encode(data)):
            bare = coded.decode().rstrip("=")
            yield bare
            yield quote(bare, safe="")
        yield data.hex()
