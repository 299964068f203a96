"""Flips single bits of a catalog, repairs, and says whether the law of repair held.

After `repair`, `verify` is clean, or what it names was named by `repair`; then a backup can be
made, and nothing that is read is anything else than what was written. And what `repair` names is
lost: it is missed by who reads, or named by `verify`.
"""

import tempfile
from pathlib import Path
from typing import Any, Final, cast

from holdfast.engine.audit.notes import NOTED
from holdfast.errors import Damaged, HoldfastError
from holdfast.model.events import EventRow
from holdfast.model.upkeep import Repaired, Verified
from holdfast.testing.flips import RAW, UNSEEN, WRONG, Flip, judge, look, open_at

CLEAN, KNOWN, UNREADABLE, BROKEN = "clean", "known", "unreadable", "BROKEN"
"""What can come of it: all is as it was; something is lost, and known; the catalog cannot be read
at all, and a backup is named; the law did not hold."""

REMEDY: Final = "reinstate"


def repair_after(before: dict[str, Any], flip: Flip, location: str, objects: Path) -> Flip:
    """Repairs the vault in which a bit was flipped, and looks whether the law holds."""
    try:
        outcome, detail = _repair(before, location, objects)
    except HoldfastError as exc:
        is_told = isinstance(exc, Damaged) and REMEDY in exc.hint
        outcome = UNREADABLE if is_told else BROKEN
        detail = f"{type(exc).__name__} {exc}"
    except Exception as exc:  # noqa: BLE001 - what is none of ours is looked for, too
        outcome, detail = BROKEN, repr(exc)
    return Flip(flip.table, flip.where, outcome, detail)


def _repair(before: dict[str, Any], location: str, objects: Path) -> tuple[str, str]:
    with open_at(location, objects) as vault:
        done = vault.repair()
        found = vault.verify()
        if not found.ok and not found.is_noted:
            return _judge_unknown(done, found)
        if done.ok and not found.ok:
            return BROKEN, f"{done} and {found.faults}"
        with tempfile.TemporaryDirectory() as folder:
            vault.backup(Path(folder, "backup"))
        after = look(vault, before)
    if isinstance(after["events"], list):
        # Told since: the note itself.
        told = cast("list[EventRow]", after["events"])
        after["events"] = [each for each in told if each.type != NOTED]
    outcome, detail = judge(before, after)
    if outcome in (WRONG, RAW):
        return BROKEN, f"{outcome} {detail}"
    if not done.ok and found.ok and outcome == UNSEEN:
        return BROKEN, f"nothing is lost of {done}"
    return (CLEAN if done.ok else KNOWN), str([each.what for each in done.lost])


def _judge_unknown(done: Repaired, found: Verified) -> tuple[str, str]:
    """Judges faults that no note tells of: they are the catalog's own, and a backup is named."""
    unknown = [fault for fault in found.faults if not fault.is_noted]
    named = "".join(each.what for each in done.lost)
    if all(REMEDY in fault.hint or fault.reason in named for fault in unknown):
        return UNREADABLE, str(found.faults[0])
    return BROKEN, f"{found.faults} after {done}"
