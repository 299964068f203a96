"""The description of every route, from the same declarations that answer: an OpenAPI document."""

import inspect
from collections.abc import Sequence
from http import HTTPStatus
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from holdfast.operations.shapes import shape_of
from holdfast.server.callers import IN_QUERY
from holdfast.server.parameters import Parameter, Place
from holdfast.server.responses import JSON, Response, Stream
from holdfast.server.routing import Route, Who
from holdfast.server.table import Entry, Table
from holdfast.wire import ProblemAnswer

Json = dict[str, Any]

_REF: Final = "#/components/schemas/{name}"
_REPEATABLE: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_NAMESPACE: Final = {
    "name": "X-Namespace",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    "description": "The namespace that is meant; a key that is for one need not name it.",
}
_IN: Final = {
    **_NAMESPACE,
    "name": IN_QUERY,
    "in": "query",
    "description": "The same as X-Namespace, for a link or an image, which can send no header.",
}
_IDEMPOTENCY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 255},
    "description": "A name for this request: repeated under it, it does nothing twice.",
}

_PROBLEMS: Final = {
    400: "The request is wrong.",
    401: "There is no key, or it opens nothing.",
    403: "The key is not for this.",
    404: "There is no such thing.",
    405: "There is no such method here.",
    409: "The world moved, or disagrees.",
    413: "It is too large, or there is no room for it.",
    415: "The body is packed.",
    416: "The file has no such part.",
    422: "A part of the request does not fit.",
    429: "The key made too many requests.",
    500: "The server failed.",
    501: "This server does not do that.",
    503: "Something that the server stands on is not there, or no room for an answer.",
    507: "The disk is full.",
}

_BYTES: Final = {"type": "string", "format": "binary"}
_FRAME: Final = {
    "openapi": "3.1.0",
    "info": {
        "title": "Holdfast",
        "version": "1",
        "description": "An undo button for AI agents: files, store, conversations and memories.",
    },
    "servers": [{"url": "/"}],
    "security": [{"bearer": list[str]()}, {"key": list[str]()}],
}
_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "name": "X-API-Key", "in": "header"},
}


def describe(table: Table) -> bytes:
    """Returns the OpenAPI document of all routes, as JSON."""
    entries = [entry for entry in table.entries if entry.route.is_described]
    schemas = _Schemas(entries)
    paths = dict[str, Json]()
    for entry in sorted(entries, key=lambda each: each.template):
        operation = _operation(entry, schemas)
        paths.setdefault(entry.template, {})[entry.route.method.lower()] = operation
    components = {"schemas": schemas.named, "securitySchemes": _SCHEMES}
    return msgspec.json.encode({**_FRAME, "paths": paths, "components": components})


class _Schemas:
    """What all types of all routes look like: those with a name by it, and the rest in place."""

    def __init__(self, entries: list[Entry]) -> None:
        kinds: list[Any] = [ProblemAnswer]
        for entry in entries:
            route = entry.route
            kinds += [each.kind for each in route.parameters]
            kinds += [*_asked(route), *_answered(route)]
        found, self.named = msgspec.json.schema_components(kinds, ref_template=_REF)
        self._found = list(zip(kinds, found, strict=True))

    def of(self, kind: Any) -> Json:  # noqa: ANN401 - any type
        """Returns what a type looks like."""
        return next(schema for each, schema in self._found if each == kind)

    def of_any(self, kinds: Sequence[Any]) -> Json:
        """Returns what any of some types looks like."""
        found = [self.of(kind) for kind in kinds]
        return found[0] if len(found) == 1 else {"anyOf": found}


def _operation(entry: Entry, schemas: _Schemas) -> Json:
    route = entry.route
    summary, _, more = inspect.cleandoc(route.function.__doc__ or "").partition("\n")
    described: Json = {"tags": [route.topic], "summary": summary}
    if more.strip():
        described["description"] = more.strip()
    described["operationId"] = _operation_id(entry)
    if parameters := [*_parameters(entry, schemas)]:
        described["parameters"] = parameters
    if (body := _body(route, schemas)) is not None:
        described["requestBody"] = body
    described["responses"] = _responses(route, schemas)
    if route.who is Who.ANYBODY:
        described["security"] = []
    return described


def _operation_id(entry: Entry) -> str:
    """Returns the id of an operation; each of several paths of a route has its own."""
    if len(entry.route.paths) == 1:
        return entry.route.name
    words = [part.strip("{}") for part in entry.template.split("/") if part]
    return "_".join([entry.route.name, *words])


def _parameters(entry: Entry, schemas: _Schemas) -> list[Json]:
    route = entry.route
    named = [part.strip("{}") for part in entry.template.split("/") if part.startswith("{")]
    known = {each.wire: _parameter(each, schemas) for each in route.parameters}
    text: Json = {"in": Place.PATH.value, "required": True, "schema": {"type": "string"}}
    first = [known.pop(name, {"name": name, **text}) for name in named]
    more = list[Json]()
    if route.parameters.agent is not None:
        more.append(_NAMESPACE)
        if entry.is_ours and route.method == "GET":
            more.append(_IN)
    if route.method in _REPEATABLE:
        more.append(_IDEMPOTENCY)
    return [*first, *known.values(), *more]


def _parameter(parameter: Parameter, schemas: _Schemas) -> Json:
    schema = {**schemas.of(parameter.kind)}
    description = schema.pop("description", None)
    if not parameter.is_required and parameter.default is not None:
        schema["default"] = parameter.default
    told: Json = {
        "name": parameter.wire,
        "in": parameter.place.value,
        "required": parameter.is_required,
        "schema": schema,
    }
    return told if description is None else {**told, "description": description}


def _body(route: Route, schemas: _Schemas) -> Json | None:
    if route.body is not None:
        content = {route.body: {"schema": _BYTES}}
        return {"required": True, "content": content}
    if not (kinds := _asked(route)):
        return None
    content = {JSON: {"schema": schemas.of_any(kinds)}}
    return {"required": route.parameters.needs_data, "content": content}


def _responses(route: Route, schemas: _Schemas) -> dict[str, Json]:
    well: Json = {"description": HTTPStatus(route.status).description}
    if kinds := _answered(route):
        well["content"] = {route.media_type: {"schema": schemas.of_any(kinds)}}
    elif route.media_type != JSON:
        well["content"] = {route.media_type: {"schema": _BYTES}}
    if route.headers:
        well["headers"] = {
            name: {"description": said, "schema": {"type": "string"}}
            for name, said in route.headers.items()
        }
    problem = {"content": {JSON: {"schema": schemas.of(ProblemAnswer)}}}
    return {str(route.status): well} | {
        str(status): {"description": said, **problem}
        for status, said in _PROBLEMS.items()
        if status != route.status
    }


def _asked(route: Route) -> list[Any]:
    """Returns what a body holds, if that is JSON."""
    kind = route.parameters.data
    return [] if kind is None else [kind]


def _answered(route: Route) -> list[Any]:
    """Returns what a route answers, if that is JSON; a union of structs is none to msgspec."""
    kind = route.answer or get_type_hints(route.function)["return"]
    kinds = get_args(kind) if get_origin(kind) is UnionType else [kind]
    if route.answer is not None:
        return [shape_of(each).wire for each in kinds]
    return [each for each in kinds if each not in (Response, Stream, NoneType)]
