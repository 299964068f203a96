"""How the text of a setting is read, wherever it stands: in the environment, a file or an option.

One reader for each kind, for all who read settings: what one of them refuses, none takes for
something else. Each names the setting, and shows no more of a text than fits a line.
"""


def read_number(name: str, said: str, *, least: int = 1) -> int:
    """Returns a whole number, such as 64 bits hold; raises `ValueError` for anything else."""
    is_number = said.isascii() and said.isdecimal() and len(said) <= 18  # noqa: PLR2004 - see above
    if not is_number or int(said) < least:
        message = f"{name} is a whole number of {least} or more, not {said[:40]!r}"
        raise ValueError(message)
    return int(said)


def read_switch(name: str, said: str) -> bool:
    """Returns what is on or off; raises `ValueError` for any other word."""
    # Whatever somebody means by `false`, `off` or `yes`, it is not that nothing happens.
    if said not in ("0", "1"):
        message = f"{name} is 0 or 1, not {said[:40]!r}"
        raise ValueError(message)
    return said == "1"
