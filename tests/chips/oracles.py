"""The modules that drive the vendor's functional models, which lie outside the repository."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def load_oracle(folder: Path, name: str) -> Any:
    """The module of that name in that folder, loaded once."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
