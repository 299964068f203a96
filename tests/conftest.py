"""What every test can ask for: hypothesis profiles, a clock, a real PostgreSQL, a catalog.

Profiles: `dev` is quick and random, `ci` repeats itself exactly and looks longer, `nightly` is
long and random. HYPOTHESIS_PROFILE chooses one by name; otherwise CI means `ci`.
"""

import compileall
import gc
import os
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib.util import cache_from_source
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

import holdfast
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.testing import shells
from holdfast.testing.buckets import (
    BUCKET,
    BucketNotStarted,
    SeaweedServer,
    Wire,
    environ_of,
    find_weed,
    make_bucket,
)
from holdfast.testing.clocks import Watch
from holdfast.testing.poolers import pooled
from holdfast.testing.postgres import PostgresServer, find_base
from holdfast.testing.prepared import Prepared
from holdfast.testing.servers import COMMAND, Begin, begin
from holdfast.testing.warm import Warm, warm_process

# No deadlines: a shared machine is slow at times, and that is not a bug in the code under test.
# For the same reason slow generation of inputs is no error.
settings.register_profile(
    "dev", deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci",
    parent=settings.get_profile("dev"),
    max_examples=100,  # The same ones every time: more of them is what `nightly` is for.
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.register_profile("nightly", parent=settings.get_profile("dev"), max_examples=5_000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)

MAY_STAY = shells.set_up()

PREPARED = Prepared()
PREPARED.set_up()

KEEPS_NOTHING = sys.dont_write_bytecode
# Of tests it is kept all the same, for the next run: to make the assertions of all of them tell
# what they met takes each process of a run a quarter of a minute.
sys.dont_write_bytecode = False

MOST_IN_A_FIRST_LINE = 120
"""Bytes that a script may use to name its interpreter."""

QUICK = {"unit", "contract"}
"""Folders in which no file takes long."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compiles what processes import that tests start, where Python was told to keep nothing.

    There are thousands of them, and each would compile it anew: a command takes 0.9 s of work then,
    and 0.3 s otherwise.
    """
    if not KEEPS_NOTHING or hasattr(session.config, "workerinput"):
        return
    compileall.compile_dir(str(Path(holdfast.__file__).parent), quiet=2)
    if not Path(cache_from_source(pytest.__file__)).exists():
        for folder in site.getsitepackages():
            compileall.compile_dir(folder, quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs PostgreSQL, so that `-m "not postgres"` is the quick run.

    And lets the long files come first: whoever runs several processes would otherwise wait for the
    last of them, which has a browser, or a crash at every step, all to itself.
    """
    items.sort(key=lambda item: QUICK.isdisjoint(item.path.parts), reverse=True)
    for item in items:
        if isinstance(item, pytest.Function) and "postgres" in item.fixturenames:
            item.add_marker(pytest.mark.postgres)


def pytest_collection_finish() -> None:
    """Leaves tests to themselves: Python need not look through all of them again and again."""
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def nobody_left() -> Iterator[None]:
    """Fails for a module whose commands have left a process behind that goes on."""
    yield
    if MAY_STAY:
        shells.end_left()
    assert shells.await_none_left() == []


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A directory of the module's own, in memory if there is room: not for tests about disks."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-tests-", dir=find_base()))
    yield home
    shutil.rmtree(home, ignore_errors=True)  # A server that was killed may still be ending.


@pytest.fixture
def place_in_memory(home: Path) -> Iterator[Path]:
    """A directory of the test's own there: what `tmp_path` is where nothing is about disks."""
    place = Path(tempfile.mkdtemp(dir=home))
    yield place
    shutil.rmtree(place)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own; in memory for tests that are marked so."""
    is_marked = request.node.get_closest_marker("in_memory") is not None
    path: Path = request.getfixturevalue("place_in_memory" if is_marked else "tmp_path")
    return path


@pytest.fixture(scope="session")
def loaded() -> Iterator[Warm | None]:
    """A process that has loaded what commands need, where it can become them."""
    is_nameable = " " not in sys.executable and len(sys.executable) < MOST_IN_A_FIRST_LINE
    if MAY_STAY or sys.platform != "linux" or not is_nameable:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder, warm_process(Path(folder)) as warm:
        yield warm


@pytest.fixture(scope="session")
def warm(loaded: Warm | None) -> tuple[str, ...]:
    """What to type for `holdfast` where nothing is about how a process begins: it does at once."""
    return COMMAND if loaded is None else loaded.command


@pytest.fixture(scope="session")
def at_once(loaded: Warm | None) -> Begin:
    """What starts servers, likewise."""
    return begin if loaded is None else loaded.begin


@pytest.fixture(scope="module")
def made_anew() -> Iterator[None]:
    """Has catalogs make their own tables: for modules that are about that."""
    PREPARED.is_used = False
    yield
    PREPARED.is_used = True


@pytest.fixture
def watch() -> Watch:
    """A clock that stands until the test moves it on."""
    return Watch()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server, shared by the tests of one process; started by the first that asks."""
    with PostgresServer(in_memory=True) as server:
        yield server


@pytest.fixture(scope="session")
def seaweed() -> Iterator[SeaweedServer]:
    """A real bucket, shared by the tests of one process; started by the first that asks."""
    try:
        find_weed()
    except BucketNotStarted as exc:
        pytest.skip(str(exc))
    with SeaweedServer() as server:
        yield server


@pytest.fixture
def wire(seaweed: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """What all requests to it go through: they are counted, and may go wrong."""
    with Wire(seaweed.endpoint) as wire:
        for name, value in wire.environ.items():
            monkeypatch.setenv(name, value)
        yield wire


@pytest.fixture
def bucket_url(seaweed: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a place in it that nobody else has; the environment says how to get there."""
    for name, value in seaweed.environ.items():
        monkeypatch.setenv(name, value)
    return seaweed.url(os.urandom(8).hex())


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    """Another maker's bucket, in this process."""
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        make_bucket(endpoint)
        yield endpoint
    finally:
        running.stop()


@pytest.fixture
def moto_url(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a place in it that nobody else has; the environment says how to get there."""
    for name, value in environ_of(moto_endpoint).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{os.urandom(8).hex()}"


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """A database with an empty catalog, for `postgres_url` to copy."""
    name = postgres.create_database()
    PostgresCatalog(postgres.dsn(name)).close()
    return name


@pytest.fixture(scope="session")
def postgres_port(postgres: PostgresServer) -> Iterator[int]:
    """Where tests find their databases: HOLDFAST_TEST_POOLED=1 puts PgBouncer in between."""
    port = urlsplit(postgres.dsn()).port
    assert port is not None
    if os.environ.get("HOLDFAST_TEST_POOLED") != "1":
        yield port
        return
    program = os.environ.get("HOLDFAST_TEST_PGBOUNCER") or shutil.which("pgbouncer")
    assert program is not None, "PgBouncer is not installed"
    with pooled(program, port) as found:
        yield found


@pytest.fixture
def postgres_url(
    postgres: PostgresServer, postgres_template: str, postgres_port: int
) -> Iterator[str]:
    """The URL of a database with an empty catalog that this test has to itself."""
    name = postgres.create_database(template=postgres_template)
    url = urlsplit(postgres.dsn(name))
    yield url._replace(netloc=f"{url.username}@{url.hostname}:{postgres_port}").geturl()
    postgres.drop_database(name)


@pytest.fixture
def packs(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where packs of a vault in a database are: HOLDFAST_TEST_BUCKET=1 puts them in a bucket."""
    if os.environ.get("HOLDFAST_TEST_BUCKET") != "1":
        return str(tmp_path / "packs")
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return request.getfixturevalue("bucket_url")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    """An empty catalog of each kind."""
    opened: Catalog
    if request.param == "sqlite":
        opened = SqliteCatalog(tmp_path / "vault")
    else:
        opened = PostgresCatalog(request.getfixturevalue("postgres_url"))
    with closing(opened):
        yield opened
