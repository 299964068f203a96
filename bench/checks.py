"""Finds the checks of a test by their path: a soak plays for longer what a test plays briefly."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).resolve().parents[1] / "tests"


def load_checks(path: str) -> ModuleType:
    """Returns a module of tests, which are no package."""
    spec = importlib.util.spec_from_file_location(f"soak_{Path(path).stem}", TESTS / path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not there")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
