"""`holdfast switch`: lets the directory show another namespace.

What is in the directory is kept where it was first, and what is pending in the other namespace is
kept there, so that nothing is lost on either side. Then the directory is attached to the other one,
as if it had been what that shows and were changed by hand: so nothing comes into it but by what is
next. It becomes what the other timeline stands on, which gains nothing by that; if it holds what no
snapshot does, or that is in the way, it is restored instead, which keeps that first. If that cannot
be, nothing was written, the directory is attached as before and the other timeline stands where it
stood; after a crash in between, the directory holds what it held, which `status` shows as changes,
and `holdfast restore` of the last snapshot goes on.
"""

from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli import thin, words
from holdfast.cli.attached import get_workspace
from holdfast.cli.background import end_watcher
from holdfast.cli.console import Console
from holdfast.cli.exits import code_of_proof, usage
from holdfast.cli.restored import most_listed
from holdfast.cli.views import restored_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast switch idea             the directory becomes what this namespace shows
  holdfast switch -c idea          fork it first
  holdfast switch shop             and back

What is in no snapshot yet is kept in the namespace that it belongs to.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Lets the directory show another namespace; what it holds is kept first."
    parser.epilog = EXAMPLES
    parser.add_argument("name", metavar="NAME", help="the namespace to show")
    parser.add_argument("-c", "--create", action="store_true", help="fork it from here first")
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    before, directory, name = workspace.namespace.name, str(workspace.path), arguments.name
    if name == before:
        raise usage(f"the directory shows {name} already", hint="`holdfast namespaces` lists all.")
    if arguments.create:
        from holdfast.cli.commands.fork import fork  # noqa: PLC0415 - if it is asked for

        fork(console, workspace, name, at=None)
    left, target = _keep_both(workspace, _known(console, name), name)
    location = console.location()
    # Whoever watches the directory watches it for the namespace that it leaves.
    folder = thin.run_folder(location)
    if folder is not None:
        end_watcher(folder, directory)
    console.vaults.release()
    restored = _show(
        console,
        target,
        left=left,
        directory=directory,
        names=(before, name),
        force=arguments.force,
    )
    console.answer(
        # `left` is here the namespace: a restore that leaves something there is of a task alone.
        document=lambda: {**restored_view(restored), "namespace": name, "left": before},
        lines=list,
    )
    if not console.is_json and not console.is_quiet:
        proof = words.proof(console, is_verified=restored.verified, lacking="")
        changes = restored.changes.summary()
        console.say(f"The directory shows {escaped(name)} now: {changes}, {proof}")
        for line in words.change_lines(console, restored.changes):
            console.say(line)
        console.say(f"`holdfast switch {escaped(before)}` goes back.")
    return code_of_proof(console, is_verified=restored.verified, differing=restored.differing)


def _known(console: Console, name: str) -> "holdfast.Namespace":
    """Returns a namespace that is there, and that no directory shows; refuses otherwise."""
    from holdfast.errors import AlreadyAttached, NamespaceNotFound  # noqa: PLC0415 - for mistakes alone

    vault = console.open_vault(console.location())
    if name not in vault.namespaces(prefix=name):
        raise NamespaceNotFound(name).with_hint(
            "`holdfast namespaces` lists them; with -c a new one is forked."
        )
    for each in vault.workspaces():
        if each.namespace == name and each.path.is_dir():
            raise AlreadyAttached(str(each.path), namespace=name)
    return vault.namespace(name)


def _keep_both(
    workspace: "holdfast.Workspace", other: "holdfast.Namespace", name: str
) -> "tuple[holdfast.SnapshotInfo, holdfast.SnapshotInfo]":
    """Keeps what the directory holds, and what was written to the other one, where they belong.

    Returns the snapshots that both then stand on.
    """
    workspace.snapshot_if_changed(reason=f"before switching to {name}")
    if other.is_dirty():
        other.snapshot(reason="before a directory shows it")
    return workspace.namespace.get_snapshot("@"), other.get_snapshot("@")


def _show(
    console: Console,
    target: "holdfast.SnapshotInfo",
    *,
    left: "holdfast.SnapshotInfo",
    directory: str,
    names: tuple[str, str],
    force: bool,
) -> "holdfast.Restored":
    """Attaches the directory to the other namespace, and makes it what that shows."""
    location, (before, name) = console.location(), names
    shown = console.vaults.attach(location, directory, namespace=name, force=True, stands_on=target)
    console.workspaces[:] = [shown]
    try:
        with console.progress() as progress:
            most = most_listed(console)
            return shown.enter(target, left=left, limit=most, progress=progress) or shown.restore(
                target.id, force=force, limit=most, progress=progress
            )
    except Exception:
        # What it found in the directory it has kept first, and stands on that now.
        console.vaults.release()
        vault = console.open_vault(location)
        at = vault.namespace(before).get_snapshot("@")
        console.vaults.attach(location, directory, namespace=before, force=True, stands_on=at)
        other = vault.namespace(name)
        if other.get_snapshot("@").id != target.id:
            other.restore(target.id)
        raise
