"""Tell which outputs of a run are NaN or infinite, and which op made them so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc.ir import Module, Operation, Value

Array: TypeAlias = npt.NDArray[Any]
Since: TypeAlias = Callable[[Mapping[str, Array], str], str]
"""From the inputs of a run and the name of an output to the end of a sentence about it."""


def nonfinite_remarks(
    sample: str, values: Mapping[str, Array], since: Callable[[str], str]
) -> Iterable[tuple[str, str]]:
    """For each output of a sample with NaN or infinite values its name and a sentence."""
    for name, array in values.items():
        if array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        counts = {"NaN": int(np.isnan(array).sum()), "infinite": int(np.isinf(array).sum())}
        kinds = " and ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        yield name, f"output '{name}' has {kinds} of {array.size:,} values for {sample}; {since(name)}"


def since_in_file(_inputs: Mapping[str, Array], _name: str) -> str:
    """The way out for compiled files, whose inner values are not known."""
    return "to see which op made them so, compile with --work-dir DIR and run the last .mlir file in it"


def since_in(module: Module, inputs: Mapping[str, Array], name: str) -> str:
    """Run a module again and find the op that made an output NaN or infinite."""
    found, types = dict[str, bool](), types_of(module)

    def see(value: str, array: Array) -> None:
        real = real_values(array, types[value]) if value in types else array
        if real.dtype.kind == "f" and not np.isfinite(real).all():
            found[value] = bool(np.isnan(real).any())

    Interpreter(module).run(inputs, on_value=see)
    first = _first(next(value for value in module.main.outputs if value.name == name), found)
    if first is None:
        return "an input or constant has such values"
    kind = "NaN" if found.get(first.result.name) else "infinite"
    storage = first.result.tensor.storage
    where = f"in {storage} " if storage.is_float else ""
    return f"{kind} {where}since op '{first.result.name}' ({first.op.name}), whose operands are finite"


def _first(value: Value, found: Mapping[str, bool]) -> Operation | None:
    """The op that makes a value NaN or infinite from finite operands; None if an input or constant has such values."""
    operation = value.defining
    while operation is not None:
        bad = next((one for one in operation.operands if one.name in found), None)
        if bad is None:
            return operation if operation.operands else None
        operation = bad.defining
    return None
