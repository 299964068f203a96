"""Writes the reference of the Python API from the classes themselves.

A topic is a page. It shows what one can do with one thing, through both doors at once: the
embedded class and the client's, whose names are equal where they do the same. What only one of
them has is marked so. Nothing here is kept: a page is made anew whenever the site is built, so
it cannot say anything that the code does not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import holdfast
from holdfast_docs.members import Member, member_of, members_of

BOTH: Final = "Both doors have what follows, unless it says otherwise."


@dataclass(frozen=True)
class Thing:
    """One section: what it is called, and the classes behind it, as `module:Class`."""

    title: str
    embedded: str | None = None
    remote: str | None = None
    awaited: str | None = None
    """What has the methods of `remote` to await."""


@dataclass(frozen=True)
class Topic:
    """One page."""

    slug: str
    title: str
    things: tuple[Thing, ...]

    @property
    def path(self) -> str:
        """Where the page is, from `docs` on."""
        return f"reference/api/{self.slug}.md"


_ENGINE: Final = "holdfast.engine"
_SDK: Final = "holdfast.sdk"
_GROUPS: Final = "holdfast.sdk.groups"

TOPICS: Final = (
    Topic(
        "vault",
        "Vaults and clients",
        (
            Thing("Holdfast", f"{_ENGINE}.vault:Holdfast"),
            Thing("TenantVault", f"{_ENGINE}.tenant:TenantVault"),
            Thing(
                "AdminClient",
                remote=f"{_SDK}.admin:AdminClient",
                awaited=f"{_SDK}.admin:AsyncAdminClient",
            ),
        ),
    ),
    Topic(
        "namespace",
        "A namespace",
        (
            Thing(
                "Namespace, Client",
                f"{_ENGINE}.namespace:Namespace",
                f"{_SDK}.client:Client",
                f"{_SDK}.client:AsyncClient",
            ),
            Thing("Snapshots", remote=f"{_GROUPS}.timeline:Snapshots"),
        ),
    ),
    Topic(
        "files",
        "Files",
        (
            Thing("Files", f"{_ENGINE}.files.editing:Files", f"{_GROUPS}.files:Files"),
            Thing(
                "FilesReader", f"{_ENGINE}.files.reader:FilesReader", f"{_GROUPS}.files:FilesReader"
            ),
        ),
    ),
    Topic(
        "store",
        "The store",
        (
            Thing("Store", f"{_ENGINE}.store.plane:Store", f"{_GROUPS}.store:Store"),
            Thing(
                "StoreReader", f"{_ENGINE}.store.reader:StoreReader", f"{_GROUPS}.store:StoreReader"
            ),
            Thing("holdfast.Store", "holdfast.store:Store"),
            Thing("Snapshot", "holdfast.store:Snapshot"),
            Thing("DurableStore", "holdfast.durable:DurableStore"),
        ),
    ),
    Topic(
        "sessions",
        "Sessions",
        (
            Thing("Sessions", f"{_ENGINE}.sessions.door:Sessions", f"{_GROUPS}.sessions:Sessions"),
            Thing(
                "SessionsReader",
                f"{_ENGINE}.sessions.reader:SessionsReader",
                f"{_GROUPS}.sessions:SessionsReader",
            ),
        ),
    ),
    Topic(
        "memory",
        "Memories, entities, traces",
        (
            Thing("Memories", f"{_ENGINE}.memories:Memories", f"{_GROUPS}.sessions:Memories"),
            Thing(
                "Entities", f"{_ENGINE}.sessions.entities:Entities", f"{_GROUPS}.sessions:Entities"
            ),
            Thing("Traces", f"{_ENGINE}.audit.traces:Traces", f"{_GROUPS}.activity:Traces"),
        ),
    ),
    Topic(
        "tasks",
        "Tasks and schedules",
        (
            Thing("Tasks", f"{_ENGINE}.tasks.runs:TaskRuns", f"{_GROUPS}.activity:TaskRuns"),
            Thing(
                "Schedules", f"{_ENGINE}.tasks.schedules:Schedules", f"{_GROUPS}.activity:Schedules"
            ),
        ),
    ),
    Topic(
        "workspace",
        "Directories",
        (
            Thing(
                "Workspace",
                f"{_ENGINE}.workspace:Workspace",
                "holdfast.mirror.workspace:RemoteWorkspace",
                "holdfast.mirror.aio:AsyncRemoteWorkspace",
            ),
        ),
    ),
    Topic(
        "operators",
        "For operators",
        (
            Thing("Keys", f"{_ENGINE}.tenancy.keys:Keys", f"{_GROUPS}.operators:Keys"),
            Thing(
                "Webhooks", f"{_ENGINE}.tenancy.webhooks:Webhooks", f"{_GROUPS}.operators:Webhooks"
            ),
            Thing("Namespaces", remote=f"{_GROUPS}.operators:Namespaces"),
            Thing("Events", f"{_ENGINE}.journal.events:Events", f"{_GROUPS}.events:Events"),
        ),
    ),
)

OTHERS: Final = (
    "holdfast.model.archives:Manifest",
    "holdfast.model.basics:Size",
    "holdfast.model.entities:Entity",
    "holdfast.model.entities:Totals",
    "holdfast.model.keys:Me",
    "holdfast.model.tasks:Schedule",
    "holdfast.model.tasks:TaskRun",
    "holdfast.model.upkeep:DeletedNamespace",
    "holdfast.model.upkeep:Fault",
    "holdfast.model.values:BatchDone",
    "holdfast.model.webhooks:WebhookTest",
)
"""What calls return that is not among the names of `holdfast`."""


def written() -> Iterator[tuple[str, str]]:
    """Yields every page of the reference: its path below `docs`, and its text."""
    for topic in TOPICS:
        yield topic.path, "".join(_page(topic))
    yield "reference/api/values.md", "".join(_values())
    yield "reference/api/index.md", "".join(_index())


def load(place: str) -> type:
    """Returns the class at `module:Class`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def shown_elsewhere() -> set[type]:
    """Returns the classes that have a section of their own."""
    return {
        load(place) for topic in TOPICS for thing in topic.things for place in _all_places(thing)
    }


def values() -> list[tuple[str, type]]:
    """Returns the classes that have no page of their own: what calls return and take."""
    public = [
        (name, value)
        for name in holdfast.__all__
        if isinstance(value := getattr(holdfast, name), type) and value not in shown_elsewhere()
    ]
    return sorted([*public, *((kind.__name__, kind) for kind in map(load, OTHERS))])


def functions() -> list[Member]:
    """Returns the public functions."""
    found = [(name, getattr(holdfast, name)) for name in sorted(holdfast.__all__)]
    plain = [(name, f) for name, f in found if callable(f) and not isinstance(f, type)]
    return [member_of(f"holdfast.{name}", f) for name, f in plain]


def constants() -> list[tuple[str, object]]:
    """Returns the public names that stand for a value."""
    found = [(name, getattr(holdfast, name)) for name in sorted(holdfast.__all__)]
    return [(f"holdfast.{name}", value) for name, value in found if not callable(value)]


def _places(thing: Thing) -> list[str]:
    return [place for place in (thing.embedded, thing.remote) if place is not None]


def _all_places(thing: Thing) -> list[str]:
    return [*_places(thing), *([] if thing.awaited is None else [thing.awaited])]


def _page(topic: Topic) -> Iterator[str]:
    yield f"# {topic.title}\n\n"
    if any(thing.embedded and thing.remote for thing in topic.things):
        yield f"{BOTH}\n\n"
    if topic.slug == "store":
        for name, value in constants():
            yield f"### `{name}`\n\n```python\n{name} = {value!r}\n```\n\n"
    if topic.slug == "vault":
        for function in functions():
            yield from _member(function)
    for thing in topic.things:
        yield from _section(thing)


def _section(thing: Thing) -> Iterator[str]:
    kinds = [load(place) for place in _places(thing)]
    yield f"## {thing.title}\n\n"
    told = dict.fromkeys(_text(kind.__doc__ or "") for kind in kinds)
    for text, door in zip(told, _doors(thing) if len(told) > 1 else [""], strict=False):
        yield f"{door}{text}\n\n"
    if thing.awaited is not None:
        yield f"`{load(thing.awaited).__name__}` has the same methods, to be awaited.\n\n"
    offered = [{member.name: member for member in members_of(kind)} for kind in kinds]
    names = list(dict.fromkeys(name for each in offered for name in each))
    for name in names:
        found = [each[name] for each in offered if name in each]
        note = _note(thing, [name in each for each in offered]) or _difference(found)
        yield from _member(found[0], note=note)


def _doors(thing: Thing) -> list[str]:
    if thing.embedded and thing.remote:
        return ["**Embedded:** ", "**Over HTTP:** "]
    return [""] * len(_places(thing))


def _note(thing: Thing, has: list[bool]) -> str:
    if not (thing.embedded and thing.remote) or all(has):
        return ""
    return "*Embedded only.*\n\n" if has[0] else "*Over HTTP only.*\n\n"


def _difference(found: list[Member]) -> str:
    """Returns what is to be said where two doors take or return different things."""
    notes: list[str] = []
    for door, mine, other in zip(("Embedded", "Over HTTP"), found, found[::-1], strict=False):
        told = mine.arguments.items()
        only = [f"`{shown}`" for name, shown in told if name not in other.arguments]
        if only:
            notes.append(f"*{door} only: {', '.join(only)}.*\n\n")
    if len({member.returned for member in found}) > 1:
        notes.append(f"*Over HTTP it returns `{found[-1].returned}`.*\n\n")
    return "".join(notes)


def _member(member: Member, *, note: str = "") -> Iterator[str]:
    # An anchor of its own: two classes of one page may have a method of one name.
    yield f"### `{member.name}`\n\n```python\n{member.signature}\n```\n\n{note}"
    if member.doc:
        yield f"{_text(member.doc)}\n\n"


def _values() -> Iterator[str]:
    yield "# Values\n\nWhat calls return and take.\n\n"
    for name, kind in values():
        yield f"## {name}\n\n"
        if kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("):
            yield f"{_text(kind.__doc__)}\n\n"
        members = members_of(kind)
        if plain := [member for member in members if not member.is_method]:
            yield "```python\n" + "".join(f"{each.signature}\n" for each in plain) + "```\n\n"
        for member in members:
            if member.is_method:
                yield f"- `{' '.join(member.signature.split())}`: {member.first_line}\n"
        yield "\n"


def _index() -> Iterator[str]:
    yield (
        "# The Python API\n\n"
        "Made from the code: every public class, method and argument.\n"
        "Pages written by hand say [what the embedded library does](../embedded.md), "
        "with examples.\n\n"
        "| Page | What is there |\n|---|---|\n"
    )
    for topic in TOPICS:
        things = ", ".join(f"`{thing.title}`" for thing in topic.things)
        yield f"| [{topic.title}]({topic.slug}.md) | {things} |\n"
    yield f"| [Values](values.md) | {', '.join(f'`{name}`' for name, _ in values())} |\n"


def _text(doc: str) -> str:
    """Returns a docstring as Markdown: what is indented in it is a block."""
    lines = doc.expandtabs().strip().splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    cut = min(indents, default=0)
    return "\n".join([lines[0], *(line[cut:].rstrip() for line in lines[1:])])
