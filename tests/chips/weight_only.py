"""Networks of products whose matrices are stored as small integers, and what they mean, in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import F32, Module, ScalarType, TensorType
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops import top

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A product of `rows` times a matrix of `columns` rows of `depth` numbers."""

    rows: int
    depth: int
    columns: int
    bits: int
    group: int
    has_bias: bool = False


CASES = [
    Case(1, 64, 128, 4, 64),
    Case(1, 172, 100, 8, 128, has_bias=True),
    Case(1, 172, 64, 4, 128, has_bias=True),
    Case(5, 64, 100, 4, 32, has_bias=True),
    Case(70, 172, 100, 4, 64),
    Case(1, 200, 100, 8, 16),
    Case(7, 200, 70, 4, 16, has_bias=True),
    Case(9, 172, 50, 8, 0, has_bias=True),
    Case(1, 1536, 70, 4, 0),
    Case(1, 5000, 320, 8, 32),
    Case(1, 576, 384, 4, 64),
    Case(66, 576, 384, 16, 64),
    Case(1, 96, 70, 16, 64, has_bias=True),
    Case(40, 96, 70, 16, 64, has_bias=True),
    Case(3, 40, 70, 16, 64),
]
SHOWN = [top.A16MatMul(weight_bits=case.bits, q_group_size=case.group) for case in CASES]
"""The ops of the cases, which chips compute with integers or compose of products of floats."""


def network(cases: Sequence[Case], seed: int = 0) -> tuple[Module, dict[str, Array], dict[str, Array]]:
    """Return one network of all cases, its inputs, and its results in float64."""
    random = np.random.default_rng(seed)
    inputs = {f"x{i}": random.normal(0, 1, (1, case.rows, case.depth)).astype("f2") for i, case in enumerate(cases)}
    builder = _builder(inputs)
    outputs: list[tuple[str, Any]] = []
    wanted: dict[str, Array] = {}
    for index, case in enumerate(cases):
        value, wanted[f"y{index}"] = _product(
            builder, random, case, builder.values[f"x{index}"], inputs[f"x{index}"], f"y{index}"
        )
        outputs.append((f"y{index}", value))
    return builder.finish(outputs), inputs, wanted


def gated(
    shape: Sequence[int], inner: int, bits: int, *, is_last: bool, has_bias: bool = False
) -> tuple[Module, dict[str, Array], Array]:
    """Return a network of two products of one value, their product, and a third product, its input, and its result in
    float64. `is_last`: the third product is the result; otherwise its sum with the input is.
    """
    random = np.random.default_rng(1)
    *_, depth = shape
    inputs = {"x": random.normal(0, 1, shape).astype("f2")}
    builder = _builder(inputs)
    x = builder.values["x"]
    value = builder.build(top.MulConst(const_val=0.5), [x], "half")
    half = inputs["x"] * 0.5
    up = Case(0, depth, inner, bits, 32, has_bias)
    down = Case(0, inner, depth, bits, 32, has_bias)
    one, first = _product(builder, random, up, value, half, "one")
    two, second = _product(builder, random, up, value, half, "two")
    factor = 1 / np.abs(first * second).max()
    scaled = builder.build(
        top.MulConst(const_val=float(factor)), [builder.build(top.Mul(), [one, two], "both")], "scaled"
    )
    result, wanted = _product(builder, random, down, scaled, first * second * factor, "three")
    if not is_last:
        result, wanted = builder.build(top.Add(), [result, value], "sum"), wanted + half
    return builder.finish([("y", result)]), inputs, wanted


def _builder(inputs: dict[str, Array]) -> TopBuilder:
    source = ModuleSource("net", "net", "ONNX", {}, frozenset())
    return TopBuilder(source, [(name, TensorType(array.shape, F32)) for name, array in inputs.items()])


def _product(
    builder: TopBuilder, random: np.random.Generator, case: Case, x: Any, array: Array, name: str
) -> tuple[Any, Array]:
    """Build a product with a random matrix; return it, and its result in float64."""
    group = case.group or -(-case.depth // 32) * 32
    unit = math.lcm(group, 32)
    wide = case.depth if case.bits == 16 else -(-case.depth // unit) * unit
    bias = random.normal(0, 1, case.columns).astype("f4")
    if case.bits == 16:
        matrix = random.normal(0, 0.1, (case.columns, case.depth)).astype("f2").astype("f4")
        operands = [builder.weight("matrix", matrix), builder.none(), builder.none()]
    else:
        numbers = random.integers(0, 1 << case.bits, (case.columns, wide))
        points = random.integers(0, 1 << case.bits, (case.columns, wide // group))
        scale = random.uniform(0.25, 1, points.shape).astype("f2").astype("f4") * 2.0**-case.bits
        matrix = (numbers - np.repeat(points, group, 1)) * np.repeat(scale, group, 1)
        shares = 8 // case.bits
        weight = sum(numbers[:, part::shares] << case.bits * part for part in range(shares))
        operands = [
            builder.weight("weight", np.asarray(weight, "u1"), ScalarType("ui8")),
            builder.weight("scale", scale),
            builder.weight("zp", points.astype("u1"), ScalarType("ui8")),
        ]
    operands.append(builder.weight("bias", bias) if case.has_bias else builder.none())
    op = top.A16MatMul(weight_bits=case.bits, q_group_size=case.group)
    result = array.astype("f8") @ matrix[:, : case.depth].T.astype("f8")
    return builder.build(op, [x, *operands], name), result + (bias if case.has_bias else 0.0)
