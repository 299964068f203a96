"""Laws of an exchange: what is told leads to the same map, and nothing else does."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.core.limits import Limits
from holdfast.engine.exchange.edits import decode_edits, encode_edits
from holdfast.engine.files.fitting import check_tree
from holdfast.entries import Directory, Entry, Inline, Link, encode_entry
from holdfast.errors import HoldfastError, NotADirectory
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree import Node, apply, build, decode_node, diff

entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(
        Inline,
        st.binary(max_size=256),
        st.integers(0, 0o1777),
        st.integers(-(2**63), 2**64 - 1),
    ),
    st.builds(Link, st.binary(min_size=1, max_size=50).filter(lambda t: b"\0" not in t)),
    st.builds(Directory, st.integers(0, 0o1777)),
)
names = st.sampled_from([b"a", b"b", b"c", b"\xff", b"a b", b"..."])
paths = st.lists(names, min_size=1, max_size=4).map(b"/".join)
trees = st.dictionaries(paths, entries, max_size=12)


class Nodes:
    """Nodes of some maps, in memory."""

    def __init__(self) -> None:
        self.nodes: dict[ObjectId, bytes] = {}

    def get_nodes(self, ids: object, /) -> list[Node]:
        return [decode_node(self.nodes[each]) for each in ids]  # type: ignore[attr-defined]

    def made(self, tree: dict[bytes, Entry]) -> ObjectId:
        built = build(sorted((key, encode_entry(entry)) for key, entry in tree.items()))
        self.nodes |= built.nodes
        return built.root


def is_sound(tree: dict[bytes, Entry]) -> bool:
    """Says whether nothing lies below a file or a link."""
    return not any(
        below.startswith(key + b"/")
        for key, entry in tree.items()
        if not isinstance(entry, Directory)
        for below in tree
    )


@given(trees, trees)
def test_edits_lead_from_any_map_to_any_other(
    old: dict[bytes, Entry], new: dict[bytes, Entry]
) -> None:
    source = Nodes()
    before, after = source.made(old), source.made(new)
    told = encode_edits((edit.key, edit.new) for edit in diff(source, before, after))
    edits = decode_edits(told, Limits())
    assert apply(source, before, edits).root == after


@given(trees)
def test_a_first_map_is_accepted_exactly_if_it_is_a_tree(tree: dict[bytes, Entry]) -> None:
    edits = {key: encode_entry(entry) for key, entry in tree.items()}
    try:
        check_tree(Nodes(), EMPTY_MAP, edits)
    except NotADirectory:
        assert not is_sound(tree)
    else:
        assert is_sound(tree)


@given(trees.filter(is_sound), trees)
def test_a_later_map_is_accepted_exactly_if_it_is_a_tree(
    old: dict[bytes, Entry], new: dict[bytes, Entry]
) -> None:
    source = Nodes()
    before = source.made(old)
    edits = {edit.key: edit.new for edit in diff(source, before, source.made(new))}
    try:
        check_tree(source, before, edits)
    except NotADirectory:
        assert not is_sound(new)
    else:
        assert is_sound(new)


@given(st.binary(max_size=200))
def test_any_bytes_are_edits_or_an_error_of_ours(data: bytes) -> None:
    try:
        edits = decode_edits(data, Limits())
    except HoldfastError:
        return
    assert decode_edits(encode_edits(sorted(edits.items())), Limits()) == edits
