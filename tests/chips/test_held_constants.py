"""Constants that a chip's 16-bit floats do not hold: evaluation and simulator round them the same way, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import ml_dtypes
import numpy as np
import pytest
from tpuc.api import BF16, Op, ScalarType
from tpuc.registry import Registry
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample, as_stored, compile_kernels

from tests.families import each

NUMBERS = (0.1, 1 / 3, -1.7, 300.3, 1e-3)
"""Neither bf16 nor f16 holds any of them."""
WHOLE = ("coeff", "coeffs", "scale", "offset", "scales", "beta", "factor", "pad_const_val")
"""Numbers of ops that are f32 on every chip, or that no kernel of 16-bit floats takes."""
F16 = ScalarType("f16")
CHIPS = {"bm1684x": (F16, BF16), "cv181x": (BF16,), "cv183x": (BF16,)}


def ops_with(number: float) -> dict[str, Op]:
    """Every op of 16-bit floats that has a constant of its own."""
    return {
        "add": tpu.AddConst(const_val=number),
        "add_relu": tpu.AddConst(const_val=number, do_relu=True, relu_limit=abs(number) * 1.1),
        "mul": tpu.MulConst(const_val=number),
        "clip": tpu.Clip(min=min(number, 0.05), max=abs(number)),
        "relu": tpu.Relu(relu_limit=abs(number)),
        "leaky": tpu.LeakyRelu(alpha=number),
        "compare": tpu.CompareConst(mode="GreaterOrEqual", const_val=number, inversed=False),
        "pad": tpu.Pad(paddings=(0, 0, 0, 1, 0, 0, 2, 0), val=number),
    }


def samples(chip: str) -> Mapping[str, Sample]:
    """Those that the chip has kernels for, on values around the constants."""
    random, registry = np.random.default_rng(0), Registry()
    owners = registry.get("tpuc.chips", chip).description.owners
    found: dict[str, Sample] = {}
    for element in CHIPS[chip]:
        kind = np.float16 if element == F16 else ml_dtypes.bfloat16
        for index, number in enumerate(NUMBERS):
            near = np.concatenate([np.full(30, number), random.normal(0, abs(number) * 2, 90)])
            x = near.reshape(1, 4, 5, 6).astype(kind)
            for name, op in ops_with(number).items():
                if registry.find_cell("tpuc.kernels", owners, "tpu", op.name) is not None:
                    found[f"{name}_{element.name}_{index}"] = Sample(op, [x], element)
    return found


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_evaluation_rounds_constants_as_the_chip_does(chip: str) -> None:
    compiled = compile_kernels(samples(chip), chip, Registry())
    got = Registry().get("tpuc.chips", chip).load(compiled.data, "constants").run(compiled.inputs)
    wanted = compiled.expected()
    assert len(wanted) >= 5 * 6 * len(CHIPS[chip])
    bits = {name: (as_stored(got[name], one).view(np.uint16), one.view(np.uint16)) for name, one in wanted.items()}
    assert {name: int((left != right).sum()) for name, (left, right) in bits.items() if (left != right).any()} == {}


def test_no_op_with_a_constant_is_left_out() -> None:
    covered = {type(op) for op in ops_with(0.5).values()}
    found = {op for name in tpu.DIALECT.names() if (op := tpu.DIALECT.op(name)) is not None and _numbers(op)}
    assert found - covered == {tpu.Where}  # selects stored values


def _numbers(op: type[Op]) -> set[str]:
    names = {one.name for one in fields(op) if str(one.type).startswith("F64")}  # pyright: ignore[reportArgumentType]
    return names - {*WHOLE, "relu_limit"}
