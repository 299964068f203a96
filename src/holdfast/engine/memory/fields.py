"""What a memory's fields may hold, and the words that it is found by."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.engine.memory.words import words_of
from holdfast.errors import InvalidValue, TooLarge
from holdfast.jsontext import is_whole, object_text
from holdfast.model.memories import MemoryRow

MAX_CONTENT_CHARS: Final = 10_000
MAX_NAME_CHARS: Final = 256
MAX_TAGS: Final = 64
MAX_METADATA_BYTES: Final = 64 << 10
"""Read with every memory that is found: it is a note on it, and no place for documents."""


def check_content(content: str) -> None:
    """Raises if something cannot be remembered: it says nothing, or too much."""
    if len(content) > MAX_CONTENT_CHARS:
        message = f"a memory has {MAX_CONTENT_CHARS} characters at the most, not {len(content)}"
        raise TooLarge(message)
    if not content.strip():
        raise InvalidValue("a memory says something: this is empty")
    _check_characters("a memory", content)


def check_name_of(kind: str, name: str | None) -> str | None:
    """Returns the name or id of something that a memory belongs to."""
    if name is None:
        return None
    if not 0 < len(name) <= MAX_NAME_CHARS:
        message = f"{kind} has 1 to {MAX_NAME_CHARS} characters, not {len(name)}"
        raise InvalidValue(message)
    _check_characters(kind, name)
    return name


def check_tags(tags: Iterable[str]) -> str:
    """Returns tags as they are stored: each once, in the order in which they were given."""
    if isinstance(tags, str):
        raise InvalidValue("tags are a list of text, not one text")
    distinct = list(dict.fromkeys(tags))
    if len(distinct) > MAX_TAGS:
        message = f"a memory has {MAX_TAGS} tags at the most, not {len(distinct)}"
        raise InvalidValue(message)
    for tag in distinct:
        check_name_of("a tag", tag)
    return msgspec.json.encode(distinct).decode()


def check_metadata(metadata: dict[str, Any] | None) -> str:
    """Returns metadata as JSON that comes back equal."""
    return object_text("metadata", metadata, max_bytes=MAX_METADATA_BYTES)


def terms_of(memory: MemoryRow) -> str:
    """Returns the words that a memory is found by: those of its content, its type and its tags."""
    tags: list[str] = msgspec.json.decode(memory.tags)
    texts = (memory.content, memory.type, *tags)
    return " ".join(word for text in texts for word in words_of(text))


def _check_characters(kind: str, text: str) -> None:
    if "\0" in text or not is_whole(text):
        message = f"{kind} holds a NUL or half a character"
        raise InvalidValue(message)
