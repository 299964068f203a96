"""An entry goes into somebody's settings file, and every other byte of it stays."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Conflict, InvalidSettings
from holdfast.mcp import installing
from holdfast.mcp.installing import AGENTS, Command, install, uninstall
from holdfast.splicing import put, take_out

OURS = {"command": "/usr/bin/holdfast", "args": ["mcp", "-C", "/work"]}
COMMAND = Command(program="/usr/bin/holdfast", arguments=("mcp", "-C", "/x"), environ={})
CLAUDE = AGENTS["claude-code"]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=4)
SHAPES = st.sampled_from([None, 0, 2, 4, "\t"])


def add(text: str) -> str:
    return put(text, section="mcpServers", name="holdfast", value=OURS)


def drop(text: str) -> str:
    return take_out(text, section="mcpServers", name="holdfast")


@given(OBJECTS, st.none() | OBJECTS, SHAPES, st.booleans())
def test_whatever_the_file_holds_it_means_the_same_and_our_entry(
    whole: dict, servers: dict | None, indent: int | str | None, is_ascii: bool
) -> None:
    whole.pop("mcpServers", None)
    if servers is not None:
        servers.pop("holdfast", None)
        whole["mcpServers"] = servers
    text = json.dumps(whole, indent=indent, ensure_ascii=is_ascii)
    made = add(text)
    assert json.loads(made) == {**whole, "mcpServers": {**(servers or {}), "holdfast": OURS}}
    assert add(made) == made
    taken = json.loads(drop(made))
    assert taken == {**whole, "mcpServers": servers or {}}
    if servers:
        assert drop(made) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1.50, "mcpServers": {"x": {"y": 1e3}, "z": {}}, "é": "\\u00e9"}',
        '{\n\t"mcpServers": {\n\t\t"x": 1\n\t}\n}\n',
        '{"mcpServers":{"x":1}}',
        '\n {\r\n  "mcpServers" : { "x" : 10000000000000000000000000.0 }\r\n}\r\n\n',
        '{"deep": {"mcpServers": {"holdfast": "not here"}}, "mcpServers": {"a": "}{,"}}',
    ],
)
def test_numbers_spaces_and_escapes_of_others_stay_as_they_were_written(text: str) -> None:
    made = add(text)
    assert drop(made) == text
    begin = made.index('"holdfast": {"command"') if "\n" not in text else made.index('"command"')
    assert begin > 0


def test_a_new_entry_looks_like_its_neighbours() -> None:
    text = '{\n    "mcpServers": {\n        "x": 1\n    }\n}\n'
    assert add(text) == (
        '{\n    "mcpServers": {\n        "x": 1,\n        "holdfast": {\n'
        '            "command": "/usr/bin/holdfast",\n            "args": [\n'
        '                "mcp",\n                "-C",\n                "/work"\n'
        "            ]\n        }\n    }\n}\n"
    )


def test_an_entry_of_ours_that_is_old_is_replaced_alone() -> None:
    text = '{"mcpServers": {"a": 1.0, "holdfast": {"command": "old"}, "b": 2.50}}'
    assert add(text) == text.replace('{"command": "old"}', json.dumps(OURS))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        '{"a": 1, "a": 2}',
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"a": NaN}',
        "// a comment\n{}",
        '{"a": 1,}',
        "{} {}",
        "\ufeff{}",
        "[" * 100_000,
    ],
)
def test_what_is_no_plain_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        add(text)


# Files


def test_a_settings_file_is_made_with_its_folder(tmp_path: Path) -> None:
    for name, agent in AGENTS.items():
        path, has_changed = install(agent, str(tmp_path), COMMAND)
        assert has_changed, name
        entry = json.loads(Path(path).read_text())[agent.section]["holdfast"]
        assert (entry["command"], entry["args"]) == (COMMAND.program, list(COMMAND.arguments))
        assert ("type" in entry) is agent.has_type
        before = Path(path).stat()
        assert install(agent, str(tmp_path), COMMAND) == (path, False)
        assert Path(path).stat().st_ino == before.st_ino  # It was not even written again.
        assert uninstall(agent, str(tmp_path)) == (path, True)
        assert uninstall(agent, str(tmp_path)) == (path, False)
        assert not Path(path).exists(), "what install made goes again"
        assert os.listdir(tmp_path) == []
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(f'{{"{agent.section}": {{}}, "mine": 1}}')
        install(agent, str(tmp_path), COMMAND)
        uninstall(agent, str(tmp_path))
        assert json.loads(Path(path).read_text()) == {agent.section: {}, "mine": 1}
        Path(path).unlink()
        if Path(path).parent != tmp_path:
            Path(path).parent.rmdir()


def test_a_key_is_never_written_only_how_to_pass_it_on(tmp_path: Path) -> None:
    command = Command(
        program="/h",
        arguments=(),
        environ={"HOLDFAST_URL": "http://x"},
        passed=("HOLDFAST_API_KEY",),
    )
    written = {}
    for name, agent in AGENTS.items():
        path, _ = install(agent, str(tmp_path), command)
        written[name] = json.loads(Path(path).read_text())[agent.section]["holdfast"]["env"]
    assert {each["HOLDFAST_URL"] for each in written.values()} == {"http://x"}
    assert {name: each["HOLDFAST_API_KEY"] for name, each in written.items()} == {
        "claude-code": "${HOLDFAST_API_KEY}",
        "cursor": "${env:HOLDFAST_API_KEY}",
        "gemini": "$HOLDFAST_API_KEY",
        "vscode": "${env:HOLDFAST_API_KEY}",
    }


def test_the_mode_of_a_settings_file_stays(tmp_path: Path) -> None:
    path = tmp_path / CLAUDE.path
    path.write_text("{}")
    path.chmod(0o600)
    install(CLAUDE, str(tmp_path), COMMAND)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content", [b"{broken", b"\xff\xfe", b'{"mcpServers": 3}', b"{}" + b" " * (4 << 20)]
)
def test_a_file_that_cannot_be_added_to_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / CLAUDE.path
    path.write_bytes(content)
    for change in (
        lambda: install(CLAUDE, str(tmp_path), COMMAND),
        lambda: uninstall(CLAUDE, str(tmp_path)),
    ):
        with pytest.raises(InvalidSettings) as raised:
            change()
        assert raised.value.hint
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == [CLAUDE.path]


def test_a_link_is_not_followed_out_of_the_project(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    project = tmp_path / "project"
    project.mkdir()
    (project / CLAUDE.path).symlink_to(outside)
    with pytest.raises(InvalidSettings):
        install(CLAUDE, str(project), COMMAND)
    (tmp_path / "elsewhere").mkdir()
    (project / ".cursor").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidSettings):
        install(AGENTS["cursor"], str(project), COMMAND)
    assert outside.read_text() == "{}"
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / CLAUDE.path)
    with pytest.raises(InvalidSettings):
        install(CLAUDE, str(tmp_path), COMMAND)


def test_what_cannot_be_read_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / CLAUDE.path).mkdir()
    (tmp_path / ".cursor").touch()
    for agent in (CLAUDE, AGENTS["cursor"]):
        for change in (
            lambda a: install(a, str(tmp_path), COMMAND),
            lambda a: uninstall(a, str(tmp_path)),
        ):
            with pytest.raises(InvalidSettings, match=os.path.basename(agent.path)):
                change(agent)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "holdfast-of-somebody-else"]},
        {"command": "/opt/their/holdfast", "args": ["serve"]},
        {"url": "https://undo.example/mcp"},
        {"command": ["mcp"], "args": "holdfast mcp"},
        "holdfast mcp",
    ],
)
def test_an_entry_of_somebody_else_with_our_name_stays(entry: object, tmp_path: Path) -> None:
    path = tmp_path / CLAUDE.path
    text = json.dumps({"mcpServers": {"holdfast": entry}})
    path.write_text(text)
    with pytest.raises(InvalidSettings, match="rename"):
        install(CLAUDE, str(tmp_path), COMMAND)
    assert uninstall(CLAUDE, str(tmp_path)) == (str(path), False)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "program", [["/old/bin/holdfast"], ["/usr/bin/python3", "-P", "-m", "holdfast.cli.main"]]
)
def test_an_entry_of_ours_is_known_by_what_it_starts(program: list[str], tmp_path: Path) -> None:
    path = tmp_path / CLAUDE.path
    ours = {"command": program[0], "args": [*program[1:], "mcp", "-C", "/old"], "timeout": 9}
    path.write_text(json.dumps({"mcpServers": {"holdfast": ours}}))
    assert install(CLAUDE, str(tmp_path), COMMAND) == (str(path), True)
    assert json.loads(path.read_text())["mcpServers"]["holdfast"]["args"][-1] == "/x"
    assert uninstall(CLAUDE, str(tmp_path)) == (str(path), True)


def test_what_somebody_else_writes_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / CLAUDE.path
    path.write_text("{}")
    real = installing._mode_of

    def while_others_write(name: str) -> int:
        path.write_text('{"theirs": 1}')
        return real(name)

    monkeypatch.setattr(installing, "_mode_of", while_others_write)
    with pytest.raises(Conflict):
        install(CLAUDE, str(tmp_path), COMMAND)
    assert path.read_text() == '{"theirs": 1}'
    assert os.listdir(tmp_path) == [CLAUDE.path]


def test_whoever_reads_meanwhile_sees_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / CLAUDE.path
    path.write_text(json.dumps({"big": "x" * 200_000}))
    is_over = threading.Event()
    broken: list[str] = []

    def read() -> None:
        while not is_over.is_set():
            try:
                json.loads(path.read_text())
            except ValueError as error:
                broken.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        install(CLAUDE, str(tmp_path), COMMAND)
        uninstall(CLAUDE, str(tmp_path))
    is_over.set()
    reader.join()
    assert broken == []
