"""Names in a git tree: what git refuses or reads is written otherwise, and leads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidPath
from holdfast.git.names import KEEP, PREFIX, from_git, to_git

REFUSED = [
    b".git",
    b".GIT",
    b"a/.Git/config",
    b".git ",
    b".git. .",
    b".git:stream",
    b".git::$INDEX_ALLOCATION",
    b"git~1",
    b"GIT~1",
    b"a\\.git",
    ".g\u200cit".encode(),
    ".gi\u206et".encode(),
    b".gitmodules",
    b".GitModules",
    b"gitmod~1",
    b"gi7eba~1",
    b".gitattributes",
    b"sub/.gitattributes",
    KEEP,
    PREFIX + b"%2Egit",
]
AT_THE_TOP = [b".holdfast/x", b".github/workflows/a.yml", b".gitlab-ci.yml", b"Jenkinsfile"]

PLAIN = [b"a", b".gitignore", b"git", b"x.git", b"a%2Eb", b"new\nline", b"-option", b"\xff\xfe"]
PLAIN += [b"docs/.github/a", b"a/.holdfast", b'say "hi"', b".gi", b".hf"]

names = st.binary(min_size=1, max_size=20).filter(
    lambda name: b"/" not in name and b"\0" not in name
)
pieces = names | st.sampled_from([*(key.rpartition(b"/")[2] for key in REFUSED), b".hf~%2E"])
paths = st.lists(pieces, min_size=1, max_size=4).map(b"/".join)


@pytest.mark.parametrize("key", [*REFUSED, *AT_THE_TOP])
def test_what_git_or_a_host_would_take_for_its_own_is_written_otherwise(key):
    assert PREFIX in to_git(key)
    assert from_git(to_git(key)) == key


@pytest.mark.parametrize("key", PLAIN)
def test_every_other_name_stays_as_it_is(key):
    assert to_git(key) == key == from_git(key)


@given(paths)
def test_every_path_leads_back(key):
    assert from_git(to_git(key)) == key


@given(paths, paths)
def test_two_paths_never_have_one_name(one, other):
    assert (to_git(one) == to_git(other)) == (one == other)


@pytest.mark.parametrize(
    "path", [b".hf~", b".hf~abc", b".hf~%2e", b".hf~%2E%2E", b".hf~%2F", b"a/.hf~%2Fetc", b".hf~%2"]
)
def test_a_forged_name_is_refused(path):
    with pytest.raises(InvalidPath):
        from_git(path)
