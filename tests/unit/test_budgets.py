"""Keeps the house rules that no linter knows: sizes, names, and what the source never does."""

import ast
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"
MODULES = sorted(SOURCE.rglob("*.py"))

MODULE_LINES = 500
FUNCTION_LINES = 60
FUNCTION_LINES_WISHED = 40

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

# Promise 7: nothing that was stored is ever executed or interpreted.
EXECUTING_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "code"}
EXECUTING_CALLS = {"eval", "exec", "__import__"}
EXECUTING_ATTRIBUTES = {"yaml.load", "yaml.unsafe_load", "yaml.full_load"}

SILENCER = re.compile(
    r"#\s*(?P<what>(?:ruff:\s*)?noqa|type:\s*ignore|pyright:\s*ignore|pragma:\s*no\s*cover)"
    r"(?P<codes>:?\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*|\s*\[[\w\s,-]*\])?"
    r"(?P<reason>.*)"
)


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE.parent).as_posix()


@cache
def syntax_trees() -> list[tuple[str, ast.Module]]:
    return [(name_of(path), ast.parse(path.read_bytes(), filename=str(path))) for path in MODULES]


def function_lengths() -> Iterator[tuple[str, int]]:
    """Yields every function and its lines; docstrings are welcome and do not count."""
    for module, tree in syntax_trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                if ast.get_docstring(node) is not None:
                    text = node.body[0]
                    assert text.end_lineno is not None
                    lines -= text.end_lineno - text.lineno + 1
                yield f"{module}:{node.lineno} {node.name}", lines


def forbidden_constructs(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found = [name.name for name in names]
            case ast.ImportFrom(module=str(module), level=0):
                found = [module]
            case ast.Call(func=ast.Name(id=name)) if name in EXECUTING_CALLS:
                yield node.lineno, f"{name}()"
                continue
            case ast.Attribute() if ast.unparse(node) in EXECUTING_ATTRIBUTES:
                yield node.lineno, ast.unparse(node)
                continue
            case _:
                continue
        for module in found:
            if module.split(".")[0] in EXECUTING_MODULES:
                yield node.lineno, f"import {module}"


def unexplained_silencers(path: Path) -> Iterator[str]:
    if not SILENCER.search(path.read_text("utf-8")):
        return  # To take a module apart takes longer than all of the rest.
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type != tokenize.COMMENT:
                continue
            for match in SILENCER.finditer(token.string):
                reason = match["reason"].strip(" -:#")
                if not match["codes"] or len(reason.split()) < 2:
                    yield f"{path.name}:{token.start[0]} {token.string}"


def test_there_is_something_to_measure() -> None:
    assert MODULES


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    sizes = {name_of(path): len(path.read_bytes().splitlines()) for path in MODULES}
    assert {name: lines for name, lines in sizes.items() if lines > MODULE_LINES} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    assert {name: lines for name, lines in function_lengths() if lines > FUNCTION_LINES} == {}


@pytest.mark.filterwarnings("default:functions above")
def test_functions_that_grow_are_named_in_the_summary() -> None:
    growing = [f"{name} ({n})" for name, n in function_lengths() if n > FUNCTION_LINES_WISHED]
    if growing:
        text = f"functions above {FUNCTION_LINES_WISHED} lines: {', '.join(growing)}"
        warnings.warn(text, stacklevel=1)


def test_every_module_is_named_after_what_it_does() -> None:
    assert [name_of(path) for path in MODULES if VAGUE_NAMES & set(path.parts)] == []
    assert [name_of(path) for path in MODULES if path.stem.strip("_") in VAGUE_NAMES] == []


def test_the_source_never_executes_what_it_stores() -> None:
    found = [
        f"{name}:{line} {construct}"
        for name, tree in syntax_trees()
        for line, construct in forbidden_constructs(tree)
    ]
    assert found == []


def test_every_silenced_warning_says_why() -> None:
    assert [each for path in MODULES for each in unexplained_silencers(path)] == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "import yaml\nyaml.load(text)",
        "def f(text):\n    return eval(text)",
        "exec('1')",
    ],
)
def test_the_check_for_execution_can_fail(source: str) -> None:
    assert list(forbidden_constructs(ast.parse(source)))


@pytest.mark.parametrize(
    ("comment", "is_explained"),
    [
        ("# noqa", False),
        ("# noqa: S608", False),
        ("# noqa: S608, E501", False),
        ("# ruff: noqa: S608", False),
        ("# noqa: S608 - the table's name is a constant", True),
        ("# noqa: S608, E501 - the table's name is a constant", True),
        ("# type: ignore", False),
        ("# type: ignore because of reasons", False),
        ("# type: ignore[arg-type]", False),
        ("# type: ignore[arg-type]  # stubs lack this overload", True),
        ("# pyright: ignore[reportPrivateUsage]", False),
        ("# pyright: ignore[reportPrivateUsage] - same module family", True),
        ("# a comment about something else", True),
    ],
)
def test_the_check_for_reasons_can_fail(tmp_path: Path, comment: str, is_explained: bool) -> None:
    path = tmp_path / "example.py"
    path.write_text(f"x = 1  {comment}\n")
    assert (list(unexplained_silencers(path)) == []) is is_explained


def test_a_word_has_one_meaning_and_the_house_has_forty_of_them_at_the_most() -> None:
    page = (SOURCE.parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
    met, built, _ = (
        re.findall(r"^\| (?!Word )([^|]+) \| .+\|$", part, re.MULTILINE)
        for part in page.split("\n## ")[1:]
    )
    assert len({*met, *built}) == len(met) + len(built)
    assert 0 < len(built) <= 40


WORDS = "told|found|shown|held|known"
VERBS = re.compile(rf"(^|_)({WORDS})($|_)|({WORDS.title()})([A-Z]|$)")
ALLOWED = re.compile(r"NotFound$|: DriftFound$|erasures.*: told$")
"""Errors say what is the matter; a column of a table keeps its name."""


def public_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yields what others call the things that a module or a class has."""
    for each in body:
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [each.name]
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        else:
            continue
        for name in names:
            if not name.startswith("_"):
                yield name
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
            yield from public_names(each.body)


def test_a_public_name_says_what_a_thing_is() -> None:
    verbs = [
        f"{module}: {name}"
        for module, tree in syntax_trees()
        for name in public_names(tree.body)
        if VERBS.search(name) and not ALLOWED.search(f"{module}: {name}")
    ]
    assert verbs == []
