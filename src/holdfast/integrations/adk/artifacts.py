"""Artifacts of ADK as files: each version in a folder of its own, beside what is known of it.

    artifacts/APP/USER/sessions/SESSION/NAME/VERSION/content
    artifacts/APP/USER/sessions/SESSION/NAME/VERSION/about.json

Those of a user are in `artifacts/APP/USER/user`. So a person finds them among the files, a console
shows them, and a restore brings them back with all the rest.

A version is one transaction, which happens only if nobody has it: of two who save at the same time
each gets its own. Of one that is larger than a transaction takes, `about.json` comes last, and
makes it one: what a crash leaves before that counts for nothing.
"""

import json
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

from google.adk.artifacts.artifact_util import (
    is_artifact_ref,
    parse_artifact_uri,
    resolve_artifact_reference,
    validate_artifact_reference_scope,
    validate_path_segment,
)
from google.adk.artifacts.base_artifact_service import (
    ArtifactVersion,
    BaseArtifactService,
    ensure_part,
)
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.platform import time as platform_time
from google.genai import types
from pydantic_core import to_jsonable_python

from holdfast import ABSENT
from holdfast.errors import Busy, InvalidPath, NotAsExpected, PathNotFound
from holdfast.integrations import TOGETHER_BYTES
from holdfast.integrations.adk.names import joined
from holdfast.integrations.calling import Place, aside, within

FOLDER: Final = "artifacts"
CONTENT: Final = "content"
ABOUT: Final = "about.json"

MOST_REFERENCES: Final = 5
"""How many artifacts may refer to one another in a row, as in ADK's own services."""

ATTEMPTS: Final = 64
"""How often a version is tried that others got ahead of. Each failure is another's success."""

_USER: Final = "user:"
_NOWHERE: Final = (PathNotFound, InvalidPath)
"""What is not there: of a name that is too long for a file there is none, either."""

_NO_BYTES: Final = types.Blob(mime_type="application/octet-stream", data=b"")
"""What a rewind of ADK saves in place of an artifact that was not there."""


class HoldfastArtifactService(BaseArtifactService):
    """Artifacts among the files of a namespace, whose snapshots hold them."""

    def __init__(self, agent: Place, *, folder: str = FOLDER) -> None:
        self._agent, self._folder = within(agent), folder
        self._files = self._agent.files

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Saves one more version; returns its number, which is 0 of the first."""
        place = self._place(app_name, user_id, filename, session_id)
        part = ensure_part(artifact)
        if is_artifact_ref(part):
            _check_reference(part, app_name, user_id, session_id)
        content, about = _taken_apart(part, custom_metadata or {})
        return await aside(self._save, place, content, about)

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Returns a version, or the last; None if there is none. References are followed."""
        for left in range(MOST_REFERENCES, -1, -1):
            place = self._place(app_name, user_id, filename, session_id)
            part = await aside(self._load, place, version)
            if part is None or not is_artifact_ref(part):
                return None if part is None or _is_nothing(part) else part
            uri = part.file_data.file_uri if part.file_data is not None else None
            _, _, session_id, filename, version = resolve_artifact_reference(
                file_uri=uri or "",
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=left,
            )
        return None

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Returns the names of a user's artifacts, and with a session of those of that one."""
        above = [self._above(app_name, user_id, None)]
        if session_id is not None:
            above.append(self._above(app_name, user_id, session_id))
        names = [name for place in above for name in await aside(self._names_in, place)]
        return sorted(unquote(name) for name in names)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Deletes all versions of an artifact; snapshots still hold them."""
        place = self._place(app_name, user_id, filename, session_id)
        with suppress(*_NOWHERE):
            await aside(self._files.delete, place, recursive=True)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Returns the numbers of an artifact's versions."""
        place = self._place(app_name, user_id, filename, session_id)
        return await aside(self._numbers, place)

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Returns what is known of each version."""
        place = self._place(app_name, user_id, filename, session_id)
        return await aside(self._versions, place)

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Returns what is known of a version, or of the last; None if there is none."""
        place = self._place(app_name, user_id, filename, session_id)
        found = await aside(self._find, place, version)
        return None if found is None else self._version(place, *found)

    def _place(self, app_name: str, user_id: str, filename: str, session_id: str | None) -> str:
        """Returns the folder of an artifact; raises `InputValidationError` for what names none."""
        if not filename:
            raise InputValidationError("an artifact has a name")
        if not filename.startswith(_USER) and session_id is None:
            raise InputValidationError(
                "an artifact of no session has a name that begins with user:"
            )
        owner = None if filename.startswith(_USER) else session_id
        return f"{self._above(app_name, user_id, owner)}/{joined(filename)}"

    def _above(self, app_name: str, user_id: str, session_id: str | None) -> str:
        validate_path_segment(app_name, "app_name")
        validate_path_segment(user_id, "user_id")
        if session_id is not None:
            validate_path_segment(session_id, "session_id")
        scope = "user" if session_id is None else f"sessions/{joined(session_id)}"
        return f"{self._folder}/{joined(app_name, user_id)}/{scope}"

    # The rest is done in threads.

    def _save(self, place: str, content: bytes | None, about: dict[str, Any]) -> int:
        first, text = max(self._numbers(place), default=-1) + 1, json.dumps(about)
        for number in range(first, first + ATTEMPTS):
            try:
                self._write(f"{place}/{number}", content, text)
            except NotAsExpected:
                continue  # Somebody else has this number.
            except InvalidPath as error:
                raise InputValidationError(str(error)) from error
            return number
        message = f"others have saved {ATTEMPTS} versions meanwhile"
        raise Busy(message)

    def _write(self, folder: str, content: bytes | None, about: str) -> None:
        marked = f"{folder}/{ABOUT}", about
        if content is None:
            self._files.write(*marked, expected=ABSENT)
            return
        held = f"{folder}/{CONTENT}", content
        if len(content) + len(about) < TOGETHER_BYTES:
            expected = [(path, ABSENT) for path, _ in (held, marked)]
            self._files.write_many([held, marked], expected=expected)
            return
        self._files.write(*held, expected=ABSENT)
        self._files.write(*marked, expected=ABSENT)

    def _numbers(self, place: str) -> list[int]:
        """Returns the numbers of the versions that are whole."""
        try:
            paths = [info.path for info in self._files.list(place, recursive=True)]
        except _NOWHERE:
            return []
        ends = [path.rsplit("/", 2)[-2:] for path in paths]
        return sorted(
            int(number)
            for number, name in ends
            if name == ABOUT and number.isascii() and number.isdigit()
        )

    def _find(self, place: str, version: int | None) -> tuple[int, dict[str, Any]] | None:
        """Returns a version, or the last, with what is known of it."""
        for number in reversed(self._numbers(place)) if version is None else [version]:
            with suppress(*_NOWHERE):
                return number, json.loads(self._files.read_text(f"{place}/{number}/{ABOUT}"))
        return None

    def _versions(self, place: str) -> list[ArtifactVersion]:
        found = [self._find(place, number) for number in self._numbers(place)]
        return [self._version(place, *each) for each in found if each is not None]

    def _load(self, place: str, version: int | None) -> types.Part | None:
        found = self._find(place, version)
        if found is None:
            return None
        number, about = found
        # As JSON: of bytes in other places of it, that is how they are read back.
        part = types.Part.model_validate_json(json.dumps(about["part"]))
        if about["content"] is None:
            return part
        try:
            data = self._files.read(f"{place}/{number}/{CONTENT}")
        except PathNotFound:
            return None  # It was deleted meanwhile.
        if about["content"] == "text":
            part.text = data.decode()
        else:
            part.inline_data = (part.inline_data or types.Blob()).model_copy(update={"data": data})
        return part

    def _names_in(self, place: str) -> list[str]:
        try:
            return [info.name for info in self._files.list(place) if info.is_dir]
        except _NOWHERE:
            return []

    def _version(self, place: str, number: int, about: dict[str, Any]) -> ArtifactVersion:
        where = joined(self._agent.name) if self._agent.name else ""
        return ArtifactVersion(
            version=number,
            canonical_uri=f"holdfast://{where}/{place}/{number}/{CONTENT}",
            custom_metadata=about["custom_metadata"],
            create_time=about["create_time"],
            mime_type=about["mime_type"],
        )


def _check_reference(part: types.Part, app_name: str, user_id: str, session_id: str | None) -> None:
    """Raises `InputValidationError` for a reference to what belongs to somebody else."""
    uri = part.file_data.file_uri if part.file_data is not None else None
    parsed = parse_artifact_uri(uri or "")
    if parsed is None:
        message = f"Invalid artifact reference URI: {uri}"
        raise InputValidationError(message)
    validate_artifact_reference_scope(
        app_name=app_name, user_id=user_id, session_id=session_id, parsed_uri=parsed
    )


def _taken_apart(
    part: types.Part, custom_metadata: dict[str, Any]
) -> tuple[bytes | None, dict[str, Any]]:
    """Returns what is in an artifact as bytes, if it has some, and all the rest."""
    content, kind, mime_type = None, None, None
    left_out: dict[str, Any] = {}
    if part.inline_data is not None:
        content, kind = part.inline_data.data or b"", "inline_data"
        mime_type, left_out = part.inline_data.mime_type, {"inline_data": {"data"}}
    elif part.text is not None:
        content, kind, mime_type = part.text.encode(), "text", "text/plain"
        left_out = {"text": True}
    elif part.file_data is not None:
        mime_type = None if is_artifact_ref(part) else part.file_data.mime_type
    else:
        raise InputValidationError("Not supported artifact type.")
    about = {
        "content": kind,
        "mime_type": mime_type,
        "create_time": platform_time.get_time(),
        "custom_metadata": to_jsonable_python(custom_metadata, serialize_unknown=True),
        "part": part.model_dump(mode="json", exclude_none=True, exclude=left_out),
    }
    return content, about


def _is_nothing(part: types.Part) -> bool:
    return part == types.Part(inline_data=_NO_BYTES)
