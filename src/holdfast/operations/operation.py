"""What an operation is: fields that are asked for, and how it travels.

Fields that the path names are there; the others are in the query of what reads, and in the body of
what does something. Their types decide how they are written: see `shapes`.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from functools import reduce, wraps
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from holdfast.errors import HoldfastError, InvalidValue, shorten
from holdfast.operations.checks import Check, check_of, is_list

D = TypeVar("D")
P = ParamSpec("P")
T = TypeVar("T")

_AS_THEY_ARE: Final = (tuple, str, bytes, NoneType)
"""What of the values of a list is not made a tuple."""

WORKSPACE: Final = "/v1/workspaces/{workspace_id}"
"""Below this path is what is for the operators of one workspace."""


class Who(StrEnum):
    """Whose keys an operation is for; in a workspace that its path names, those of that alone."""

    ANYBODY = "anybody"
    """Without a key, too."""
    KEY = "key"
    AGENT = "agent"
    """An operator's key opens no agent's data. What an add-only key may do, `verdicts` says."""
    OPERATOR = "operator"


class Work(StrEnum):
    """What kind of work an operation is: which threads of a server it is done in."""

    ADMISSION = "admission"
    """Who it is that asks, where a database has to be asked for that."""
    QUICK = "quick"
    SLOW = "slow"
    """What may take seconds, most of them waiting."""
    LONG = "long"
    """What may go through all that a tenant has, and computes for as long as that takes."""
    HEAVY = "heavy"
    """What may take hundreds of megabytes."""
    COSTLY = "costly"
    """What computes for up to two seconds, and takes the interpreter from everybody else."""
    COMMANDS = "commands"
    """What runs somebody's command, and waits for it."""
    PIECES = "pieces"
    """What comes or goes piece by piece: a short turn for each of them."""


@dataclass(frozen=True, slots=True)
class Paged:
    """How a list comes in parts: each goes on behind the last one of the part before."""

    cursor: str | None
    """The field of the operation that says where it goes on: `before`, `starting_after`; None for
    a list that does not, and has but one part."""
    last: str | None
    """The field of the last one that says it: its `number`, its `id`; None for itself."""
    usual: int
    """How many there are in a part if a request does not say."""
    most: int
    """How many there are at the most, whatever it says."""
    unknown: tuple[type[HoldfastError], ...] = ()
    """What whoever makes the list raises for a cursor that is none."""
    has_empty: bool = False
    """Whether what it goes on behind may be empty; elsewhere, an empty cursor is none."""

    def cursor_of(self, asked: Any) -> Any:  # noqa: ANN401 - an operation, what the last one said
        """Returns where a list goes on; None if it begins."""
        return None if self.cursor is None else getattr(asked, self.cursor)

    @staticmethod
    def refusal(cursor: str) -> str:
        """Returns what is said of a cursor that is none, at every door."""
        return f"starting_after is the id of an item, and {shorten(cursor)} is none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """How an operation travels."""

    method: str
    path: str
    status: int = 200
    under: str | None = None
    """The name that an answer has in the object that is sent; None if it is that object."""
    paged: Paged | None = None
    """Of a list that may be long: `limit` is one of the fields, and an answer says `has_more`."""
    part: Paged | None = None
    """Of one whose answer says otherwise how it goes on, if it does."""
    of_moments: bool = False
    """Whether it can be asked of what a snapshot shows: `at`, in the query, says which."""
    who: Who = Who.AGENT
    work: Work | None = Work.QUICK
    """None for what takes no time."""
    repeats: tuple[str, ...] = ()
    """Fields of the operation that an answer says again."""
    done: str | None = None
    """What an answer says to be true of what was asked for, where nothing comes back."""
    needs_body: bool = True
    """Whether a request has to have a body, where fields stand in one: whoever forgets it has not
    asked for all defaults. Not for what means something by itself."""
    is_secret: bool = False
    """Whether an answer is shown once: it is not kept for who asks again."""
    is_bulky: bool = False
    """Whether its body may hold as much as several files."""
    is_slow: bool = False
    """Whether an answer may take longer than people wait: no timeout cuts it off."""
    is_reading: bool = False
    """Whether it changes nothing, though it is a POST: what is asked for fits into no query."""
    is_harmless: bool = False
    """Whether doing it twice is as doing it once, though it changes something."""


@dataclass_transform(frozen_default=True)
class Arguments:
    """Values that somebody gives, each of the type that it says. A subclass is a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    _checks: ClassVar[list[tuple[str, Any, Check]] | None] = None
    """Of each field its default, which is given most often and fits, and what checks another.

    Made when the first one is: whoever imports a client uses few of them."""
    _lists: ClassVar[list[str]]
    """Fields that take whatever can be iterated over, perhaps once only."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # What it has beyond its constructor is below, once: each method that a dataclass is given
        # takes half a millisecond to compile, and there are a hundred such classes.
        dataclass(repr=False, eq=False)(cls)
        cls._checks = None

    def __post_init__(self) -> None:
        """Raises `InvalidValue` for what is of another type than a field says."""
        checks = self._checks
        if checks is None:
            checks = self._make_checks()
        for name in self._lists:
            items = getattr(self, name)
            # Of these, a text is no list: that is said below.
            if not isinstance(items, _AS_THEY_ARE) and isinstance(items, Iterable):
                object.__setattr__(self, name, tuple(cast("Iterable[Any]", items)))
        for name, default, check in checks:
            if (value := getattr(self, name)) is not default:
                check(name, value)

    @classmethod
    def _make_checks(cls) -> list[tuple[str, Any, Check]]:
        hints = get_type_hints(cls, include_extras=True)
        cls._lists = [each.name for each in fields(cls) if is_list(hints[each.name])]
        cls._checks = made = [
            (each.name, each.default, check_of(hints[each.name])) for each in fields(cls)
        ]
        return made

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        given = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))
        return f"{type(self).__name__}({', '.join(given)})"


def _values(given: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any arguments
    return tuple(getattr(given, each.name) for each in fields(given))


class Operation(Arguments, Generic[T]):
    """What somebody asks for, and gets a `T` for."""

    http: ClassVar[Http]
    returns: ClassVar[Any]
    """The type of what comes back."""

    def __init_subclass__(
        cls,
        *,
        get: str | None = None,
        post: str | None = None,
        put: str | None = None,
        patch: str | None = None,
        delete: str | None = None,
        **travel: Any,  # noqa: ANN401 - the other fields of `Http`
    ) -> None:
        super().__init_subclass__()
        verbs = {"GET": get, "POST": post, "PUT": put, "PATCH": patch, "DELETE": delete}
        ((method, path),) = [(verb, path) for verb, path in verbs.items() if path is not None]
        cls.http = Http(method=method, path=path, **travel)
        bases = cast("Any", cls).__orig_bases__
        (returned,) = next(get_args(base) for base in bases if get_origin(base) is Operation)
        cls.returns = None if returned is NoneType else returned


def does(
    operation: Callable[P, Operation[T]],
) -> Callable[[Callable[[D, Any], T]], Callable[Concatenate[D, P], T]]:
    """Makes the method of a door of what does an operation: it takes the operation's fields."""

    def decorate(run: Callable[[D, Any], T]) -> Callable[Concatenate[D, P], T]:
        described: Any = _method(operation, _going_on(operation, run), signature_of(operation))
        described.__doc__ = operation.__doc__
        described.operation, described.run = operation, run
        return described

    return decorate


def _going_on(operation: Any, run: Callable[[D, Any], T]) -> Callable[[D, Any], T]:  # noqa: ANN401 - a class of operations
    """Returns what makes a list, and refuses a cursor that is none as a server does."""
    paged: Paged | None = operation.http.paged
    if paged is None or not paged.unknown:
        return run

    @wraps(run)
    def listed(door: D, asked: Any) -> T:  # noqa: ANN401 - as the operation says
        try:
            return run(door, asked)
        except paged.unknown as exc:
            if (cursor := paged.cursor_of(asked)) is None:
                raise
            raise InvalidValue(paged.refusal(cursor)) from exc

    return listed


def takes(
    given: Callable[P, Arguments],
) -> Callable[[Callable[[D, Any], T]], Callable[Concatenate[D, P], T]]:
    """Makes a method that takes arguments of their own, of one that takes them together."""

    def decorate(run: Callable[[D, Any], T]) -> Callable[Concatenate[D, P], T]:
        return _method(given, run, _signature(given, run.__annotations__.get("return")))

    return decorate


def _method(
    given: Callable[P, Arguments], run: Callable[[D, Any], T], signature: inspect.Signature
) -> Callable[Concatenate[D, P], T]:
    @wraps(run)
    def method(self: D, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            asked = given(*args, **kwargs)
        except TypeError as exc:
            rename(exc, given, method.__qualname__)
            raise
        return run(self, asked)

    described: Any = method
    described.__signature__ = signature
    return method


def rename(error: TypeError, given: Any, name: str) -> None:  # noqa: ANN401 - a class of arguments
    """Lets what Python says of arguments that do not fit name the method that was called."""
    made = f"{given.__qualname__}.__init__()"
    match error.args:
        case (str(said),) if said.startswith(made):
            error.args = (f"{name}(){said.removeprefix(made)}",)
        case _:
            pass


def signature_of(operation: Any) -> inspect.Signature:  # noqa: ANN401 - a class of operations
    """Returns the signature of a method that does an operation."""
    return _signature(operation, operation.returns)


def _signature(given: Any, returned: Any) -> inspect.Signature:  # noqa: ANN401 - a class of arguments, a type
    return _Signature(given, returned)


class _Signature(inspect.Signature):
    """A signature that is made when somebody looks at it.

    To make those of all methods takes 15 ms, and whoever calls one never looks.
    """

    __slots__ = ("_given", "_made", "_returned")

    def __init__(self, given: Any, returned: Any) -> None:  # noqa: ANN401 - as above
        self._given, self._returned = given, returned
        self._made: inspect.Signature | None = None

    # What everything in `inspect.Signature` is made of.

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return self._full().parameters

    @property
    def _return_annotation(self) -> Any:  # noqa: ANN401 - a type
        return self._full().return_annotation

    def replace(self, **kwargs: Any) -> inspect.Signature:  # pyright: ignore[reportIncompatibleMethodOverride] - whatever it is called with, it is passed on  # noqa: ANN401 - as there
        """Returns a plain signature that differs in what is said."""
        return self._full().replace(**kwargs)

    def _full(self) -> inspect.Signature:
        if self._made is None:
            hints = get_type_hints(self._given)
            own = inspect.signature(self._given)
            first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            asked = [
                each.replace(annotation=_plain(hints[name]))
                for name, each in own.parameters.items()
            ]
            self._made = own.replace(parameters=[first, *asked], return_annotation=self._returned)
        return self._made


def _plain(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Returns a type as people write it: `str | None`."""
    return (
        reduce(lambda one, other: one | other, get_args(hint))
        if get_origin(hint) is Union
        else hint
    )


def operations_of(door: type) -> dict[str, Any]:
    """Returns the methods of a door that do operations, by name."""
    return {name: found for name, found in inspect.getmembers(door) if hasattr(found, "operation")}


REQUIRED = MISSING
"""What stands for the default of a field that has none."""
