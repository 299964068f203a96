"""Writes the reference of the HTTP API from the description that a server gives of itself.

The document is the one at `/openapi.json`, asked of an application that serves nobody: no
socket, a vault in a directory that is gone afterwards.
"""

import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import httpx2

from holdfast.server.app import make_app, open_vault
from holdfast.server.config import configure
from holdfast.server.textprocesses import TextProcesses

PATH: Final = "reference/http-api.md"
SHAPES: Final = "reference/http-shapes.md"
DOCUMENT: Final = "reference/openapi.json"

Json = dict[str, Any]

_FAILED: Final = 400
"""The status from which on an answer is an error: the page says once that any route has them."""


def describe() -> Json:
    """Returns the server's own description of its routes."""
    with tempfile.TemporaryDirectory() as folder:
        config = configure({"HOLDFAST_DATA": folder})
        vault = open_vault(config)
        try:
            return json.loads(asyncio.run(_ask(make_app(config, vault, TextProcesses()))))
        finally:
            vault.close()


async def _ask(app: Any) -> bytes:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get("/openapi.json")).raise_for_status().content


def written(document: Json) -> Iterator[tuple[str, str]]:
    """Yields two pages, of the routes and of the shapes that they speak in, and the document."""
    yield PATH, "".join(_page(document))
    yield SHAPES, "".join(_shapes(document["components"]["schemas"]))
    yield DOCUMENT, json.dumps(document, indent=1)


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Yields every route: its method, its path, and what the document says of it."""
    for path, item in sorted(document["paths"].items()):
        for method, operation in item.items():
            yield method.upper(), path, operation


def _page(document: Json) -> Iterator[str]:
    yield (
        "# Every route\n\n"
        "Made from the description that a server gives of itself at `/openapi.json` "
        "([that of this version](openapi.json)).\n"
        "The pages written by hand say what the routes are for: "
        "[files and snapshots](http.md), [sessions](http-sessions.md), "
        "[timeline and operators](http-own.md), [events](events.md).\n\n"
        "Any of them can answer with [an error](serving.md#errors), whose body is a "
        f"{_link('ProblemAnswer')}.\n\n"
    )
    by_tag: dict[str, list[tuple[str, str, Json]]] = defaultdict(list)
    for method, path, operation in operations(document):
        by_tag[operation.get("tags", ["other"])[0]].append((method, path, operation))
    for tag, found in sorted(by_tag.items()):
        yield f"## {tag.capitalize()}\n\n"
        for method, path, operation in found:
            yield from _operation(method, path, operation)


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f"### `{method} {path}`\n\n"
    for text in dict.fromkeys((operation.get("summary"), operation.get("description"))):
        if text:
            yield f"{text}\n\n"
    if operation.get("security") == []:
        yield "It needs no key.\n\n"
    if parameters := operation.get("parameters"):
        yield "| Parameter | Where | Type | |\n|---|---|---|---|\n"
        for each in parameters:
            yield (
                f"| `{each['name']}` | {each['in']} | {_typed(each.get('schema', {}))} | "
                f"{_remark(each)} |\n"
            )
        yield "\n"
    if body := operation.get("requestBody"):
        may = "" if body.get("required") else ", which may be left out"
        yield f"Takes {_content(body['content'])}{may}.\n\n"
    for status, answer in operation["responses"].items():
        if int(status) < _FAILED:
            content = answer.get("content")
            yield f"Answers {status}{' with ' + _content(content) if content else ''}.\n\n"


def _shapes(schemas: Json) -> Iterator[str]:
    yield (
        "# Shapes\n\n"
        "What the bodies of requests and answers hold, by the names that "
        "[the routes](http-api.md) call them.\n\n"
    )
    for name, schema in sorted(schemas.items()):
        yield f"## `{name}`\n\n"
        if text := schema.get("description"):
            yield f"{text}\n\n"
        if "enum" in schema:
            yield f"One of {_choices(schema)}.\n\n"
        if properties := schema.get("properties"):
            required = schema.get("required", [])
            yield "| Field | Type | |\n|---|---|---|\n"
            for field, kind in properties.items():
                remark = _remark({**kind, "required": field in required})
                yield f"| `{field}` | {_typed(kind)} | {remark} |\n"
            yield "\n"


def _content(content: Json) -> str:
    parts = [
        f"{_typed(each.get('schema', {}))}{'' if 'json' in kind else f' (`{kind}`)'}"
        for kind, each in content.items()
    ]
    return " or ".join(parts)


def _typed(schema: Json) -> str:
    """Returns a type for people, with links to shapes."""
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_typed(each) for each in schema[several]))
    if "enum" in schema:
        return _choices(schema)
    kind: Any = schema.get("type", "any")
    if not isinstance(kind, str):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_typed(schema.get('items', {}))}"
    return f"{kind} ({schema['format']})" if "format" in schema else kind


def _choices(schema: Json) -> str:
    return ", ".join(f"`{choice}`" for choice in schema["enum"])


def _remark(schema: Json) -> str:
    """Returns what else is to be said of a parameter or field."""
    inner = schema.get("schema", schema)
    parts = ["required" if schema.get("required") is True else ""]
    if inner.get("default") is not None:
        parts.append(f"`{json.dumps(inner['default'])}` unless given")
    bounds = {"minimum": "from", "maximum": "to", "minLength": "from", "maxLength": "to"}
    for bound, word in bounds.items():
        if bound in inner:
            unit = " characters" if "Length" in bound else ""
            parts.append(f"{word} {int(inner[bound]):,}{unit}")
    parts.append(schema.get("description", "").replace("\n", " "))
    return ", ".join(part for part in parts if part).replace("|", "\\|")


def _link(name: str) -> str:
    return f"[`{name}`](http-shapes.md#{name.lower()})"
