"""The format, pinned: what these bytes hash to may not change without a new format version."""

from datetime import UTC, datetime
from pathlib import Path

import holdfast

INSTANT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)


def noise(size: int) -> bytes:
    """Returns bytes without repetition that are the same on every machine."""
    state, out = 7433, bytearray()
    while len(out) < size:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out += state.to_bytes(8, "little")
    return bytes(out[:size])


def root_of(tmp_path: Path, build: str) -> str:
    with holdfast.open(tmp_path / "vault", clock=lambda: INSTANT) as hf:
        agent = hf.namespace("golden")
        if build == "small":
            agent.files.write("a/b.txt", "hello")
            agent.files.mkdir("empty")
            agent.files.symlink("link", "/nowhere")
        elif build == "cut":
            agent.files.write("large.bin", noise(1_000_000))
            agent.store.set("state", "list", list(range(50_000)))
        else:
            agent.files.write_many((f"d{n % 7}/f{n:05}", f"{n}\n") for n in range(5_000))
        return agent.snapshot().root.hex()


def test_a_small_tree_keeps_its_root(tmp_path: Path) -> None:
    assert root_of(tmp_path, "small").startswith("76e69fedcc24c1606578bba5")


def test_large_content_is_cut_where_it_was_cut(tmp_path: Path) -> None:
    assert root_of(tmp_path, "cut").startswith("d6f0fdb0ed3fa0bd14e964be")


def test_a_map_of_several_levels_keeps_its_root(tmp_path: Path) -> None:
    assert root_of(tmp_path, "deep").startswith("2592ebad54db6b5c3ac316db")
