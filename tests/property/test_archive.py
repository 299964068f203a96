"""Laws of archives: what goes out comes in again, and nothing else ever does."""

import random
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.engine.core.paths import ancestors
from holdfast.engine.core.wellformed import check_msgpack, walk
from holdfast.errors import HoldfastError, LimitExceeded, UnsafeArchive

Mutation = Callable[[bytes], bytes]

# Few and short names, so that they meet; the odd ones are not UTF-8, long, or look like tar's.
NAMES = [b"a", b"b", b"a-b", b"a.b", b"\xff", b"\xc3\xa9", b"\n", b"files", b"n" * 101, b"m" * 255]
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join)
modes = st.integers(0, 0o1777)
instants = st.datetimes(datetime(1700, 1, 1), datetime(2260, 1, 1)).map(  # noqa: DTZ001
    lambda instant: instant.replace(tzinfo=UTC)
)
contents = st.builds(
    lambda size, seed: random.Random(seed).randbytes(size) if seed else bytes(size),
    st.one_of(st.integers(0, 600), st.sampled_from([65_536, 65_537, 200_000])),
    st.integers(0, 5),
)
targets = st.one_of(st.sampled_from([b"/etc/passwd", b"../..", b"\xff", b"t" * 101]), paths)
entries = st.one_of(
    st.tuples(st.just("file"), contents, modes, instants),
    st.tuples(st.just("link"), targets, st.none(), st.none()),
    st.tuples(st.just("directory"), st.none(), modes, st.none()),
)
trees = st.dictionaries(paths, entries, max_size=12)
texts = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | texts
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
values = st.dictionaries(st.tuples(texts, texts), plain | st.just("long " * 5000), max_size=6)


@pytest.fixture(scope="module")
def vaults(
    home: Path,
) -> Iterator[tuple[holdfast.Holdfast, holdfast.Holdfast, Path]]:
    """Two vaults and a folder for what goes from one to the other."""
    with holdfast.open(home / "here") as here, holdfast.open(home / "there") as there:
        yield here, there, home


def fill(agent: holdfast.Namespace, tree: dict[bytes, Any], store: dict[Any, Any]) -> None:
    """Writes a tree as far as it is one: what a file stands in the way of is left out."""
    for path in sorted(tree):
        kind, data, mode, instant = tree[path]
        if any(tree[above][0] != "directory" for above in ancestors(path) if above in tree):
            continue
        with suppress(HoldfastError):
            if kind == "file":
                agent.files.write(path, data, mode=mode, modified_at=instant)
            elif kind == "link":
                agent.files.symlink(path, data)
            else:
                agent.files.mkdir(path, mode=mode)
    agent.store.set_many((*key, value) for key, value in store.items())


def infos(agent: holdfast.Namespace) -> list[holdfast.FileInfo]:
    """What is known about each path; a directory without files is as old as the namespace."""
    return [
        msgspec.structs.replace(info, modified_at=None)
        if info.kind == "directory"
        and all(i.kind == "directory" for i in agent.files.list(info.path, recursive=True))
        else info
        for info in agent.files.list(recursive=True)
    ]


def after_manifest(data: bytes) -> bytes:
    with tarfile.open(fileobj=BytesIO(data)) as tar:
        tar.next()
        second = tar.next()
    return data[second.offset :] if second else b""


@given(tree=trees, store=values, taken=st.booleans())
@example(tree={}, store={}, taken=False)
def test_what_is_exported_comes_in_again_with_the_same_root_and_the_same_bytes(
    vaults: tuple[holdfast.Holdfast, holdfast.Holdfast, Path],
    tree: dict[bytes, Any],
    store: dict[Any, Any],
    taken: bool,
) -> None:
    here, there, folder = vaults
    agent, copy = here.namespace("agent"), there.namespace("copy")
    agent.snapshot()  # It is there, whatever it holds.
    empty(agent)
    fill(agent, tree, store)
    snapshot = agent.snapshot() if taken else None
    count = agent.export(folder / "a.tar", snapshot=snapshot)
    imported = copy.import_(folder / "a.tar")
    assert imported.verified
    assert count == imported.snapshot.size.entries
    assert imported.snapshot.root == agent.snapshot().root
    assert infos(copy) == infos(agent)
    assert copy.store.namespaces() == agent.store.namespaces()
    copy.export(folder / "b.tar")
    first, second = (folder / "a.tar").read_bytes(), (folder / "b.tar").read_bytes()
    assert after_manifest(first) == after_manifest(second)
    copy.export(folder / "c.tar")
    assert (folder / "c.tar").read_bytes() == second
    with tarfile.open(folder / "a.tar") as tar:
        assert len(tar.getmembers()) == count + 1


def empty(agent: holdfast.Namespace) -> None:
    for info in agent.files.list():
        agent.files.delete(info.path, recursive=True)
    agent.store.clear()


# Damage


@pytest.fixture(scope="module")
def honest(vaults: tuple[holdfast.Holdfast, holdfast.Holdfast, Path]) -> bytes:
    """An archive with one of everything."""
    here, _, folder = vaults
    agent = here.namespace("honest")
    agent.files.write("notes.md", "first thoughts", mode=0o640)
    agent.files.write(b"\xff/" + b"n" * 120, bytes(3000))
    agent.files.mkdir("empty", mode=0o700)
    agent.files.symlink(b"link\xff", "/etc/passwd")
    agent.store.set("plan", "step", {"list": [1, 2.5, None, "text"]})
    agent.store.set("plan", "text", "x" * 300)
    agent.export(folder / "honest.tar")
    return (folder / "honest.tar").read_bytes()


def flip(position: float, bit: int) -> Mutation:
    def mutate(data: bytes) -> bytes:
        changed = bytearray(data)
        if changed:
            changed[int(position * (len(changed) - 1))] ^= 1 << bit
        return bytes(changed)

    return mutate


def splice(position: float, remove: int, insert: bytes) -> Mutation:
    def mutate(data: bytes) -> bytes:
        at = int(position * len(data))
        return data[:at] + insert + data[at + remove :]

    return mutate


def forge(block: float, field: tuple[int, int], text: bytes) -> Mutation:
    """Changes a field of some header, and gives the header a right checksum again."""

    def mutate(data: bytes) -> bytes:
        headers = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
        if not headers:
            return data
        at = headers[int(block * (len(headers) - 1))]
        start, stop = at + field[0], at + field[1]
        changed = bytearray(data)
        changed[start:stop] = text[: stop - start].ljust(stop - start, b"\0")
        changed[at + 148 : at + 156] = b" " * 8
        changed[at + 148 : at + 156] = b"%06o\0 " % sum(changed[at : at + 512])
        return bytes(changed)

    return mutate


def move(source: float, target: float, blocks: int) -> Mutation:
    """Copies some blocks over others."""

    def mutate(data: bytes) -> bytes:
        total = len(data) // 512
        start, at = int(source * total) * 512, int(target * total) * 512
        return data[:at] + data[start : start + blocks * 512] + data[at + blocks * 512 :]

    return mutate


places = st.floats(0, 1)
FIELDS = [(0, 100), (100, 108), (124, 136), (136, 148), (156, 157), (157, 257), (345, 500)]
field_texts = st.one_of(
    st.sampled_from([b"files/notes.md", b"files/../x", b"store/0.msgpack", b"\xff" * 12]),
    st.sampled_from([b"0", b"2", b"5", b"x", b"g", b"1", b"L", b"0000644\0", b"0004755\0"]),
    st.integers(0, 8**11 - 1).map(lambda number: b"%011o\0" % number),
    st.integers(0, 5000).map(lambda number: b"%011o\0" % number),
    st.binary(max_size=16),
)
mutations = st.one_of(
    st.builds(flip, places, st.integers(0, 7)),
    st.builds(splice, places, st.integers(0, 2000), st.binary(max_size=40)),
    st.builds(forge, places, st.sampled_from(FIELDS), field_texts),
    st.builds(move, places, places, st.integers(1, 4)),
    places.map(lambda end: lambda data: data[: int(end * len(data))]),
)


def state(vault: holdfast.Holdfast, agent: holdfast.Namespace) -> tuple[object, ...]:
    return (
        vault.namespaces(),
        vault.stored_bytes(),
        agent.timeline(limit=2),
        agent.is_dirty(),
        [*agent.diff()],
        agent.size(),
        agent.files.read("mine"),
    )


@given(changes=st.lists(mutations, min_size=1, max_size=3))
def test_a_damaged_archive_is_refused_or_is_the_very_same_content(
    vaults: tuple[holdfast.Holdfast, holdfast.Holdfast, Path],
    honest: bytes,
    changes: list[Mutation],
) -> None:
    here, there, folder = vaults
    target = there.namespace("target")
    target.files.write("mine", "pending work")
    before = state(there, target)
    data = honest
    for change in changes:
        data = change(data)
    (folder / "damaged.tar").write_bytes(data)
    try:
        imported = target.import_(folder / "damaged.tar")
    except HoldfastError:
        assert state(there, target) == before
    else:
        assert imported.verified
        assert imported.snapshot.root == here.namespace("honest").snapshot().root


def tar_of(form: int, members: dict[str, tuple[bytes, str]], **options: Any) -> bytes:
    """Members with kind and target, without the blocks that end them."""
    file = BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form, **options) as tar:
        for name, (kind, target) in members.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mtime = kind, target, -1.5
            member.size = 700 if kind == tarfile.REGTYPE else 0
            tar.addfile(member, BytesIO(b"x" * 700))
        return file.getvalue()[: tar.offset]


@pytest.fixture(scope="module")
def foreign() -> bytes:
    """A tar file of other programs, with one of everything that is taken."""
    long = "n" * 120
    members = {
        "./": (tarfile.DIRTYPE, ""),
        "./" + long: (tarfile.REGTYPE, ""),
        "./twin": (tarfile.LNKTYPE, "./" + long),
        "./empty": (tarfile.DIRTYPE, ""),
        "./link": (tarfile.SYMTYPE, "t" * 120),
    }
    of_all = {"comment": "of all", "mtime": "3"}
    more = {"p" * 150: (tarfile.REGTYPE, "")}
    first = tar_of(tarfile.GNU_FORMAT, members)
    return first + tar_of(tarfile.PAX_FORMAT, more, pax_headers=of_all) + bytes(1024)


@settings(max_examples=60)
@given(changes=st.lists(mutations, min_size=1, max_size=3))
def test_a_damaged_tar_file_is_taken_whole_or_refused(
    vaults: tuple[holdfast.Holdfast, holdfast.Holdfast, Path],
    foreign: bytes,
    changes: list[Mutation],
) -> None:
    _, there, folder = vaults
    target, source = there.namespace("plain"), folder / "foreign.tar"
    source.write_bytes(foreign)
    assert target.import_files(source).entries == 5
    for change in changes:
        foreign = change(foreign)
    source.write_bytes(foreign)
    target.files.write("mine", "pending work")
    before = state(there, target)
    try:
        imported = target.import_files(source)
    except (UnsafeArchive, LimitExceeded):
        assert state(there, target) == before
    else:
        assert imported.verified
        assert target.export_files(source) == imported.entries
        assert target.import_files(source).snapshot.root == imported.snapshot.root


@given(data=st.one_of(st.binary(max_size=2000), st.binary(min_size=512, max_size=512).map(
    lambda block: forge(0, (257, 265), b"ustar\x0000")(
        block[:257] + b"ustar\x0000" + block[265:]) + bytes(1024)
)))  # fmt: skip
def test_noise_is_refused(
    vaults: tuple[holdfast.Holdfast, holdfast.Holdfast, Path], data: bytes
) -> None:
    _, there, folder = vaults
    (folder / "noise.tar").write_bytes(data)
    with pytest.raises(UnsafeArchive):
        there.namespace("nobody").import_(folder / "noise.tar")
    assert "nobody" not in there.namespaces()


# Values


def is_readable(data: bytes) -> bool:
    try:
        msgspec.msgpack.decode(data)
    except ValueError:
        return False
    return True


def passes(check: Callable[[bytes], None], data: bytes) -> bool:
    try:
        check(data)
    except UnsafeArchive:
        return False
    return True


# Bytes that announce things, more often than not followed by what they announce.
announcing = st.lists(
    st.one_of(
        st.binary(max_size=2),
        st.sampled_from([bytes([first]) for first in range(0x80, 0x100)]),
        st.sampled_from([b"\x81\xa1a\x01", b"\x81\x92\x01\x02\x03", b"\xc4\x01a", b"\xd6\xff0000"]),
        st.sampled_from([b"\xd9\x02ab", b"\xdc\x00\x02", b"\xde\x00\x01", b"\xc7\x01\x05a"]),
    ),
    max_size=8,
).map(b"".join)


@given(announcing)
@example(b"\x81\x91\x81\x01\x02\x03")
@example(b"\x81\x01\x81\x01\x02")
@example(b"\x82\x91\x91\x01\x02\x03\x04")
@example(b"\x81\xd4\x05\x00\x01")
@example(b"\xc7\x0c\xff" + bytes(12))
@example(b"\xc7\x00\xff")
def test_a_value_is_accepted_exactly_if_it_can_be_read(data: bytes) -> None:
    assert passes(walk, data) == passes(check_msgpack, data) == is_readable(data)


@given(plain, st.lists(mutations, max_size=1))
def test_every_value_that_can_be_stored_is_accepted(value: Any, changes: list[Mutation]) -> None:
    data = msgspec.msgpack.encode(value)
    assert passes(walk, data)
    assert passes(check_msgpack, data)
    for change in changes:
        data = change(data)
        assert passes(walk, data) == passes(check_msgpack, data) == is_readable(data)
