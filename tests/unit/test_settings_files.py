"""Settings in files: what they say becomes part of the environment, or is named as wrong."""

import io
import os
import threading
from pathlib import Path

import pytest

from holdfast.cli.app import run
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.thin import FILES, UNREAD
from holdfast.cli.thin import find_location as find_thinly
from holdfast.errors import InvalidValue
from holdfast.sdk.lines import ReachNamespace, line_to
from holdfast.server.checking import WITHHELD, iter_faults, iter_settings
from holdfast.server.config import configure, to_environ
from holdfast.server.variables import VARIABLES
from holdfast.settingsfile import BACKUP_KEY, CONFIG, SECRETS, adopt, backup_key, key_of, settle

SECRET = "postgresql://me:hidden@db/vault"


@pytest.fixture
def toml(tmp_path: Path):
    """Returns the environment that names a file with this text."""

    def write(text: str) -> dict[str, str]:
        path = tmp_path / "holdfast.toml"
        path.write_text(text)
        return {CONFIG: str(path), "HOLDFAST_DATA": str(tmp_path)}

    return write


def test_a_file_is_the_environment_in_other_words(toml) -> None:
    environ = toml(
        """
        port = 8000
        works = false
        allow_private_webhooks = true
        webhook_retries = [0.5, 2]
        console_hosts = ["a.example", "http://b.example"]
        exec = true
        exec_seconds = 7
        [environment]
        AWS_REGION = "north"
        """
    )
    config = configure(environ)
    assert (config.port, config.works, config.allow_private_webhooks) == (8000, False, True)
    assert config.retries_s == (0.5, 2.0)
    assert config.console_hosts == ("https://a.example", "http://b.example")
    assert (config.commands.is_on, config.commands.seconds) == (True, 7)
    assert settle(environ)["AWS_REGION"] == "north"
    # A worker is told the same without the file.
    assert CONFIG not in to_environ(config)
    assert configure(to_environ(config)) == config


def test_the_environment_goes_before_the_file_and_options_before_both(toml) -> None:
    environ = toml('port = 8000\nhost = "0.0.0.0"\nworkers = 3')
    config = configure({**environ, "HOLDFAST_PORT": "9000", "HOLDFAST_WORKERS": ""}, host="::1")
    assert (config.port, config.host, config.workers) == (9000, "::1", 3)


def test_a_secret_in_a_file_of_its_own_is_the_secret_alone(tmp_path: Path, toml) -> None:
    for name in SECRETS:
        (tmp_path / name).write_text(f"{SECRET}\n")
    named = {f"{name}_FILE": str(tmp_path / name) for name in SECRETS}
    found = settle(named)
    assert dict(found) == dict.fromkeys(SECRETS, SECRET)
    assert found.origins == {name: str(tmp_path / name) for name in SECRETS}
    # A file of settings may name them as well; the environment goes before it in either form.
    environ = toml(f'database_url_file = "{tmp_path}/PGPASSWORD"\nsecrets_key = "{"k" * 32}"')
    assert configure(environ).database_url == SECRET
    other = "postgresql://other/vault"
    assert configure({**environ, "HOLDFAST_DATABASE_URL": other}).database_url == other
    (tmp_path / "key").write_text("o" * 32)
    files = dict.fromkeys(("HOLDFAST_SECRETS_KEY_FILE", f"{BACKUP_KEY}_FILE"), f"{tmp_path}/key")
    own = configure({**environ, **files})
    assert own.secrets_key == "o" * 32


def test_every_secret_of_a_server_may_have_a_file() -> None:
    assert {each.name for each in VARIABLES if each.is_secret} < set(SECRETS)


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path, toml) -> None:
    (tmp_path / "empty").write_text("\n")
    environ = {
        **toml("prot = 80\nworkers = 0\nspool = { }\n"),
        "HOLDFAST_PORT": "http",
        "HOLDFAST_WORKS": "off",
        "HOLDFAST_API_KEY_FILE": str(tmp_path / "empty"),
        "HOLDFAST_ADMIN_KEY_FILE": str(tmp_path / "none"),
        "HOLDFAST_SECRETS_KEY": "k" * 32,
        "HOLDFAST_SECRETS_KEY_FILE": str(tmp_path / "none"),
    }
    with pytest.raises(InvalidValue) as raised:
        configure(environ)
    said = str(raised.value)
    for part in (
        "there is no setting prot: port is one",
        "1 to 1000 workers",
        "spool is text",
        "HOLDFAST_PORT is a whole number of 0 or more, not 'http'",
        "HOLDFAST_WORKS is 0 or 1",
        "HOLDFAST_API_KEY_FILE",
        "HOLDFAST_ADMIN_KEY_FILE",
        "HOLDFAST_SECRETS_KEY and HOLDFAST_SECRETS_KEY_FILE are both set",
    ):
        assert part in said


@pytest.mark.parametrize(
    "text",
    [
        "port =",
        "x = " + "[" * 100_000,
        'host = "a\\u0000b"',
        '"HOST" = "a"',
        '"host name" = "a"',
        "environment = 1",
        '[environment]\nHOLDFAST_PORT = "1"',
        '[environment]\n"A=B" = "1"',
        'console_hosts = ["a,b"]',
        'console_hosts = [["a"]]',
        "port = 1979-05-27",
    ],
)
def test_a_file_that_makes_no_sense_is_refused(toml, text: str) -> None:
    environ = toml(text)
    with pytest.raises(InvalidValue, match=r"holdfast\.toml"):
        configure(environ)
    assert dict(settle(environ)).keys() <= {"HOLDFAST_DATA"}


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"a" * ((1 << 20) + 1))
    places = ("pipe", "binary", "large", ".", "none", "nul\0")
    names = dict(zip(SECRETS, places, strict=False))
    environ = {f"{name}_FILE": f"{tmp_path}/{place}" for name, place in names.items()}
    environ[CONFIG] = str(tmp_path / "pipe")
    found = list[list[str]]()
    asking = threading.Thread(target=lambda: found.append(settle(environ).problems), daemon=True)
    asking.start()
    asking.join(20)
    assert [len(problems) for problems in found] == [1 + len(places)]


def test_what_files_said_is_there_for_libraries_and_workers(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "word").write_text("hidden")
    monkeypatch.setenv("PGPASSWORD_FILE", str(tmp_path / "word"))
    monkeypatch.setenv(CONFIG, "")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    adopt(settle(os.environ))
    assert os.environ["PGPASSWORD"] == "hidden"
    assert not {CONFIG, "PGPASSWORD_FILE"} & os.environ.keys()
    monkeypatch.delenv("PGPASSWORD")


def test_a_file_that_says_nothing_is_not_read_again_by_workers(toml, monkeypatch, tmp_path) -> None:
    empty = toml("")[CONFIG]
    monkeypatch.setenv(CONFIG, str(tmp_path / "another"))
    console = Console(
        out=io.StringIO(),
        err=io.StringIO(),
        is_terminal=False,
        cwd=str(tmp_path),
        environ=os.environ,
    )
    arguments = ["serve", "--data", str(tmp_path / "vault"), "--config", empty, "--check"]
    assert run(arguments, console) == DONE
    assert CONFIG not in os.environ


def test_a_client_finds_its_key_in_a_file(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "key").write_text("holdfast-sk-1\n")
    monkeypatch.delenv("HOLDFAST_API_KEY", raising=False)
    monkeypatch.setenv("HOLDFAST_API_KEY_FILE", str(tmp_path / "key"))
    # What is a server's is none of a client's business.
    monkeypatch.setenv(CONFIG, str(tmp_path / "none"))
    assert line_to(ReachNamespace()).headers["Authorization"] == "Bearer holdfast-sk-1"
    monkeypatch.setenv("HOLDFAST_API_KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(InvalidValue, match="HOLDFAST_API_KEY_FILE"):
        line_to(ReachNamespace())
    assert line_to(ReachNamespace("own")).headers["Authorization"] == "Bearer own"


@pytest.mark.parametrize("name", FILES)
def test_nobody_who_stays_is_asked_for_a_vault_that_a_file_names(name: str) -> None:
    environ = {name: "/etc/some", "HOME": "/h", "HOLDFAST_DATA": "/named"}
    assert find_thinly(environ, "/", None) == UNREAD
    assert find_thinly(environ, "/", "/other") == "/other"


def test_a_check_shows_what_would_be_used_and_no_secret(tmp_path: Path, toml) -> None:
    (tmp_path / "url").write_text(SECRET)
    environ = {
        **toml(
            """
            secrets_key = "hidden-hidden-hidden-hidden-hidden"
            log_level = "debug"
            cache = "/pages"
            [environment]
            GOOGLE_SERVICE_ACCOUNT_KEY = "hidden"
            """
        ),
        "HOLDFAST_DATABASE_URL_FILE": str(tmp_path / "url"),
        "HOLDFAST_API_KEY": "hidden-hidden-hidden",
        "PGPASSWORD_FILE": str(tmp_path / "url"),
    }
    flags = {"port": 80, "host": None}
    shown = {each.name: each for each in iter_settings(configure(environ, **flags), environ, flags)}
    assert "hidden" not in repr(shown)
    assert shown["HOLDFAST_SECRETS_KEY"][2:] == (WITHHELD, environ[CONFIG])
    assert shown["HOLDFAST_DATABASE_URL"].value == "postgresql://me:…@db/vault"
    assert shown["PGPASSWORD"][2:] == (WITHHELD, str(tmp_path / "url"))
    assert shown["GOOGLE_SERVICE_ACCOUNT_KEY"][2:] == (WITHHELD, environ[CONFIG])
    assert shown["HOLDFAST_CACHE"][2:] == ("/pages", environ[CONFIG])
    assert shown["HOLDFAST_API_KEY"][2:] == (WITHHELD, "environment")
    assert shown["HOLDFAST_PORT"][1:] == ("port", "80", "option")
    assert shown["HOLDFAST_LOG_LEVEL"][2:] == ("debug", environ[CONFIG])
    assert shown["HOLDFAST_HOST"][2:] == ("127.0.0.1", "usual")
    assert {each.name for each in VARIABLES} <= shown.keys()


def test_a_check_names_what_would_keep_a_server_from_starting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environ = {
        "HOLDFAST_TLS_CERTIFICATE": str(tmp_path / "file"),
        "HOLDFAST_SPOOL": str(tmp_path / "file/spool"),
        "HOLDFAST_GIT_CERTIFICATES": str(tmp_path / "none"),
        "HOLDFAST_OBJECTS_URL": "ftp://packs",
    }
    faults = list(iter_faults(configure(environ, data=str(tmp_path / "vault"))))
    assert len(faults) == len(environ)
    keyed = configure({"HOLDFAST_OBJECTS_URL": "s3://id:secret@packs"}, data=str(tmp_path))
    assert [("OBJECTS_URL" in each, "secret" in each) for each in iter_faults(keyed)] == [
        (True, False)
    ]
    assert not list(iter_faults(configure({}, data=str(tmp_path / "vault"))))
    assert not (tmp_path / "vault").exists()


def test_a_name_in_a_file_is_that_of_its_variable() -> None:
    assert key_of("HOLDFAST_MAX_UPLOAD_BYTES") == "max_upload_bytes"


@pytest.mark.parametrize("key", ["", "  "])
def test_an_empty_key_makes_no_plain_backup(key: str) -> None:
    assert backup_key({}) is None
    with pytest.raises(ValueError, match=BACKUP_KEY):
        backup_key({BACKUP_KEY: key})


def test_an_empty_name_of_a_file_is_as_an_empty_secret(toml) -> None:
    environ = {f"{BACKUP_KEY}_FILE": ""}
    for each in (environ, settle(environ), settle(toml('backup_key_file = ""'))):
        with pytest.raises(ValueError, match=f"{BACKUP_KEY}_FILE"):
            backup_key(each)
    assert backup_key({**environ, BACKUP_KEY: "k" * 32}) == "k" * 32
    assert backup_key(settle({**environ, **toml(f'backup_key = "{"k" * 32}"')})) == "k" * 32
    # All others count as not set when they are empty, and so do these.
    empty = {f"{name}_FILE": "" for name in SECRETS}
    assert settle(empty) == dict.fromkeys(SECRETS, "")
    assert configure(empty) == configure({})
