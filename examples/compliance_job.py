"""Ninety days of snapshots for the auditors, and a proof that nobody touched the record.

A schedule takes a snapshot every day, a policy thins them out, and each month's last one is
pinned. Everything that happened is in a chain of hashes: exported, it is checked without the
vault, and a single changed character is found.

Time is an argument (`clock`), so ninety days take a second here. In production nobody calls
`run_schedules` and `forget`: a server does both by itself.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import holdfast

DAYS = 90


class Calendar:
    """A clock that stands still until somebody turns it."""

    def __init__(self) -> None:
        self.now = datetime(2031, 1, 1, 18, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Returns the instant that it shows."""
        return self.now


def live_through(hf: holdfast.Holdfast, ledger: holdfast.Namespace, calendar: Calendar) -> None:
    """Writes something every day, and does what a server would do in the meantime."""
    for day in range(1, DAYS + 1):
        ledger.files.write(f"bookings/{calendar.now:%Y-%m-%d}.csv", f"booking,{day}\n")
        calendar.now += timedelta(days=1)
        hf.run_schedules()
        is_last_of_month = (calendar.now + timedelta(days=1)).day == 1
        if is_last_of_month:
            ledger.pin("latest")
        ledger.forget()


def tamper(exported: Path) -> None:
    """Changes one word of the record, as somebody with something to hide would."""
    exported.write_text(exported.read_text().replace("snapshot.pinned", "snapshot.created", 1))


def main() -> None:
    """Lives through ninety days, then answers an auditor's questions."""
    calendar = Calendar()
    with (
        tempfile.TemporaryDirectory() as folder,
        holdfast.open(Path(folder, "vault"), clock=calendar) as hf,
    ):
        ledger = hf.namespace("ledger")
        ledger.files.write("README.md", "The bookings of one agent.\n")
        ledger.schedules.create(every=timedelta(days=1), label="daily")
        ledger.set_retention(keep_daily=14, keep_weekly=8)
        live_through(hf, ledger, calendar)

        kept = ledger.timeline()
        pinned = [snapshot for snapshot in kept if snapshot.pinned]
        print(f"{DAYS} days, {len(kept)} snapshots kept, {len(pinned)} of them pinned")

        end_of_january = pinned[-1]
        then = ledger.at(end_of_january)
        print(f"on {end_of_january.created_at:%Y-%m-%d}:", len(then.files.list("bookings")), "days")

        report = hf.verify_audit()
        print("the record is whole:", report.is_sound)

        exported = Path(folder, "audit.jsonl")
        lines = hf.export_audit(exported)
        print("checked without the vault:", holdfast.verify_audit_file(exported).checked == lines)

        tamper(exported)
        problems = holdfast.verify_audit_file(exported, anchor=report.anchor).problems
        print("one word changed, found at trace", problems[0].number)


if __name__ == "__main__":
    main()
