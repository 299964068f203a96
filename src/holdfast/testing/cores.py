"""The in-process store as it is where nothing could be compiled, beside the one that was."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from holdfast import store
from holdfast.store import core

_CORE, _CHOICE = "holdfast.store._core", "holdfast.store.core"


def load_interpreted_store() -> ModuleType:
    """Returns the package `holdfast.store` over the core in plain Python."""
    kept = {name: sys.modules.pop(name) for name in (_CORE, _CHOICE) if name in sys.modules}
    sys.modules[_CORE] = None  # pyright: ignore[reportArgumentType] - how import is told that there is none
    try:
        spec = spec_from_file_location("interpreted_store", store.__file__)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.modules.pop(_CORE, None)
        sys.modules.pop(_CHOICE, None)
        sys.modules.update(kept)
        setattr(store, "core", core)  # noqa: B010 - an attribute that importing made
    return module
