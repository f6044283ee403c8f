"""The forms in which every op of TOP is compiled for every chip: cases of lowerings, and ops of several results."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
from tpuc.api import F32, Module, TensorType, TpucError
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.cli.commands.matrix import table_rows
from tpuc_driver.session import Session
from tpuc_driver.support import CompiledForms, refusal_of
from tpuc_ops import top
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Sample, sample_module

from tests.chips.lowered import own_ranges

NODE = "y"


@cache
def forms() -> Mapping[str, Sample]:
    """By name: the op, and the case."""
    from tests.chips.bm1684x import test_best_classes
    from tests.chips.bm1684x.kernels import more_cases, test_lowerings, test_place_lowerings
    from tests.chips.cv18.more_lowering_cases import LAYERS

    groups = [test_lowerings.CASES, more_cases.CASES, test_place_lowerings.CASES, *(group for _, group in LAYERS)]
    found: dict[str, Sample] = {}
    for group in groups:
        for name, case in group.items():
            dims = getattr(case, "result", None)
            operands = list(case.operands)
            if isinstance(case.op, top.MatMul) and len(operands) == 2:
                operands.append(None)  # as front ends write it
            sample = Sample(case.op, operands, None if dims is None else TensorType(dims, F32))
            found.setdefault(f"{case.op.name} {name}", sample)
    (detection,) = test_best_classes.SHOWN
    box, prior = Fixed(np.zeros((1, 4), np.float32)), Fixed(np.float32([[[0, 0, 1, 1], [0.1, 0.1, 0.2, 0.2]]]))
    pooled = top.MaxPoolWithMask(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    integers, scales = np.full((24, 16), 0x5A, np.uint8), np.full((24, 1), 0.125, np.float32)
    stored = [Fixed(integers, "ui8"), Fixed(scales), Fixed(np.full((24, 1), 7, np.uint8), "ui8"), None]
    found |= {
        "top.A16MatMul usual": Sample(top.A16MatMul(q_group_size=32), [uniform(3, 32), *stored]),
        "top.DetectionOutput best": Sample(detection, [box, uniform(1, 7, low=0, high=1), prior]),
        "top.DynamicQuantizeLinear usual": Sample(top.DynamicQuantizeLinear(), [uniform(1, 3, 8, 8)]),
        "top.MaxPoolWithMask usual": Sample(pooled, [uniform(1, 1, 9, 8)]),
    }
    return found


@cache
def _made(name: str) -> tuple[Module, dict[str, np.ndarray]]:
    """A module of one form, and what its values are."""
    module, inputs = sample_module({NODE: forms()[name]}, Registry())
    return module, Interpreter(module).run(inputs, "all")


def module_of(name: str) -> Module:
    """A module of one form."""
    return _made(name)[0]


def refusal(chip: str, mode: str, name: str, registry: Registry) -> str | None:
    """The sentence with which a form is refused; None where it compiles."""
    module, values = _made(name)
    session = Session(registry, chip=chip, quantize=mode, opt=1)
    try:
        session.build(module, own_ranges(values) if mode.startswith("int8") else None)
    except TpucError as error:
        return refusal_of(error, NODE)
    return None


def compiled(chip: str, registry: Registry) -> CompiledForms:
    """All forms in every mode of a chip, as far as its tables have the op."""
    counts: dict[str, int] = {}
    for sample in forms().values():
        counts[sample.op.name] = counts.get(sample.op.name, 0) + 1
    refused: dict[str, dict[str, dict[str, str]]] = {}
    description = registry.get("tpuc.chips", chip).description
    rows = table_rows(registry, description, "top")
    for mode in description.modes:
        for name, sample in forms().items():
            if rows[sample.op.name][mode] is None:
                continue
            if (sentence := refusal(chip, mode, name, registry)) is not None:
                op, _, form = name.partition(" ")
                refused.setdefault(mode, {}).setdefault(op, {})[form] = sentence
    return CompiledForms(counts, refused)


def ops() -> set[str]:
    """Those that have a form."""
    return {sample.op.name for sample in forms().values()}
