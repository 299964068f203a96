"""Sends a server what nobody should send, for longer than a test run has time for.

    python bench/soak_server_fuzz.py                      # every hostile text in every place
    python bench/soak_server_fuzz.py --examples 200 --seed 7

Plays what `tests/acceptance/test_server_fuzz.py` plays in every test run, with all texts instead
of some, and with more requests that are made from the OpenAPI document, by another seed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from checks import load_checks

from holdfast.testing.servers import running_server

CHECKS = "acceptance/test_server_fuzz.py"
BY_HAND = (
    "test_hostile_texts_in_paths_are_refused_or_taken_for_what_they_are",
    "test_hostile_texts_in_queries_are_refused_or_taken_for_what_they_are",
    "test_bodies_that_are_none_are_refused",
    "test_every_field_of_every_body_may_hold_anything",
    "test_other_verbs_and_bodies_where_none_belong_do_no_harm",
)


def play(what: str, step: Callable[[], object]) -> bool:
    begun = time.perf_counter()
    try:
        step()
    except (AssertionError, BaseExceptionGroup) as exc:  # What schemathesis raises is no Exception.
        print(f"{what}: {exc}"[:3000])
        return False
    print(f"{time.perf_counter() - begun:6.1f} s  {what}")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=50, help="of each route and kind")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    checks: Any = load_checks(CHECKS)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-fuzz-"))
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}
    went_well = True
    with (
        running_server(folder, environ=environ) as server,
        closing(checks.Fuzz(server, is_thorough=True)) as fuzz,
    ):
        for name in BY_HAND:
            went_well &= play(name, lambda name=name: getattr(checks, name)(fuzz))
        for operation in fuzz.operations():
            went_well &= play(
                operation.label,
                lambda operation=operation: fuzz.play(
                    operation, examples=options.examples, number=options.seed
                ),
            )
        went_well &= play("the log", fuzz.check_well)
    sys.exit(0 if went_well else 1)


if __name__ == "__main__":
    main()
