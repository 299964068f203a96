"""Which route answers a request: found by its path and its method.

A path without names in it is found at once; any other part by part, and there a word comes before
a name. Empty parts count for nothing: `/v1//me/` is `/v1/me`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.server.problems import NoMethod, NoRoute
from holdfast.server.requests import Request
from holdfast.server.routing import NAMES, Route, Who, options
from holdfast.server.verdicts import VERDICTS, Verdicts, verdict_on


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Some routes, how large a body they take, and where they look if no namespace is named."""

    routes: list[Route]
    max_body_bytes: int
    default_namespace: str | None = None
    is_ours: bool = False
    """Whether they are no other maker's: a query may name the namespace that they read."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A route at one of its paths, and what of it is the same for every request."""

    route: Route
    template: str
    max_body_bytes: int | None
    """None where the route itself says how much it takes."""
    default_namespace: str | None
    verdict: str | None
    """What it does that an add-only key does not; None where it may."""
    names_workspace: bool
    is_ours: bool


Methods = dict[str, Entry]


@dataclass(slots=True, eq=False)
class _Part:
    """What may follow a part of a path."""

    words: dict[str, "_Part"] = field(default_factory=dict[str, "_Part"])
    name: str = ""
    """What the part is called that is no word; its own parts are `named`."""
    named: "_Part | None" = None
    takes_rest: bool = False
    methods: Methods = field(default_factory=Methods)


class Table:
    """All routes, by where they are."""

    def __init__(self, groups: Iterable[Group], verdicts: Verdicts = VERDICTS) -> None:
        self._verdicts = verdicts
        self.entries = list[Entry]()
        self._plain = dict[str, Methods]()
        self._root = _Part()
        paths = dict[str, Methods]()
        for group in groups:
            for route in group.routes:
                for path in route.paths:
                    paths[path] = self._add(group, route, path)
        for path, methods in paths.items():
            self._add(Group([], 0), options(path, [*methods]), path)

    def public_paths(self) -> frozenset[str]:
        """Returns the paths that are answered without a key."""
        return frozenset(entry.template for entry in self.entries if entry.route.who is Who.ANYBODY)

    def find(self, request: Request) -> Entry:
        """Returns the route for a request, which then knows its path; raises if there is none."""
        methods = self._plain.get(request.path)
        if methods is None:
            methods = self._walk(request)
        entry = methods.get(request.method)
        if entry is None:
            raise NoMethod(methods)
        request.template, request.takes = entry.template, entry.route.parameters.headers
        return entry

    def _walk(self, request: Request) -> Methods:
        parts = [part for part in request.path.split("/") if part]
        request.path = "/" + "/".join(parts)
        if request.path in self._plain:
            return self._plain[request.path]
        at = self._root
        for part in parts:
            if part in at.words:
                at = at.words[part]
            elif at.named is not None:
                request.places[at.name] = part
                at = at.named
                if at.takes_rest:
                    break
            else:
                raise NoRoute
        if not at.methods:
            raise NoRoute
        return at.methods

    def _add(self, group: Group, route: Route, path: str) -> Methods:
        template = NAMES.sub(r"{\1}", path)
        entry = Entry(
            route,
            template,
            None if route.is_spooled else group.max_body_bytes,
            group.default_namespace,
            verdict_on(route.method, template, self._verdicts),
            "{workspace_id}" in template,
            group.is_ours,
        )
        self.entries.append(entry)
        methods = self._methods_at(path)
        methods[route.method] = entry
        return methods

    def _methods_at(self, path: str) -> Methods:
        if "{" not in path:
            return self._plain.setdefault(path, {})
        at = self._root
        for part in path.strip("/").split("/"):
            name = NAMES.fullmatch(part)
            if name is None:
                at = at.words.setdefault(part, _Part())
            else:
                at.name = name[1]
                at.named = at.named or _Part()
                at = at.named
                at.takes_rest = part.endswith(":path}")
        return at.methods
