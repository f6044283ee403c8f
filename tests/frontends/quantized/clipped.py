"""How far a chip's values are from those of ONNX Runtime, stated value by stated value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from tpuc.api import FunctionChip, Module, TpucError, Uniform
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.running import as_stored
from tpuc_lower.target.kernels import find_function, find_kernel, runs_on_chip

from tests.frontends.quantized.clipping import Array, Cases
from tests.models.rows import lower

_SUFFIXES = ("_clipped", "_q", "_q_limited", "", "_i8", "_u8", "_stored")
"""Of the names that a stated value may have, by who stored it."""


@dataclass(frozen=True)
class Off:
    """The largest difference of one stated value in steps of its scale; `own` is a step of the chip's value in these.
    `refused` where the chip takes no such op.
    """

    name: str
    op: str
    steps: float
    own: float = 1.0
    refused: str = ""


def judged(cases: Cases, chip: str, path: Path) -> list[Off]:
    """Of every stated value; operands are those that the chip computed."""
    onnx.save(cases.model(), path)
    try:
        lowered = lower(Session().transform(path), chip, None, None)
        ask_kernels(lowered, chip)
    except TpucError as error:
        return [Off("", ", ".join(cases.ops), 0.0, refused=str(error))]
    return compared(cases, lowered)


def ask_kernels(lowered: Module, chip: str) -> None:
    """Raise Unsupported if a kernel refuses an op of the lowered network."""
    context = Session(chip=chip).context()
    for operation in filter(runs_on_chip, lowered.main.operations[:-1]):
        if isinstance(context.chip, FunctionChip):
            find_function(context, context.chip, operation)
        else:
            find_kernel(context, operation)


def compared(cases: Cases, lowered: Module) -> list[Off]:
    """The lowered network beside ONNX Runtime, which gets its operands."""
    names = own_names(lowered, cases)
    real = computed(lowered, cases.inputs, names)
    read = {f"{value.name}_dq": real[value.name].reshape(value.dims) for value in cases.values if value.name in real}
    whole = {f"{value.name}_dq": value.step for value in cases.values if f"{value.name}_dq" in read}
    # What a chip computes with floats is not rounded to the steps of its operands' types, or is.
    rounded = {name: (np.rint(read[name] / step) * step).astype(np.float32) for name, step in whole.items()}
    plain = [cases.wanted(given | cases.inputs) for given in (read, rounded)]
    found: list[Off] = []
    for value in cases.values:
        if value.name in names:
            element = types_of(lowered)[names[value.name]].element
            own = element.scale / value.step if isinstance(element, Uniform) else 1.0
            far = np.min([np.abs(read[f"{value.name}_dq"] - one[value.name]) for one in plain], 0).max() / value.step
            found.append(Off(value.name, value.op, float(far), own))
    return found


def own_names(lowered: Module, cases: Cases) -> dict[str, str]:
    """What the lowered network calls the stated values that it has, as integers where it has them."""
    types, own = types_of(lowered), dict[str, str]()
    for value in cases.values:
        spelled = [f"{value.name}{suffix}" for suffix in _SUFFIXES if f"{value.name}{suffix}" in types]
        spelled.sort(key=lambda one: not types[one].is_quantized)
        if spelled and (spelled[0] not in cases.inputs or types[spelled[0]].is_quantized):
            own[value.name] = spelled[0]
    return own


def computed(lowered: Module, inputs: Mapping[str, Array], names: Mapping[str, str]) -> dict[str, Array]:
    """The real values of some of the lowered network's, by other names."""
    types, specs, host = types_of(lowered), inputs_of(lowered), Interpreter(lowered)
    results = host.run(as_stored(specs, dict(inputs)), list(names.values()))
    return {name: real_values(results[one], types[one]).astype(np.float32) for name, one in names.items()}
