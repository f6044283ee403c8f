"""Every lowering cell of every chip that is installed gives at most what a network states of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tpuc.api import F32, FLOAT_MODES, Location, Module, NetworkInput, Op, Operation, ScalarType, TensorType, Uniform
from tpuc.errors import TpucError
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.schedule import PassManager
from tpuc_driver.session import Session
from tpuc_lower.target.results import MODE
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize, Quantize
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Operand, Sample, sample_module

from tests.chips import layer_cases
from tests.chips.cv18 import more_lowering_cases
from tests.chips.lowered import sample_of
from tests.families import each

REGISTRY = Registry()
CLIPPED = 3
"""The scale stated is so many times too small for the values."""
MOST: Mapping[bool, float] = {True: 2.01, False: 3.01}
"""Steps on chips with f32, where filters of floats are rounded to bytes, an error that shows `CLIPPED` times; and on
those whose floats have eight bits.
"""
_IMAGE = uniform(1, 4, 5, 6, low=-3, high=3)


def _ops() -> list[type[Op]]:
    """Of all dialects that are installed."""
    dialects = {name: REGISTRY.get("tpuc.dialects", name) for name in REGISTRY.names("tpuc.dialects")}
    names = [f"{name}.{op}" for name, dialect in dialects.items() for op in dialect.names()]
    return [op for op in map(REGISTRY.resolve_op, sorted(names)) if op is not None]


def _lowered_ops(chip: str) -> dict[type[Op], type[object]]:
    """What lowers ops in a chip's mode for quantized networks."""
    description = REGISTRY.get("tpuc.chips", chip).description
    cells = {op: REGISTRY.lowering(description, op, description.quantized_mode) for op in _ops()}
    return {op: type(cell.value) for op, cell in cells.items() if cell is not None}


LOWERED = {
    name: _lowered_ops(name)
    for name in REGISTRY.names("tpuc.chips")
    if REGISTRY.get("tpuc.chips", name).description.quantized_mode not in FLOAT_MODES
}
CHIPS = [name for name, cells in LOWERED.items() if cells not in [LOWERED[other] for other in LOWERED if other < name]]
"""One of all chips with the same lowerings."""


@dataclass(frozen=True)
class Stated:
    """An op whose operands and result have stated types, and what it gives on their real values."""

    module: Module
    inputs: Mapping[str, Any]
    wanted: Any
    scale: float


def samples() -> Mapping[str, Sample]:
    """One or more for every op that has a lowering: of the lists of cases, or by itself on one image or two."""
    lists = [layers for _, layers in more_lowering_cases.LAYERS]
    cases = {name: case for layers in (*lists, layer_cases.CASES) for name, case in layers.items()}
    found = {name: sample_of(case, [*case.operands, *_absent(case)]) for name, case in cases.items()}
    known = {type(sample.op) for sample in found.values()}
    lowered = {op for cells in LOWERED.values() for op in cells}
    for op in sorted(lowered, key=lambda one: one.name):
        if op not in known:
            found |= {f"{op.name}_{count}": sample for count, sample in _plain_samples(op)}
    return found


def _absent(case: layer_cases.LayerCase) -> list[Operand]:
    """The bias that cases of products leave out, and networks do not."""
    return [None] * (3 - len(case.operands)) if isinstance(case.op, top.MatMul) else []


def _plain_samples(op: type[Op]) -> Iterator[tuple[int, Sample]]:
    """The op without attributes on one image, or on two."""
    for count in (1, 2):
        operands: list[Operand] = [_IMAGE, uniform(1, 4, 5, 6, low=-2, high=2, seed=1)][:count]
        try:
            sample = Sample(op(), operands)
            module, inputs = sample_module({"y": sample}, REGISTRY)
            Interpreter(module).run(inputs)
        except Exception:  # noqa: BLE001  # whatever an op says that needs attributes or other operands
            continue
        yield count, sample


def stated(sample: Sample) -> Stated | None:
    """The sample with bytes of scales; None where its values are no floats, or nothing is there to be clipped."""
    floats, inputs = sample_module({"y": sample}, REGISTRY)
    if any(array.dtype != np.float32 for array in inputs.values()) or not inputs:
        return None
    real = {name: array for name, array in inputs.items() if (array != np.rint(array)).any()}  # others are places
    scales = {name: float(np.float32(max(np.abs(array).max(), 1e-3) / 127)) for name, array in real.items()}
    whole = {name: np.rint(array / np.float32(scales[name])).clip(-127, 127) for name, array in real.items()}
    given = {**inputs, **{name: (array * np.float32(scales[name])).astype(np.float32) for name, array in whole.items()}}
    (result,) = Interpreter(floats).run(given).values()
    largest = float(np.abs(result).max(initial=0.0))
    operation = floats.main.operations[-2]
    if (
        not 0 < largest < 1e6
        or not result.ndim
        or len(operation.results) > 1
        or isinstance(operation.op, (Quantize, Dequantize))
    ):
        return None
    scale = float(np.float32(largest / 127 / CLIPPED))
    for one in list(floats.main.operations):
        if isinstance(one.op, NetworkInput) and one.name in scales:
            _insert(one, Quantize(round_mode="HalfToEven"), Uniform(ScalarType("i8"), F32, scales[one.name]))
    operation.result.type = operation.result.tensor.with_element(Uniform(ScalarType("i8"), F32, scale))
    _insert(operation, Dequantize(), F32)
    floats.main.update_type()
    return Stated(floats, given, np.clip(np.rint(result / scale), -128, 127) * scale, scale)


def _insert(anchor: Operation, op: Op, element: Any) -> None:
    """A cast behind an operation, whose result others read then."""
    value = anchor.result
    name = f"{value.name}_{'real' if isinstance(op, Dequantize) else 'q'}"
    cast = Operation(op, [value], [TensorType(value.tensor.dims, element)], Location((name,)))
    value.replace_with(cast.result)
    cast.set_operand(0, value)
    assert anchor.block is not None
    anchor.block.insert_after(anchor, cast)


def steps_off(case: Stated, op: Op, chip: str) -> float | None:
    """How far the lowered op is from the stated meaning; None where the chip refuses it."""
    description, module = REGISTRY.get("tpuc.chips", chip).description, case.module.clone()
    cell = REGISTRY.lowering(description, op, description.quantized_mode)
    if cell is None:
        return None
    context = Session(REGISTRY, chip=chip).context({MODE: description.quantized_mode})
    try:
        PassManager(context).run(module, ["legalize", "convert-top-to-tpu"], "lower")
    except TpucError:
        return None
    (got,) = Interpreter(module).run(case.inputs).values()
    return float(np.abs(got.reshape(case.wanted.shape) - case.wanted).max() / case.scale)


@pytest.fixture(scope="module")
def cases() -> Mapping[str, tuple[Op, Stated]]:
    found: dict[str, tuple[Op, Stated]] = {}
    for name, sample in samples().items():
        case = stated(sample)
        if case is not None:
            found[name] = (sample.op, case)
    return found


@each("chip", [pytest.param(name, marks=pytest.mark.chip(name)) for name in CHIPS])
def test_lowerings_keep_to_stated_types(chip: str, cases: Mapping[str, tuple[Op, Stated]]) -> None:
    steps = {name: steps_off(case, op, chip) for name, (op, case) in cases.items()}
    taken = {name: off for name, off in steps.items() if off is not None}
    assert len(taken) >= 10
    most = MOST["f32" in REGISTRY.get("tpuc.chips", chip).description.modes]
    wrong = {name: round(off, 2) for name, off in taken.items() if off > most}
    assert not wrong, f"{chip}: steps off: {wrong}"
