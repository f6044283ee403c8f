"""PyTorch networks in memory: modules, which are exported with example inputs, and exported programs."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tpuc.api import Unsupported, UsageError, file_stem
from tpuc_driver.api.objects import ObjectReader

EXPORTING_ERRORS = (AttributeError, ImportError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""Exceptions that `torch.export` raises for networks it cannot export, and for inputs that do not fit."""


class TorchObjects(ObjectReader):
    """Writes `.pt2` files."""

    title = "a torch.nn.Module with example_inputs or a torch.export.ExportedProgram"

    def accepts(self, given: object) -> bool:
        """True for a module or an exported program; False if torch is not imported."""
        torch = sys.modules.get("torch")
        if torch is None:
            return False
        return isinstance(given, torch.nn.Module) or type(given).__name__ == "ExportedProgram"

    def write(self, given: Any, example_inputs: Any, folder: Path) -> Path:
        torch = sys.modules["torch"]
        is_module = isinstance(given, torch.nn.Module)
        if is_module and example_inputs is None:
            raise UsageError(
                f"a {type(given).__name__} does not state the shapes of its inputs; give tensors of the shapes to "
                "compile for: tpuc.load(module, example_inputs=(tensor, ...))."
            )
        if not is_module and example_inputs is not None:
            raise UsageError("an exported program states the shapes of its inputs; leave out example_inputs.")
        program = _exported(torch, given, example_inputs) if is_module else given
        path = folder / f"{file_stem(type(given).__name__.lower()) if is_module else 'network'}.pt2"
        torch.export.save(program, path)
        return path


def _exported(torch: Any, module: Any, example_inputs: Any) -> Any:
    """Export a module for inference; its own mode is unchanged."""
    arguments, named = _arguments(torch, example_inputs)
    with _evaluating(module), torch.no_grad():
        try:
            return torch.export.export(module, arguments, named)
        except EXPORTING_ERRORS as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = (lines[0] if lines else type(error).__name__).rstrip(".")
            raise Unsupported(
                f"{type(module).__name__}: torch.export cannot export it: {reason}. Change the network or the "
                "example inputs, or export it to ONNX in another way."
            ) from error


def _arguments(torch: Any, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return example inputs by position and by name; arrays become tensors."""
    if isinstance(given, Mapping):
        by_name = cast("Mapping[str, Any]", given)
        return (), {name: torch.as_tensor(value) for name, value in by_name.items()}
    parts = cast("list[Any]", given) if isinstance(given, tuple | list) else [given]
    return tuple(torch.as_tensor(part) for part in parts), {}


@contextmanager
def _evaluating(module: Any) -> Generator[None]:
    """Put a module and its submodules in evaluation mode, and restore it afterwards."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


READER = TorchObjects()
