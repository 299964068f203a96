"""`HoldfastBackend`: the files of a deep agent are those of a namespace.

    from holdfast.integrations.deepagents import HoldfastBackend

    agent = holdfast.open("vault").namespace("alice")
    create_deep_agent(backend=HoldfastBackend(agent), checkpointer=HoldfastSaver(agent))

With the saver of `integrations.langgraph` beside it, files, state and conversation are on one
timeline. Paths begin with `/`, which is where the namespace's files begin: none leads out of it.
What a model asks for and cannot have is an answer that says so, not an exception.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final

from deepagents.backends.protocol import (
    DEFAULT_GREP_TIMEOUT,
    BackendProtocol,
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    SandboxBackendProtocol,
    WriteResult,
)
from deepagents.backends.utils import (
    InvalidGlobPatternError,
    _get_backend_read_file_type,  # pyright: ignore[reportPrivateUsage] - the one table of them
    compile_grep_include_glob,
    perform_string_replacement,
    slice_read_response,
)

import holdfast
from holdfast.errors import (
    HoldfastError,
    Invalid,
    InvalidPath,
    NotAFile,
    NotAsExpected,
    NotFound,
)
from holdfast.integrations.calling import Agent, within

TRIES: Final = 8
"""How often an edit is made anew while others are quicker."""

_BUSY: Final = (
    "Error: {path} was not edited: others changed it each time before the edit could be written. "
    "Nothing of your edit is in the file. Read the file again, and edit what it holds then; "
    "if that fails as well, wait until the others are done."
)

LINES: Final = 1000
"""Lines that are asked for together."""


class HoldfastBackend(BackendProtocol):
    """Files of a deep agent, in a namespace of this process or of a server."""

    def __init__(self, agent: Agent) -> None:
        self.agent: Any = within(agent)

    # Looking

    def ls(self, path: str) -> LsResult:
        """Lists a directory; those in it end with a slash."""
        try:
            found = self.agent.files.list(_inner(path))
        except HoldfastError as exc:
            return LsResult(error=_told(exc))
        return LsResult(entries=[_listed(each) for each in found])

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Reads lines of a text; what is no text comes whole, in base64."""
        try:
            data = self.agent.files.read(_inner(file_path))
        except HoldfastError as exc:
            return ReadResult(error=_told(exc))
        # By the name: the tool that hands it to the model goes by that, and takes it for base64.
        text = _text(data) if _get_backend_read_file_type(file_path) == "text" else None
        if text is None:
            whole = b64encode(data).decode("ascii")
            return ReadResult(file_data=FileData(content=whole, encoding="base64"))
        return slice_read_response(FileData(content=text, encoding="utf-8"), offset, limit)

    def grep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        """Finds the lines that hold a text, `max_count` of them at the most."""
        matches, cursor, ends = list[GrepMatch](), None, monotonic() + DEFAULT_GREP_TIMEOUT
        try:
            root = _inner(path or "/")
            fits = _matcher(glob, root)
            while True:
                found = self.agent.files.grep(pattern, root, limit=LINES, cursor=cursor)
                matches += [
                    GrepMatch(path=f"/{each.path}", line=each.line, text=each.text)
                    for each in found.matches
                    if fits(each.path)
                ]
                cursor = found.next_cursor
                is_enough = max_count is not None and len(matches) > max_count
                if cursor is None or is_enough or monotonic() > ends:
                    is_cut = is_enough or cursor is not None
                    return GrepResult(matches=matches[:max_count], truncated=is_cut)
        except NotFound:
            return GrepResult(matches=[])
        except (HoldfastError, InvalidGlobPatternError) as exc:
            return GrepResult(error=_told(exc))

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Finds files by their paths, as every backend of deep agents does."""
        try:
            root = _inner(path or "/")
            fits = _matcher(pattern, root)
            found = self.agent.files.list(root, recursive=True)
        except NotFound:
            return GlobResult(matches=[])
        except (HoldfastError, InvalidGlobPatternError) as exc:
            return GlobResult(error=_told(exc))
        files = (each for each in found if each.kind == "file" and fits(each.path))
        return GlobResult(matches=[_listed(each) for each in files])

    # Changing

    def write(self, file_path: str, content: str) -> WriteResult:
        """Writes a file, over one that is there."""
        try:
            self.agent.files.write(_inner(file_path), content)
        except HoldfastError as exc:
            return WriteResult(error=_told(exc))
        return WriteResult(path=file_path)

    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - as deep agents call it
    ) -> EditResult:
        """Replaces a text in a file; what others write meanwhile is not overwritten."""
        for _ in range(TRIES):
            try:
                return self._edit(file_path, old_string, new_string, replace_all=replace_all)
            except NotAsExpected:
                continue
            except HoldfastError as exc:
                return EditResult(error=_told(exc))
        return EditResult(error=_BUSY.format(path=file_path))

    def _edit(self, file_path: str, old: str, new: str, *, replace_all: bool) -> EditResult:
        path, files = _inner(file_path), self.agent.files
        tag, text = files.stat(path).tag, _text(files.read(path))
        if text is None:
            return EditResult(error="Error: what is no text cannot be edited as one")
        if "\r\n" in text and (old not in text or "\n" not in text.replace("\r\n", "")):
            # As the file ends its lines: what was read of it had other ends.
            old, new = _with_crlf(old), _with_crlf(new)
        done = perform_string_replacement(text, old, new, replace_all)
        if isinstance(done, str):
            return EditResult(error=done)
        files.write(path, done[0], expected=tag)
        return EditResult(path=file_path, occurrences=done[1])

    def delete(self, file_path: str) -> DeleteResult:
        """Deletes a file, or a directory with all that is in it."""
        try:
            self.agent.files.delete(_inner(file_path), recursive=True)
        except HoldfastError as exc:
            return DeleteResult(error=_told(exc))
        return DeleteResult(path=file_path)

    # Bytes

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files, each for itself."""
        return [
            FileUploadResponse(path=path, error=self._upload(path, content))
            for path, content in files
        ]

    def _upload(self, path: str, content: bytes) -> str | None:
        try:
            self.agent.files.write(_inner(path), content)
        except HoldfastError as exc:
            return _code(exc)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files, each for itself."""
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=self.agent.files.read(_inner(path)))
        except HoldfastError as exc:
            return FileDownloadResponse(path=path, error=_code(exc))


class HoldfastSandbox(HoldfastBackend, SandboxBackendProtocol):
    """The same where commands may run: `execute` begins where the files are.

    `HOLDFAST_EXEC=1` says so, here or on the server; else `execute` answers that it is off.
    """

    @property
    def id(self) -> str:
        """What the namespace is called."""
        return str(self.agent.name)

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command of bash in the sandbox; what it leaves is kept, and can be undone."""
        try:
            done = self.agent.exec(command, timeout_s=timeout or None)
        except HoldfastError as exc:
            return ExecuteResponse(output=_told(exc), exit_code=None)
        stopped = "" if done.stopped is None else f"\n[ended: {done.stopped}]"
        output = f"{done.stdout}{done.stderr}{stopped}"
        return ExecuteResponse(output=output, exit_code=done.exit_code, truncated=_is_cut(done))


def _is_cut(done: "holdfast.Executed") -> bool:
    return done.stopped is not None and done.stopped.value == "output"


def _inner(path: str) -> str:
    """Returns a path as the namespace has it; raises `InvalidPath` for one that is not whole."""
    if not path.startswith("/"):
        raise InvalidPath(path, reason="it has to begin with /")
    return path.strip("/")


def _matcher(pattern: str | None, root: str) -> Callable[[str], bool]:
    """Returns what says of a path whether it fits a pattern below a directory."""
    if pattern is None:
        return lambda _: True
    fits, start = compile_grep_include_glob(pattern), len(root) + 1 if root else 0
    return lambda path: fits(path[start:] or path.rpartition("/")[2])


def _listed(found: "holdfast.FileInfo") -> FileInfo:
    is_dir = found.kind == "directory"
    changed = "" if found.modified_at is None else found.modified_at.isoformat()
    path = f"/{found.path}{'/' * is_dir}"
    return FileInfo(path=path, is_dir=is_dir, size=found.size_bytes, modified_at=changed)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _told(exc: Exception) -> str:
    return f"Error: {exc}"


def _code(exc: HoldfastError) -> str:
    """Returns the word by which deep agents know what went wrong with a file."""
    known: Iterable[tuple[type[HoldfastError], str]] = (
        (NotFound, "file_not_found"),
        (NotAFile, "is_directory"),
        (Invalid, "invalid_path"),
    )
    return next((word for kind, word in known if isinstance(exc, kind)), _told(exc))
