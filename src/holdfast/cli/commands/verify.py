"""`holdfast verify`: hashes everything again and names what is damaged."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DAMAGED, DONE, PARTIAL
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast verify                  exit code 0: everything is as it was stored; 5: it is not;
                                   6: only what `holdfast repair` has named as lost is not
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Hashes everything in the vault again and names what is damaged. Repairs nothing."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="go on without changes that the catalog has lost: they are not told of any more",
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    vault = get_vault(console)
    if arguments.accept_loss:
        vault.accept_loss()
    with console.progress() as progress:
        verified = vault.verify(progress=progress)
    console.answer(document=lambda: _document(verified), lines=lambda: _lines(console, verified))
    if verified.ok:
        return DONE
    return PARTIAL if verified.is_noted else DAMAGED


def _lines(console: Console, verified: "holdfast.Verified") -> Iterator[str]:
    if verified.ok:
        if not console.is_quiet:
            are = "is" if verified.roots == 1 else "are"
            yield (
                f"All is well: {words.number(verified.objects, 'object')} in "
                f"{words.number(verified.packs, 'pack')} ({words.size(verified.bytes)}) hash to "
                f"their names, {words.number(verified.roots, 'root')} {are} whole."
            )
        return
    said = "KNOWN TO BE LOST" if verified.is_noted else "DAMAGED"
    yield console.paint(f"{said}: {words.number(len(verified.faults), 'fault')}", "red")
    for fault in verified.faults:
        needed = f" (needed by {', '.join(fault.snapshots)})" if fault.snapshots else ""
        known = ", known" if fault.is_noted and not verified.is_noted else ""
        yield f"  {escaped(fault.what)}: {escaped(fault.reason)}{escaped(needed)}{known}"
    if console.is_quiet:
        return
    hints = dict.fromkeys(fault.hint for fault in verified.faults if fault.hint)
    if hints:
        yield from hints
    elif verified.is_noted:
        yield "`holdfast repair` has named all of it; `--from` a copy may still bring it back."
    else:
        yield "`holdfast repair` rebuilds what can be rebuilt."


def _document(verified: "holdfast.Verified") -> dict[str, object]:
    return {
        "ok": verified.ok,
        "packs": verified.packs,
        "objects": verified.objects,
        "bytes": verified.bytes,
        "roots": verified.roots,
        "faults": [
            {
                "what": fault.what,
                "reason": fault.reason,
                "object_id": None if fault.object_id is None else fault.object_id.hex(),
                "snapshots": list(fault.snapshots),
                "noted": fault.is_noted,
            }
            for fault in verified.faults
        ],
    }
