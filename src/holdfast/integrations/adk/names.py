"""What apps, users and sessions are called in keys and paths: any text, and no two alike.

Each name is quoted as in a URL, so that none of them has a slash, and several joined by slashes
have one meaning. Letters and signs beyond ASCII stay as they are: quoted, they would be three times
as long, and unreadable among the files.
"""

from urllib.parse import quote

from google.adk.errors.input_validation_error import InputValidationError


def joined(*names: str) -> str:
    """Returns names as one, from which nothing leads upwards."""
    return "/".join(map(_quoted, names))


def _quoted(name: str) -> str:
    try:
        quoted = "".join(each if _is_plain(each) else quote(each, safe="") for each in name)
    except UnicodeEncodeError as error:
        raise InputValidationError("a name holds half a character") from error
    return quoted.replace(".", "%2E") if not name.strip(".") else quoted


def _is_plain(character: str) -> bool:
    return not character.isascii() and character.isprintable()
