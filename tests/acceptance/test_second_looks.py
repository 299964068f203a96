"""Things that went wrong once, each as the user met it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast import errors

pytestmark = pytest.mark.in_memory


class Home:
    """A vault with a clock that the test moves."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.vault = holdfast.open(folder, clock=lambda: self.now, limits=holdfast.Limits(**limits))

    def wait(self, **span: float) -> None:
        self.now += timedelta(**span)


def test_a_batch_of_several_small_packs_is_kept_whole(tmp_path: Path) -> None:
    home = Home(tmp_path, inline_bytes=256 << 20)
    agent = home.vault.namespace("agent")
    words = [f"{number:08x}" * 64 for number in range(300)]
    agent.files.write("large", Random(1).randbytes(48_000_000).hex())
    agent.files.write_many((f"small/{n}", word) for n, word in enumerate(words))
    agent.snapshot()
    assert home.vault.verify().ok
    assert agent.files.read_text("small/299") == words[299]


def test_a_vault_does_not_begin_among_the_packs_of_another(tmp_path: Path) -> None:
    shared = tmp_path / "packs"
    one = holdfast.open(tmp_path / "one", objects=shared)
    with pytest.raises(errors.StoreMismatch):
        holdfast.open(tmp_path / "two", objects=shared)
    body = bytes(range(256)) * 4000 + b"".join(n.to_bytes(4, "big") for n in range(200_000))
    one.namespace("a").files.write("file", body)
    with pytest.raises(errors.CatalogLost):
        holdfast.open(tmp_path / "three", objects=shared)
    one.collect()
    assert one.namespace("a").files.read("file") == body


def test_a_merge_that_was_undone_can_be_made_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    main = home.vault.namespace("main")
    main.files.write("base", "0")
    main.snapshot()
    fork = main.fork("fork")
    fork.files.write("new", "1")
    main.merge(fork)
    home.wait(seconds=1)
    main.undo()
    assert not main.files.exists("new")
    assert main.merge(fork).changes.of("added") == ["new"]
    main.undo()
    # The other way round: what the fork made is the fork's, and stays.
    assert len(fork.merge(main).changes) == 0
    assert fork.files.read_text("new") == "1"


def test_a_merge_that_a_restore_went_back_behind_can_be_made_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    main = home.vault.namespace("main")
    main.files.write("base", "0")
    start = main.snapshot()
    fork = main.fork("fork")
    fork.files.write("new", "1")
    main.merge(fork)
    main.restore(start)
    home.vault.collect()
    assert main.merge(fork).changes.of("added") == ["new"]
    # What is in both from now on is the base of the next merge.
    fork.files.write("new", "2")
    home.wait(seconds=1)
    assert main.merge(fork).changes.of("changed") == ["new"]


def test_a_merge_that_a_redo_brought_back_has_happened(tmp_path: Path) -> None:
    home = Home(tmp_path)
    main = home.vault.namespace("main")
    main.files.write("base", "0")
    main.snapshot()
    fork = main.fork("fork")
    fork.files.write("new", "1")
    main.merge(fork)
    main.undo()
    main.files.write("mine", "not captured")
    main.redo()
    fork.files.write("new", "2")
    main.files.write("base", "1")
    home.wait(seconds=1)
    # Without the merge in between, both sides would have made "new", each its own.
    assert main.merge(fork).changes.of("changed") == ["new"]


def test_one_undo_works_however_old_and_however_often_the_same_was_captured(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    agent = home.vault.namespace("agent")
    for text in ("one", "two"):
        agent.files.write("file", text)
        agent.snapshot(text)
    agent.snapshot("two again")
    home.wait(days=40)
    home.vault.collect()
    agent.undo()
    assert agent.files.read_text("file") == "one"


def test_undo_passes_over_what_retention_took(tmp_path: Path) -> None:
    home = Home(tmp_path)
    agent = home.vault.namespace("agent")
    agent.files.write("file", "0")
    agent.snapshot("0", pin=True)
    for text in ("1", "2", "3"):
        agent.files.write("file", text)
        agent.snapshot(text)
    home.wait(days=40)
    home.vault.collect()
    agent.undo()
    agent.undo()
    assert agent.files.read_text("file") == "0"


def test_the_latest_snapshot_is_found_behind_any_number_of_expired_ones(tmp_path: Path) -> None:
    home = Home(tmp_path)
    agent = home.vault.namespace("agent")
    kept = agent.snapshot("kept", pin=True)
    for _ in range(40):
        last = agent.snapshot(expires_in=timedelta(minutes=1))
    home.wait(hours=1)
    assert agent.get_snapshot("latest").id == last.id  # What the head stands on does not expire.
    assert [snapshot.id for snapshot in agent.timeline(limit=5)] == [last.id, kept.id]
    agent.delete_snapshot(last)
    assert agent.get_snapshot("latest").id == kept.id
    assert [snapshot.id for snapshot in agent.timeline(limit=5)] == [kept.id]


def test_undo_refuses_like_restore_where_bytes_are_missing(tmp_path: Path) -> None:
    home = Home(tmp_path, inline_bytes=0)
    agent = home.vault.namespace("agent")
    agent.files.write("file", "x" * 5000)
    taken = agent.snapshot()
    agent.files.delete("file")
    agent.snapshot()
    for pack in (tmp_path / "packs").rglob("*.pack"):
        pack.unlink()
    # Opened anew: the caches of the first one still know better than the disk.
    again = Home(tmp_path).vault
    with pytest.raises(errors.Damaged):
        again.namespace("agent").restore(taken)
    with pytest.raises(errors.Damaged):
        again.namespace("agent").undo()


def test_a_fork_and_a_merge_do_not_get_around_the_quota(tmp_path: Path) -> None:
    home = Home(tmp_path)
    main = home.vault.namespace("main")
    main.set_quota(100)
    main.files.write("small", "x" * 50)
    main.snapshot()
    fork = main.fork("fork")
    with pytest.raises(errors.QuotaExceeded):
        fork.files.write("large", "x" * 1000)
    fork.set_quota(None)
    fork.files.write("large", "x" * 1000)
    with pytest.raises(errors.QuotaExceeded):
        main.merge(fork)
    assert not main.files.exists("large")


def test_what_is_pending_counts_against_the_tenants_quota(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.vault.set_quota(10_000)
    agent = home.vault.namespace("agent")
    written = 0
    while written < 50:
        try:
            agent.files.write(f"file-{written}", "x" * 200)
        except errors.QuotaExceeded:
            break
        written += 1
    assert 10 < written < 50


def test_text_that_repeats_itself_does_not_hold_up_a_diff(tmp_path: Path) -> None:
    home = Home(tmp_path)
    agent = home.vault.namespace("agent")
    lines = [f"line {n % 101}\n" for n in range(40_000)]
    agent.files.write("file", "".join(lines))
    taken = agent.snapshot()
    agent.files.write("file", "".join(reversed(lines)))
    text = agent.text_diff("file", taken)
    assert text.startswith("Too different to compare line by line")
    assert text.count("\n-") == text.count("\n+")


@pytest.mark.parametrize("kept", [2.5, True, "3", -1, 2**40])
def test_a_policy_takes_whole_numbers(tmp_path: Path, kept: int) -> None:
    home = Home(tmp_path)
    with pytest.raises(errors.InvalidValue):
        home.vault.namespace("agent").set_retention(keep_last=kept)
    home.vault.collect()


def test_paths_may_be_given_in_any_form(tmp_path: Path) -> None:
    home = Home(tmp_path)
    agent = home.vault.namespace("agent")
    agent.files.write("a/b", "1")
    taken = agent.snapshot()
    agent.files.write("a/b", "2")
    assert agent.text_diff(Path("a/b"), taken)
    assert agent.restore(taken, paths=[Path("a"), b"c"]).changes.of("changed") == ["a/b"]


@pytest.mark.parametrize("location", ["mysql://host/db", "ftp://host/x"])
def test_a_location_that_is_not_known_is_refused(tmp_path: Path, location: str) -> None:
    with pytest.raises(errors.InvalidValue):
        holdfast.open(location)
    with pytest.raises(errors.InvalidValue):
        holdfast.open(tmp_path, objects=location)
    with pytest.raises(errors.Unavailable):
        holdfast.open("/proc/nowhere/vault")


def test_the_head_is_expected_by_what_it_is_not_by_its_age(tmp_path: Path) -> None:
    home = Home(tmp_path)
    agent = home.vault.namespace("agent")
    taken = agent.snapshot()
    home.wait(days=40)
    assert agent.snapshot(expected=taken).parent == taken.id


def test_a_prefix_may_lead_into_a_directory(tmp_path: Path) -> None:
    agent = Home(tmp_path).vault.namespace("agent")
    agent.files.write_many([("sub/ab1", "1"), ("sub/ab2", "2"), ("sub/b", "3")])
    assert [info.path for info in agent.files.list(prefix="sub/a")] == ["sub/ab1", "sub/ab2"]


def test_what_was_kept_for_a_fork_is_gone_back_to_each_time(tmp_path: Path) -> None:
    agent = Home(tmp_path).vault.namespace("agent")
    agent.files.write("a", "first")
    agent.snapshot()
    agent.files.write("a", "forked")
    agent.fork("other")
    for _ in range(3):
        agent.files.write("a", "mistake")
        agent.undo()
        assert agent.files.read_text("a") == "forked"
