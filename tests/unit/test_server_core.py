"""The parts of a server that need no requests: settings, times, rates, loops, credentials."""

import asyncio
import io
import json
import logging
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast
from holdfast.engine.tenancy.rates import LONGEST_S, Grant
from holdfast.errors import InvalidValue, Unavailable
from holdfast.instants import from_text, to_text
from holdfast.model.keys import Key, Scope
from holdfast.server.app import Prefixed
from holdfast.server.config import Config, configure, to_environ
from holdfast.server.credentials import FILE_NAME, make_credentials
from holdfast.server.logs import Together
from holdfast.server.problems import RateLimited
from holdfast.server.rates import UNLIMITED, Rates
from holdfast.server.requests import Caller
from holdfast.server.stopping import Stopping
from holdfast.server.work.loops import Loops
from holdfast.settings import ExecSettings, database_settings

# Settings


def test_flags_come_before_the_environment_and_that_before_what_suits_a_laptop(tmp_path):
    environ = {"HOLDFAST_DATA": str(tmp_path), "HOLDFAST_PORT": "8000", "HOLDFAST_HOST": "0.0.0.0"}
    config = configure(environ, port=9000, host=None)
    assert (config.port, config.host, config.data) == (9000, "0.0.0.0", tmp_path)
    assert configure({"HOME": str(tmp_path)}).port == 7433


def test_a_worker_is_told_what_its_parent_was_told(tmp_path):
    config = configure(
        {
            "HOLDFAST_WEBHOOK_RETRIES": "0.5,2",
            "HOLDFAST_SESSION_TTL": "0",
            "HOLDFAST_KEEP_DELETED": "0",
            "HOLDFAST_KEEP_EVENTS": "172800",
            "HOLDFAST_EXEC": "1",
            "HOLDFAST_EXEC_SECONDS": "7",
        },
        data=str(tmp_path),
        port=1234,
        workers=3,
    )
    assert configure(to_environ(config)) == config
    assert (config.commands.is_on, config.commands.seconds) == (True, 7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_EXEC_SECONDS", "soon"),
        ("HOLDFAST_EXEC_SECONDS", "3601"),
        ("HOLDFAST_EXEC_MEMORY_BYTES", "1e9"),
        ("HOLDFAST_EXEC_PROCESSES", "0"),
        ("HOLDFAST_EXEC_PROCESSES", "-1"),
        ("HOLDFAST_EXEC_DISK_BYTES", "9" * 19),
        ("HOLDFAST_EXEC_DISK_BYTES", "²"),
        ("HOLDFAST_EXEC_NETWORK", "true"),
    ],
)
def test_a_bound_of_commands_that_makes_no_sense_is_refused_by_all_who_run_them(
    name, value, tmp_path, monkeypatch
):
    given = {"HOLDFAST_EXEC": "1", name: value}
    with pytest.raises(InvalidValue, match=name):
        configure(given, data=str(tmp_path))
    for each, said in given.items():
        monkeypatch.setenv(each, said)
    with pytest.raises(InvalidValue, match=name):
        holdfast.open(tmp_path / "vault")
    # Who runs none is not kept from anything by it.
    monkeypatch.setenv("HOLDFAST_EXEC", "0")
    holdfast.open(tmp_path / "vault").close()
    assert configure({name: value}, data=str(tmp_path)).commands == ExecSettings()


def test_a_word_that_is_neither_on_nor_off_is_refused_by_all_who_ask(tmp_path, monkeypatch):
    for name, word in (("HOLDFAST_EXEC", "yes"), ("HOLDFAST_DB_PREPARE", "off")):
        with pytest.raises(InvalidValue, match=f"{name} is 0 or 1, not '{word}'"):
            configure({name: word}, data=str(tmp_path))
    monkeypatch.setenv("HOLDFAST_EXEC", "yes")
    with pytest.raises(InvalidValue, match="HOLDFAST_EXEC is 0 or 1"):
        holdfast.open(tmp_path / "vault")
    with pytest.raises(ValueError, match="HOLDFAST_DB_PREPARE"):
        database_settings({"HOLDFAST_DB_PREPARE": "off"})


def test_no_secret_is_told_to_a_worker(tmp_path):
    given = {"HOLDFAST_ADMIN_KEY": "secret-admin-key-1", "HOLDFAST_API_KEY": "secret-api-key-12"}
    told = to_environ(configure(given, data=str(tmp_path)))
    assert "-key-1" not in json.dumps(told)
    # Nor does it find them in what the server was started with.
    assert not any((given | told)[name] for name in given)


def test_no_secret_is_shown_with_the_settings():
    given = {
        "HOLDFAST_ADMIN_KEY": "secret-admin-key-1",
        "HOLDFAST_API_KEY": "secret-api-key-12",
        "HOLDFAST_DATABASE_URL": "postgresql://me:secret@127.0.0.1/vault",
    }
    assert "secret" not in repr(configure(given, data="/srv"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_PORT", "http"),
        ("HOLDFAST_PORT", "70000"),
        ("HOLDFAST_WORKERS", "-1"),
        ("HOLDFAST_VALIDATION_STATUS", "500"),
        ("HOLDFAST_PORT", "9" * 5000),
        ("HOLDFAST_WORKERS", "9" * 18),
        ("HOLDFAST_ADMIN_KEY", "k" * 15),
        ("HOLDFAST_API_KEY", "key with a space"),
        ("HOLDFAST_API_KEY", "k" * 513),
        ("HOLDFAST_SECRETS_KEY", "k" * 31),
        ("HOLDFAST_DEFAULT_NAMESPACE", "../others"),
        ("HOLDFAST_DEFAULT_NAMESPACE", "n" * 500),
        ("HOLDFAST_CACHE_BYTES", "much"),
        ("HOLDFAST_PREFIX", "holdfast"),
        ("HOLDFAST_PREFIX", "/hold fast"),
        ("HOLDFAST_WEBHOOK_RETRIES", "soon"),
        ("HOLDFAST_WEBHOOK_RETRIES", "1,nan"),
        ("HOLDFAST_DATABASE_URL", "holdfast_1"),
        ("HOLDFAST_MAX_UPLOAD_BYTES", "-1"),
        ("HOLDFAST_SESSION_TTL", "-1"),
        ("HOLDFAST_SESSION_TTL", "9" * 18),
        ("HOLDFAST_WEBHOOK_RETRIES", "1e300"),
        ("HOLDFAST_KEEP_DELETED", "-1"),
        ("HOLDFAST_KEEP_DELETED", "9" * 30),
        ("HOLDFAST_KEEP_DELETED", "7d"),
        ("HOLDFAST_KEEP_EVENTS", "172799"),
        ("HOLDFAST_KEEP_EVENTS", "9" * 30),
        ("HOLDFAST_KEEP_TRACES", "86399"),
    ],
)
def test_a_variable_that_makes_no_sense_is_refused(name, value, tmp_path):
    with pytest.raises(InvalidValue) as raised:
        configure({name: value}, data=str(tmp_path))
    assert len(str(raised.value)) < 300
    if (flag := name.removeprefix("HOLDFAST_").lower()) in ("port", "workers"):
        with pytest.raises(InvalidValue):
            configure({}, data=str(tmp_path), **{flag: value})


def test_with_a_database_packs_stay_in_the_data_directory(tmp_path):
    config = Config(data=tmp_path, database_url="postgresql://db/x")
    assert (config.location, config.objects) == ("postgresql://db/x", str(tmp_path / "packs"))
    assert Config(data=tmp_path).objects is None


# Times


def test_every_instant_has_the_same_width():
    instants = [
        datetime(2026, 1, 31, 9, 5, tzinfo=UTC),
        datetime(2026, 1, 31, 9, 5, 0, 500, UTC),
        datetime(999, 1, 31, 9, 5, tzinfo=UTC),
    ]
    assert [to_text(each) for each in instants] == [
        "2026-01-31T09:05:00.000000Z",
        "2026-01-31T09:05:00.000500Z",
        "0999-01-31T09:05:00.000000Z",
    ]


def test_an_instant_that_was_shown_comes_back_to_the_microsecond():
    instant = datetime(2026, 1, 31, 9, 5, 1, 123456, UTC)
    assert from_text(to_text(instant), "since") == instant


@pytest.mark.parametrize(
    "text",
    ["2026-01-31T09:05:00Z", "2026-01-31T09:05:00+00:00", "2026-01-31T09:05:00 00:00",
     "2026-01-31T10:05:00+01:00", "2026-01-31T09:05:00", "1769850300"],
)  # fmt: skip
def test_one_instant_has_many_forms(text):
    assert from_text(text, "since") == datetime(2026, 1, 31, 9, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "1e400", "nan", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"]
)
def test_what_is_no_instant_is_refused(text):
    with pytest.raises(InvalidValue):
        from_text(text, "since")


def test_instants_of_other_zones_are_shown_in_utc():
    there = datetime(2026, 1, 31, 9, 5, tzinfo=timezone(timedelta(hours=-5)))
    assert to_text(there) == "2026-01-31T14:05:00.000000Z"


# Rates


def caller_with(limit: int | None, key_id: str = "key-1") -> Caller:
    key = Key(
        id=key_id,
        tenant_id=cast("Any", 1),
        name="",
        prefix="",
        scope=Scope.RUNTIME,
        created_at=datetime.now(UTC),
        rate_limit=limit,
    )
    return Caller(key, cast("Any", None))


def admitted(rates: Rates, caller: Caller, times: int) -> int:
    """Returns how many of so many requests at once are not refused."""
    count = 0
    for _ in range(times):
        with suppress(RateLimited):
            rates.count(caller)
            count += 1
    return count


def test_a_key_with_a_limit_is_refused_beyond_it_until_its_minute_is_over():
    now = [600.0]
    rates = Rates(clock=lambda: now[0])
    caller = caller_with(2)
    assert admitted(rates, caller, 2) == 2
    with pytest.raises(RateLimited) as refused:
        rates.count(caller)
    assert refused.value.retry_after == 60
    now[0] += 60
    assert admitted(rates, caller, 5) == 0
    now[0] += LONGEST_S - 60
    assert admitted(rates, caller, 5) == 2


@pytest.mark.parametrize(
    ("limit", "burst"), [(1, 1), (2, 2), (30, 30), (100, 30), (600, 100), (6000, 1000)]
)
def test_a_minutes_requests_do_not_come_in_one_second_and_no_minute_has_more(
    limit: int, burst: int
):
    now = [600.5]
    rates = Rates(clock=lambda: now[0])
    caller = caller_with(limit)
    made = [admitted(rates, caller, limit + 1)]
    assert made == [burst]
    for _ in range(20 * 60):  # Ten minutes, in halves of a second, and always more than it may.
        now[0] += 0.5
        made.append(admitted(rates, caller, limit // 30 + 2))
    assert max(sum(made[at : at + 120]) for at in range(len(made))) <= limit
    assert sum(made) >= limit * 9


def test_what_a_key_did_not_use_is_kept_up_to_what_it_may_make_at_once():
    now = [600.0]
    rates = Rates(clock=lambda: now[0])
    caller = caller_with(600)
    assert admitted(rates, caller, 100) == 100
    now[0] += 5
    assert admitted(rates, caller, 100) == 50
    now[0] += 3600
    assert admitted(rates, caller, 1000) == 100


def test_a_clock_that_is_set_neither_gives_requests_nor_takes_them_for_long():
    now = [6000.0]
    rates = Rates(clock=lambda: now[0])
    caller = caller_with(60)
    assert admitted(rates, caller, 30) == 30
    now[0] -= 3600
    assert admitted(rates, caller, 5) == 0
    now[0] += 1
    assert admitted(rates, caller, 5) == 1


def test_headers_say_what_may_be_made_at_once_and_when_all_of_it_is_there_again():
    now = [600.0]
    rates = Rates(clock=lambda: now[0])
    caller = caller_with(600)
    admitted(rates, caller, 40)
    headers = dict(rates.headers(caller))
    assert headers[b"x-ratelimit-limit"] == b"600"
    assert headers[b"x-ratelimit-remaining"] == b"60"
    assert headers[b"x-ratelimit-reset"] == b"605"
    now[0] = 605.0
    assert dict(rates.headers(caller))[b"x-ratelimit-remaining"] == b"100"


def test_keys_that_are_not_used_any_more_take_no_memory():
    now = [600.0]
    rates = Rates(clock=lambda: now[0])
    for minute in range(10):
        for number in range(100):
            rates.count(caller_with(60, f"key-{minute}-{number}"))
        now[0] += 60
    kept = rates._buckets.keys() | rates._before.keys()  # pyright: ignore[reportPrivateUsage]
    assert len(kept) == 200


def test_one_key_does_not_use_up_what_another_has():
    rates = Rates(clock=lambda: 0.0)
    rates.count(caller_with(1, "key-1"))
    rates.count(caller_with(1, "key-2"))


def test_headers_are_there_without_a_limit_and_without_a_key():
    rates = Rates(clock=lambda: 30.0)
    for caller in (None, caller_with(None)):
        headers = dict(rates.headers(caller))
        assert headers[b"x-ratelimit-limit"] == str(UNLIMITED).encode()
        assert headers[b"x-ratelimit-reset"] == b"31"


def test_uses_are_counted_once():
    rates = Rates(clock=lambda: 0.0)
    rates.count(caller_with(None))
    rates.count(caller_with(None))
    assert [(use.key_id, use.requests) for use in rates.take_uses()] == [("key-1", 2)]
    assert rates.take_uses() == []


def test_of_several_workers_each_takes_what_all_have_together(tmp_path: Path):
    now, taken = [600.0], list[int]()

    async def at_once(_tenant: str, function: Any) -> Any:
        return function()

    async def admitted_by(rates: Rates, times: int) -> int:
        count = 0
        for _ in range(times):
            with suppress(RateLimited):
                await rates.admit(caller)
                count += 1
        return count

    with holdfast.open(tmp_path / "vault") as vault:

        def take(key_id: str, /, *, limit: int, wanted: int, unused: Grant | None = None) -> Any:
            taken.append(wanted if unused is None else -unused.amount)
            return vault.take_requests(key_id, limit=limit, wanted=wanted, unused=unused)

        caller = Caller(caller_with(30).key, vault)
        workers = [Rates(clock=lambda: now[0], take=take, run=at_once) for _ in range(3)]
        total = asyncio.run(admitted_by(workers[0], 2))
        # It has one that it did not need: the others get it once it lay for a second.
        total += sum(asyncio.run(admitted_by(each, 50)) for each in workers[1:])
        assert total == 29
        assert sum(taken[:3]) == 9
        asked = len(taken)
        assert asyncio.run(admitted_by(workers[1], 50)) == 0
        assert len(taken) == asked  # While nothing is left, nobody asks.
        now[0] += 1.0
        workers[0].give_back()
        assert taken[-1] == -1
        now[0] += 1.0
        assert asyncio.run(admitted_by(workers[2], 50)) == 1


# The log


class Lines(io.StringIO):
    """Counts how often somebody writes to it, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.writes, self.written = 0, asyncio.Event()

    def write(self, text: str, /) -> int:
        self.writes += 1
        self.written.set()
        return super().write(text)


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, Lines]]:
    lines, logger = Lines(), logging.getLogger("test.log")
    handler = Together(lines)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger, lines
    logger.removeHandler(handler)


def test_lines_of_a_loop_are_written_together_and_in_their_order(log):
    logger, lines = log

    async def main() -> None:
        for number in range(5):
            logger.info("%d", number)
        assert lines.getvalue() == ""
        await asyncio.wait_for(lines.written.wait(), 20)

    asyncio.run(main())
    assert (lines.getvalue(), lines.writes) == ("0\n1\n2\n3\n4\n", 1)


def test_a_warning_is_written_at_once_behind_what_was_said_before(log):
    logger, lines = log

    async def main() -> None:
        logger.info("before")
        logger.warning("now")
        assert lines.getvalue() == "before\nnow\n"

    asyncio.run(main())


def test_where_no_loop_runs_each_line_is_written_at_once(log):
    logger, lines = log
    logger.info("now")
    assert lines.getvalue() == "now\n"


# Stopping, and loops


def test_whoever_sleeps_is_woken_when_the_server_stops():
    async def main() -> bool:
        stopping = Stopping()
        async with stopping.watching():
            sleeper = asyncio.create_task(stopping.sleep(60))
            await asyncio.sleep(0)
            stopping.set()
            return await asyncio.wait_for(sleeper, 5)

    assert asyncio.run(main()) is True


def test_a_job_that_fails_is_told_and_comes_again(caplog):
    done = []

    def job() -> float:
        done.append(len(done))
        if len(done) == 1:
            raise RuntimeError("the database is away")
        stopping.set()
        stopping_set.set()
        return 60.0

    stopping, stopping_set = Stopping(), threading.Event()
    stopping.wait = lambda _seconds: stopping.is_set()  # no pauses here

    async def main() -> None:
        async with Loops({"some job": job}, stopping).running():
            await asyncio.to_thread(stopping_set.wait, 5)

    with caplog.at_level(logging.ERROR, logger="holdfast.work"):
        asyncio.run(main())
    assert done == [0, 1]
    assert "some job failed" in caplog.text


def test_that_the_database_is_away_is_one_line_of_a_job(caplog):
    stopping, tried = Stopping(), threading.Event()
    stopping.wait = lambda _seconds: stopping.is_set()

    def job() -> float:
        stopping.set()
        tried.set()
        raise Unavailable("the database does not answer")

    async def main() -> None:
        async with Loops({"some job": job}, stopping).running():
            await asyncio.to_thread(tried.wait, 5)

    with caplog.at_level(logging.ERROR, logger="holdfast.work"):
        asyncio.run(main())
    (record,) = caplog.records
    assert "the database does not answer" in record.getMessage()
    assert not record.exc_info


# Credentials


@pytest.fixture
def vault(tmp_path):
    with holdfast.open(tmp_path / "vault") as opened:
        yield opened


def test_the_first_start_makes_keys_that_work_and_keeps_them_for_their_owner(vault, tmp_path):
    made = make_credentials(vault, Config(data=tmp_path))
    assert made is not None
    assert vault.admit(made.admin_key)[1].scope is Scope.ADMIN
    assert vault.admit(made.api_key)[1].scope is Scope.RUNTIME
    path = tmp_path / FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["api_key"] == made.api_key
    assert make_credentials(vault, Config(data=tmp_path)) is None


def test_keys_that_were_made_by_a_start_that_died_are_told_by_the_next(
    vault, tmp_path, monkeypatch
):
    def die(_self: Path, _target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            make_credentials(vault, Config(data=tmp_path))
    assert not (tmp_path / FILE_NAME).exists()
    made = make_credentials(vault, Config(data=tmp_path))
    assert made is not None
    assert vault.admit(made.api_key) is not None
    assert (tmp_path / FILE_NAME).exists()


def test_a_start_that_died_before_its_keys_were_made_leaves_nothing_that_counts(
    vault, tmp_path, monkeypatch
):
    def die(*_arguments: object, **_named: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(vault.keys), "create_first", die)
        with pytest.raises(KeyboardInterrupt):
            make_credentials(vault, Config(data=tmp_path))
    (left,) = tmp_path.glob("credentials.*.new")
    left = left.rename(tmp_path / "credentials.999999.new")
    made = make_credentials(vault, Config(data=tmp_path))
    assert made is not None
    assert len(vault.keys.list()) == 2
    assert not left.exists()


def test_a_start_that_fails_leaves_no_keys_that_are_none(vault, tmp_path):
    with pytest.raises(InvalidValue, match="16 to 512"):
        make_credentials(vault, Config(data=tmp_path, admin_key="short"))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("credentials")]


def test_of_two_first_starts_one_makes_keys(vault, tmp_path, monkeypatch):
    other = make_credentials(vault, Config(data=tmp_path / "mine"))
    assert other is not None
    # The second one has looked before the first one was done.
    with monkeypatch.context() as patched:
        patched.setattr(type(vault.keys), "list", lambda _self: [])
        assert make_credentials(vault, Config(data=tmp_path / "mine")) is None
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [FILE_NAME]
    assert json.loads((tmp_path / "mine" / FILE_NAME).read_text())["api_key"] == other.api_key
    assert len(vault.keys.list()) == 2


# The prefix


@pytest.mark.parametrize(
    ("path", "passed"),
    [
        ("/deep/v1/me", "/v1/me"),
        ("/deep", "/"),
        ("/deeper/v1/me", "/.outside"),
        ("/v1/me", "/.outside"),
    ],
)
def test_what_lacks_the_prefix_is_nowhere(path, passed):
    seen = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["path"])

    scope = {"type": "http", "path": path, "raw_path": path.encode()}
    asyncio.run(Prefixed(app, "/deep")(cast("Any", scope), cast("Any", None), cast("Any", None)))
    assert seen == [passed]
