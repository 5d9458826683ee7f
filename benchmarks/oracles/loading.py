"""One file of a package that cannot be imported as a whole, run as it is beside stand-ins."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def stand_in(name: str, **content: object) -> None:
    """Put a module in the place of one that a file imports."""
    module = ModuleType(name)
    module.__dict__.update(content)
    sys.modules[name] = module


def run_file(path: Path, name: str) -> ModuleType:
    """Return the module of a file, known by a dotted name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"{path}: no Python file"
    assert spec.loader is not None, f"{path}: no Python file"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
