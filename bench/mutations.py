"""Small mistakes in a module, one at a time: what bench/mutants.py asks the tests to notice.

A mistake is made in the syntax tree of one function, so that it can be put into the function that
runs already. Left alone are names, texts, annotations, defaults and decorators: a mistake there
is a matter of types, of words, or of the moment at which a module is loaded.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

Function = ast.FunctionDef | ast.AsyncFunctionDef

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,  # codespell:ignore notin
    ast.NotIn: ast.In,  # codespell:ignore notin
}
OTHER: dict[type[ast.boolop], type[ast.boolop]] = {ast.And: ast.Or, ast.Or: ast.And}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True)
class Mutant:
    """One mistake, and the function that it is made in."""

    function: str
    """Its qualified name, as its code has it."""
    line: int
    """Where the function begins, as its code has it: with its first decorator."""
    at: int
    """Where the mistake is."""
    told: str
    """What was there, and what is there instead."""
    make: Callable[[], ast.Module]
    """Returns all of the module, with the mistake."""


def mutants_of(source: str) -> Iterator[Mutant]:
    """Yields every mistake that is made in a module."""
    tree = ast.parse(source)
    for name, function in _functions(tree, ()):
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
        for node in _nodes(function):
            for change in _changes(node):
                told = f"{_shown(node)} -> {_shown(change(copy.deepcopy(node)))}"
                at = getattr(node, "lineno", first)
                yield Mutant(name, first, at, told, partial(_made, tree, node, change))


def _made(tree: ast.Module, node: ast.AST, change: "Change") -> ast.Module:
    known: dict[int, ast.AST] = {}
    copied = copy.deepcopy(tree, known)
    change(known[id(node)])
    return ast.fix_missing_locations(copied)


def _functions(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, Function]]:
    """Yields functions and methods; one that is defined in a function is part of that."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield ".".join((*names, child.name)), child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, (*names, child.name))
        elif isinstance(child, ast.If | ast.Try):
            yield from _functions(child, names)


def _nodes(function: Function) -> Iterator[ast.AST]:
    """Yields what runs when a function is called."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, Function):
            waiting += node.body
        elif isinstance(node, ast.AnnAssign):
            waiting += [node.value] if node.value else []
        elif not isinstance(node, ast.JoinedStr | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


Change = Callable[[ast.AST], ast.AST]
"""Makes a mistake of a node in a copied tree, and returns what to show of it."""


def _changes(node: ast.AST) -> Iterator[Change]:  # noqa: C901, PLR0912 - a list of cases
    match node:
        case ast.Compare(ops=ops):
            for number, operation in enumerate(ops):
                if type(operation) in COMPARED:
                    yield lambda made, n=number: _compare(made, n)
        case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
            pass  # A type.
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            yield lambda made: _set(made, op=COMPUTED[type(made.op)]())
        case ast.BoolOp():
            yield lambda made: _set(made, op=OTHER[type(made.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield lambda made: _become(made, made.operand)
        case ast.Constant(value=bool()):
            yield lambda made: _set(made, value=not made.value)
        case ast.Constant(value=int()):
            yield lambda made: _set(made, value=made.value + 1)
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield lambda made: _set(made, value=ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Assert() | ast.Delete():
            yield lambda made: _become(made, ast.Pass())
        case ast.AugAssign(op=op):
            yield lambda made: _become(made, ast.Pass())
            if type(op) in COMPUTED:
                yield lambda made: _set(made, op=COMPUTED[type(made.op)]())
        case ast.Break():
            yield lambda made: _become(made, ast.Continue())
        case ast.Continue():
            yield lambda made: _become(made, ast.Break())
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call()):
            yield lambda made: _set(made, test=ast.UnaryOp(ast.Not(), made.test))
        case ast.IfExp():
            yield lambda made: _set(made, body=made.orelse, orelse=made.body)


def _compare(made: ast.AST, number: int) -> ast.AST:
    made.ops[number] = COMPARED[type(made.ops[number])]()
    return made


def _set(made: ast.AST, **values: object) -> ast.AST:
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _become(made: ast.AST, other: ast.AST) -> ast.AST:
    """Makes a node another one, in its place in the tree."""
    place = {name: getattr(made, name) for name in made._attributes}  # noqa: SLF001 - as documented
    made.__class__ = other.__class__
    vars(made).clear()
    vars(made).update(place | vars(other))
    return made


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _shown(node: ast.AST) -> str:
    first = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]
    return first if len(first) < 60 else first[:59] + "…"
