"""The description of every route: what the framework derives, and what it cannot know.

It sees structs and parameters. That a body may be left out, that a route needs no key, which
headers matter, and that a body is bytes, it does not: that is added here, from the same
declarations.
"""

from functools import cache
from typing import Any, Final

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

_REPEATABLE: Final = frozenset({"post", "put", "patch", "delete"})

_NAMESPACE: Final = {
    "name": "X-Namespace",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    "description": "The namespace that is meant; a key that is for one need not name it.",
}
_IDEMPOTENCY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 255},
    "description": "A name for this request: repeated under it, it does nothing twice.",
}


@cache
def describe(app: Litestar) -> bytes:
    """Returns the OpenAPI document of an application, as JSON; it takes half a second, once."""
    document = app.openapi_schema.to_schema()
    for route in app.routes:
        if not isinstance(route, HTTPRoute):
            continue
        item = document["paths"].get(route.path_format)
        if item is None:
            continue
        for method, operation in item.items():
            if method.upper() in route.route_handler_map:
                handler, _ = route.route_handler_map[method.upper()]
                _complete(operation, method, handler)
    return msgspec.json.encode(document)


def _complete(operation: dict[str, Any], method: str, handler: HTTPRouteHandler) -> None:
    """Adds to one operation what its declaration says and the framework does not."""
    wanted = handler.parsed_fn_signature.parameters
    if handler.opt.get("public"):
        operation["security"] = []
    headers = list[dict[str, Any]]()
    if "agent" in wanted:
        headers.append(_NAMESPACE)
    if method in _REPEATABLE:
        headers.append(_IDEMPOTENCY)
    if headers:
        operation["parameters"] = [*operation.get("parameters", []), *headers]
    if "body" in handler.opt:
        content = {handler.opt["body"]: {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    elif "data" in wanted:
        operation["requestBody"]["required"] = not wanted["data"].has_default
    for answer in operation["responses"].values():
        for content in answer.get("content", {}).values():
            # One without anything in it may be of both kinds, and the framework says `oneOf`.
            if "oneOf" in content["schema"]:
                content["schema"]["anyOf"] = content["schema"].pop("oneOf")
