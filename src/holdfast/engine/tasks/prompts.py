"""The prompts of the conversations that coding agents have in a directory.

Each prompt is a task, between two snapshots of the directory: one as it was when the prompt came,
and one as it was when the agent had done with it. What lies between them is what it changed, and
it can be taken back like any other task (`timeline/takeback.py`). An agent that is interrupted
tells nobody: then its prompt lasts until the next one of the conversation.

What agents say is heard late, twice, at once, or not at all. So a prompt that was begun before is
not begun again, one that nobody has heard of is begun by whatever comes after it, and one that
has ended goes on if its agent does, until the next one of the conversation begins: what comes then
is of that one, whichever it names. Two that come at once take turns: the row of a prompt is
written under its namespace's lock, with the number that is free then.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, Protocol

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.journal.chain import append
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle, check_text, get_kept
from holdfast.engine.planes.writers import mark_of
from holdfast.engine.tasks.life import add_task, trace_of_task
from holdfast.engine.timeline.diff import collect_changes, iter_changes, to_changes
from holdfast.engine.timeline.steps import own_steps
from holdfast.errors import NothingToUndo, TaskNotFound
from holdfast.ids import SnapshotId
from holdfast.model.basics import Head, Plane, Root, SnapshotInfo
from holdfast.model.changes import Change, Changes
from holdfast.model.prompts import Conversation, Prompt, metadata_of, prompt_of
from holdfast.model.tasks import TaskChange, TaskRun, TaskStatus
from holdfast.operations.snapshots import MAX_LABEL_CHARS
from holdfast.tree import Edit

UNHEARD: Final = "(a prompt that was not heard)"
"""What a prompt is called of which only what came after it was heard."""

AGAIN: Final = timedelta(seconds=5)
"""Within this, the same words from an agent that does not name its prompts are the same prompt."""

RECENT: Final = 20
"""Prompts of a conversation among which one is recognised by its id."""

MOST_SEEN: Final = 2000
"""Tasks among which the last prompt of a conversation is looked for, newest first."""

_FIRST_PAGE: Final = 4
"""Mostly the last task is the prompt that is looked for."""

_PAGE: Final = 50


class Keeps(Protocol):
    """A directory, as prompts need it."""

    def snapshot_if_changed(
        self,
        label: str | None = None,
        *,
        reason: str | None = None,
        task_id: str | None = None,
        trace_id: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> SnapshotInfo | None:
        """Captures the directory if it differs from what the timeline stands on."""
        ...


class Prompts:
    """The prompts that agents were given in one directory."""

    def __init__(self, handle: Handle, directory: Keeps) -> None:
        self._handle, self._directory = handle, directory

    def begin(self, talk: Conversation, name: str, *, id: str | None = None) -> Prompt:  # noqa: A002 - what it is called everywhere
        """Begins a prompt, and keeps what is there; the one before it in the talk has ended."""
        check_text("name", name, max_chars=MAX_LABEL_CHARS)
        again = None if id is None else self.find_last(talk, id=id)
        if again is not None and again.id == id:
            return again
        last, task_id = self.find_last(talk), self._handle.context.ids.task()
        # What an interrupted prompt has left is its own.
        owner = last.task.id if last is not None and last.is_open else task_id
        taken = self._keep(talk, name, task_id=owner, reason="before a prompt")
        with self._handle.context.work() as transaction:
            head = self._handle.lock_or_create(transaction)
            before = _newest(transaction, head) if taken is None else taken.id
            recent = [*_recent(transaction, head, talk)]
            last = recent[0] if recent else None
            again = next((e for e in recent if self._is_again(e, name, before=before, id=id)), None)
            if again is not None:
                return again
            if last is not None and last.is_open:
                self._end(transaction, head, last, after=before)
            number = 1 if last is None else last.number + 1
            task = TaskRun(
                began=mark_of(head).changes,
                id=task_id,
                namespace_id=head.namespace_id,
                name=name,
                metadata=metadata_of(talk, number=number, id=id),
                actor=self._handle.context.actor,
                before=before,
                # Listed by when they began: never one before the one that it comes after.
                started_at=_after(last, self._handle.context.clock()),
            )
            add_task(transaction, self._handle, task)
            append(transaction, self._handle.context, head, trace_of_task("task.started", task))
        return Prompt(conversation=talk, number=number, id=id, task=task)

    def keep(
        self,
        talk: Conversation,
        *,
        reason: str,
        id: str | None = None,  # noqa: A002 - what it is called everywhere
    ) -> SnapshotInfo | None:
        """Keeps what is there in the midst of a prompt, if something has changed."""
        prompt = self._meant(talk, id)
        name, task_id = prompt.task.name, prompt.task.id
        taken = self._keep(talk, name, task_id=task_id, reason=reason)
        if taken is not None and not prompt.is_open:
            # It was thought to have ended: it has now, as far as anybody knows.
            self._note_end(prompt, taken)
        return taken

    def end(
        self,
        talk: Conversation,
        *,
        id: str | None = None,  # noqa: A002 - what it is called everywhere
    ) -> Prompt | None:
        """Ends the last prompt of a conversation, and keeps what is there; None if there is none.

        Said again, it ends where the agent is now, unless that is at a later prompt.
        """
        prompt = self.find_last(talk, id=id)
        if prompt is None or self._later(prompt) is not None:
            return prompt
        return self.close(prompt)

    def close(self, prompt: Prompt) -> Prompt:
        """Keeps what is there as what a prompt has left; returns the prompt as it is then."""
        talk, task = prompt.conversation, prompt.task
        taken = self._keep(talk, task.name, task_id=task.id, reason="after a prompt")
        if taken is None and not prompt.is_open:
            return prompt
        return self._note_end(prompt, taken)

    def find_last(
        self,
        talk: Conversation,
        *,
        id: str | None = None,  # noqa: A002 - what it is called everywhere
    ) -> Prompt | None:
        """Returns the last prompt of a conversation, or the one of an id; None if there is none."""
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            return None if head is None else _last_of(transaction, head, talk, id=id)

    def list(self, *, talk: Conversation | None = None, limit: int | None = None) -> list[Prompt]:
        """Returns the prompts of a conversation, or of all of them, newest first."""
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            if head is None:
                return []
            found = _prompts(transaction, head, most=None)
            if talk is not None:
                found = _of_talk(found, talk)
            return [*islice(found, limit)]

    def changes(self, prompt: Prompt, *, limit: int | None) -> Changes:
        """Returns what a prompt changed, up to where its conversation is now.

        Raises `SnapshotNotFound` once retention has taken one of its snapshots.
        """
        task = prompt.task
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.get_head(transaction)
            ends = task.before, task.after or _newest(transaction, head)
            before, after = (get_kept(transaction, head.namespace_id, each) for each in ends)
            source = StagedObjects(self._handle.objects_in(transaction))
            own = own_steps(transaction, source, task, before=before, after=after)
            roots = source.get_root(before.root), source.get_root(after.root)
            found = iter_changes(source, *roots) if own is None else _steps(source, own, *roots)
            return collect_changes(found, limit=limit, counts=True)

    # Inside

    def _keep(
        self, talk: Conversation, name: str, *, task_id: str, reason: str
    ) -> SnapshotInfo | None:
        return self._directory.snapshot_if_changed(
            name,
            reason=reason,
            task_id=task_id,
            trace_id=talk.session,
            metadata={"agent": talk.agent, "session": talk.session},
        )

    def _meant(self, talk: Conversation, id: str | None) -> Prompt:  # noqa: A002 - as above
        found = self.find_last(talk, id=id)
        if found is None and (last := self.find_last(talk)) is not None and last.is_open:
            # Of a part of the agent's with ids of its own.
            found = last
        if found is None:
            return self.begin(talk, UNHEARD, id=id)
        return self._later(found) or found

    def _later(self, prompt: Prompt) -> Prompt | None:
        """Returns the prompt that its conversation is at, if this one ended before that began."""
        last = None if prompt.is_open else self.find_last(prompt.conversation)
        return None if last is None or last.number <= prompt.number else last

    def _is_again(self, last: Prompt, name: str, *, before: SnapshotId, id: str | None) -> bool:  # noqa: A002 - as above
        if id is not None or last.id is not None:
            return last.id == id
        age = self._handle.context.clock() - last.task.started_at
        is_same = last.is_open and last.task.name == name and last.task.before == before
        return is_same and age < AGAIN

    def _note_end(self, prompt: Prompt, taken: SnapshotInfo | None) -> Prompt:
        with self._handle.context.work() as transaction:
            head = self._handle.lock(transaction)
            task = transaction.find_task(head.namespace_id, prompt.task.id)
            if task is None:
                raise TaskNotFound(prompt.task.id)
            last = _last_of(transaction, head, prompt.conversation)
            is_passed = last is not None and last.number > prompt.number
            if is_passed and task.status is not TaskStatus.RUNNING:
                # The next one began meanwhile, and has ended this one where it did.
                return replace(prompt, task=task)
            after = _newest(transaction, head) if taken is None else taken.id
            return self._end(transaction, head, replace(prompt, task=task), after=after)

    def _end(
        self, transaction: Transaction, head: Head, prompt: Prompt, *, after: SnapshotId
    ) -> Prompt:
        context, task = self._handle.context, prompt.task
        done = replace(task, status=TaskStatus.COMPLETED, after=after, ended_at=context.clock())
        transaction.end_task(done, seen=task.status)
        if prompt.is_open:
            append(transaction, context, head, trace_of_task("task.completed", done))
        return replace(prompt, task=done)


def _after(last: Prompt | None, now: datetime) -> datetime:
    return now if last is None else max(now, last.task.started_at + timedelta(microseconds=1))


def _prompts(transaction: Transaction, head: Head, *, most: int | None) -> Iterator[Prompt]:
    """Yields the prompts among the tasks of a namespace, newest first."""
    cursor, seen = None, 0
    while most is None or seen < most:
        size = _PAGE if seen else _FIRST_PAGE
        page = transaction.list_tasks(head.namespace_id, status=None, before=cursor, most=size)
        for task in page:
            prompt = prompt_of(task)
            if prompt is not None:
                yield prompt
        if len(page) < size:
            return
        cursor, seen = (page[-1].started_at, page[-1].id), seen + len(page)


def _of_talk(prompts: Iterator[Prompt], talk: Conversation) -> Iterator[Prompt]:
    """Yields the prompts of a conversation, and looks no further than to its first."""
    for prompt in prompts:
        if prompt.conversation == talk:
            yield prompt
            if prompt.number == 1:
                return


def _recent(transaction: Transaction, head: Head, talk: Conversation) -> Iterator[Prompt]:
    return islice(_of_talk(_prompts(transaction, head, most=MOST_SEEN), talk), RECENT)


def _last_of(
    transaction: Transaction,
    head: Head,
    talk: Conversation,
    *,
    id: str | None = None,  # noqa: A002 - what it is called everywhere
) -> Prompt | None:
    """Returns the last prompt of a conversation; with an id, the one that has it, or has none."""
    found = _recent(transaction, head, talk)
    return next((each for each in found if id is None or each.id in (None, id)), None)


def _newest(transaction: Transaction, head: Head) -> SnapshotId:
    """Returns the snapshot that a head was moved to last; raises if it has none.

    Not its position: after an undo that is an older one, with the same content.
    """
    newest = transaction.timeline(head.namespace_id, before=None, most=1)
    found = head.position if not newest or newest[0].deleted_at is not None else newest[0].id
    if found is None:
        raise NothingToUndo("nothing was kept of this directory yet")
    return found


def _steps(
    source: StagedObjects, own: list[TaskChange], before: Root, after: Root
) -> Iterator[Change]:
    for plane in Plane:
        edits = (Edit(e.key, e.old_entry, e.new_entry) for e in own if e.plane is plane)
        maps = before.plane(plane), after.plane(plane)
        yield from to_changes(source, plane, edits, maps)
