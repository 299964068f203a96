"""What a class offers to its users, read from the class itself.

Only what is public, and only what is ours: names with an underscore in front, and what every
object has, are left out. A method of a client is described as data (`holdfast.sdk.calls`); here
it is shown as what its user calls.
"""

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_type_hints

WIDTH: Final = 88
"""A signature that is longer has a line for each argument."""

_MODULES: Final = re.compile(r"\b(?:[a-zA-Z_]\w*\.)+(?=[A-Za-z_]\w*)")
_CARRIERS: Final = re.compile(
    r"^(?:(Call|Pages|Feed|Download)\[|Generator\[Call\[Any\], Any, )(.*)\]$"
)
"""What a description of a call is wrapped in, the last of them called `Steps` in the source:
users get what is inside."""

_FORMS: Final = re.compile(r"\[~?F\]")
"""Which kind of client a class is of: a page is about both."""

_QUOTED: Final = re.compile(r"(Literal\[[^\]]*\])|[\"']")
_OPTIONAL: Final = re.compile(r"\bOptional\[([^\[\]]*(?:\[[^\[\]]*\])?)\]")


@dataclass(frozen=True)
class Member:
    """A method, property or field of a class, or a function."""

    name: str
    signature: str
    doc: str
    is_method: bool
    arguments: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    """By name, as they stand in the signature."""
    returned: str = ""

    @property
    def first_line(self) -> str:
        """What it does, in a sentence."""
        return self.doc.partition("\n\n")[0].replace("\n", " ")


def members_of(kind: type) -> list[Member]:
    """Returns the public members of a class, fields first, then in the order of the source."""
    fields = [
        Member(name, f"{name}: {shown}", "", is_method=False) for name, shown in fields_of(kind)
    ]
    known = {field.name for field in fields}
    return [*fields, *(each for each in _defined_in(kind) if each.name not in known)]


def fields_of(kind: type[Any]) -> list[tuple[str, str]]:
    """Returns the fields of a value, and what they hold."""
    if issubclass(kind, Enum):
        return [(each.name, repr(each.value)) for each in kind]
    hints = get_type_hints(kind)  # Without what is said beside a type.
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        names = getattr(kind, "__struct_fields__", ())
    return [(name, annotated(hints[name])) for name in names if not name.startswith("_")]


def member_of(name: str, function: Callable[..., Any], *, is_streamed: bool = False) -> Member:
    """Returns a function as a member; what is streamed comes piece by piece."""
    returned = _returned(function)
    if is_streamed:
        returned = f"Iterator[{returned}]"
    return Member(
        name,
        signed(name, function, returned=returned),
        _doc(function),
        is_method=True,
        arguments={each.name: str_of(each) for each in _parameters(function)},
        returned=returned,
    )


def annotated(note: object) -> str:
    """Returns a type as one writes it, without the modules that its parts are from."""
    shown = note if isinstance(note, str) else inspect.formatannotation(note)
    shown = _FORMS.sub("", _MODULES.sub("", shown)).replace("NoneType", "None")
    # Quotes are around names that the source had to write ahead; those of words stay.
    return _OPTIONAL.sub(r"\1 | None", _QUOTED.sub(lambda found: found[1] or "", shown))


def signed(name: str, function: Callable[..., Any], *, returned: str) -> str:
    """Returns the signature of a function, without `self`, in as many lines as it needs."""
    if not is_told(function):
        return f"{name}(…)"
    parameters = list(inspect.signature(function).parameters.values())
    shown = [str_of(each) for each in _marked(parameters)]
    end = f" -> {returned}" if returned else ""
    line = f"{name}({', '.join(shown)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in shown), f"){end}"])


def is_told(function: Callable[..., Any]) -> bool:
    """Says whether a function tells its arguments: compiled ones need not."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = inspect.signature(function).parameters.values() if is_told(function) else ()
    return [each for each in found if each.name not in ("self", "cls")]


def _returned(function: Callable[..., Any]) -> str:
    """Returns what a function returns, as its user gets it; empty if it does not say."""
    if not is_told(function):
        return ""
    note = inspect.signature(function).return_annotation
    return "" if note is inspect.Signature.empty else _unwrapped(annotated(note))


def _unwrapped(answer: str) -> str:
    found = _CARRIERS.match(answer)
    if found is None:
        return answer
    return f"Iterator[{found[2]}]" if found[1] in ("Pages", "Feed") else found[2]


def str_of(parameter: inspect.Parameter | str) -> str:
    """Returns one argument as it stands in a signature."""
    if isinstance(parameter, str):
        return parameter
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation is not inspect.Parameter.empty:
        shown += f": {annotated(parameter.annotation)}"
    if parameter.default is inspect.Parameter.empty:
        return shown
    value = _default(parameter)
    return f"{shown} = {value}" if ":" in shown else f"{shown}={value}"


def _default(parameter: inspect.Parameter) -> str:
    """Returns what an argument is unless it is given, as one writes it."""
    default = parameter.default
    if inspect.isfunction(default):
        return default.__name__
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    if parameter.name == "mode" and isinstance(default, int):
        return oct(default)
    return repr(default).removeprefix("datetime.")


def _marked(parameters: list[inspect.Parameter]) -> Iterator[inspect.Parameter | str]:
    """Yields the arguments, with the `*` behind which they have to be named."""
    is_marked = False
    for number, each in enumerate(parameters):
        if number == 0 and each.name in ("self", "cls"):
            continue
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not is_marked:
            is_marked = True
            yield "*"
        is_marked = is_marked or each.kind is inspect.Parameter.VAR_POSITIONAL
        yield each


def _defined_in(kind: type) -> Iterator[Member]:
    """Yields methods and properties, those of the class before those that it inherits."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if base.__module__ in ("builtins", "enum", "msgspec", "typing", "contextlib"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if member := _as_member(name, value):
                yield member


def _as_member(name: str, value: object) -> Member | None:
    given: Any = value
    if isinstance(value, property):
        returned = annotated(inspect.signature(value.fget).return_annotation) if value.fget else ""
        return Member(name, f"{name}: {returned}", _doc(value), is_method=False)
    if isinstance(value, classmethod | staticmethod):
        return member_of(name, given.__func__)
    # A compiled method, a plain one, or the description of a call, which names what it stands for.
    if isinstance(value, types.MethodDescriptorType | types.FunctionType):
        return member_of(name, value)
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is None:
        return None
    return member_of(name, wrapped, is_streamed=getattr(value, "verb", "") == "stream")


def _doc(value: object) -> str:
    return inspect.getdoc(value) or ""
