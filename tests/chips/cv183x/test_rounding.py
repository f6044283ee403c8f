"""Short multipliers, scales that suit them, and casts through bf16: no error beyond one rounding, none of one sign."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tpuc.api import F32, Calibrated, LoweringNode, Module, Op, ScalarType, TensorType, Uniform, UniformPerAxis
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_cv18.isa import DType, Scalar
from tpuc_cv18.lowerings.common import as_bf16, bf16, decompose_qdm, may_move_scale, short_factor
from tpuc_cv18.lowerings.qdm import quantize_qdm
from tpuc_cv18.lowerings.sums import choose_multipliers
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_ops.quant.arithmetic import Rounding, requantize_qdm
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold
from tpuc_testing.kernel_conformance import Sample, sample_module
from tpuc_testing.values import build_exposed

from tests.families import each

Array = NDArray[Any]
I8, U8 = ScalarType("i8"), ScalarType("u8")


def stored(scalar: ScalarType, scale: float = 1.0) -> TensorType:
    """One quantized value."""
    return TensorType((1, 1), Uniform(scalar, F32, scale))


@given(st.floats(2.0**-31, 0.999999))
def test_a_factor_keeps_15_bits_and_needs_no_second_rounding_unless_it_is_tiny(factor: float) -> None:
    multiplier, shift = decompose_qdm(factor)
    assert 0 < multiplier < 1 << 31
    assert shift == 0 or (factor < 2.0**-15 and shift >= 14)
    said = Fraction(multiplier, 1 << 31 + shift)
    assert abs(said / Fraction(factor) - 1) <= Fraction(1, 1 << 15)


@each("factor", [0.9037, 0.3011, 0.2103, 0.1207, 1.003e-3, 3.01e-5])
def test_rounding_leaves_no_bias(factor: float) -> None:
    """Sums evenly spread; two roundings with a shift of 2 would leave an eighth of a step away from 0."""
    reach = round(100 / factor)
    sums = np.unique(np.linspace(1, reach, 40000).astype(np.int64))
    multiplier, shift = decompose_qdm(factor)
    got = requantize_qdm(sums, multiplier, shift, 0, Rounding.HALF_AWAY_FROM_ZERO, np.int8).astype(np.float64)
    assert abs((got - sums * factor).mean()) < 0.02  # few sums have few remainders
    assert np.abs(got - sums * factor).max() <= 0.5 + 2e-3


@given(st.floats(2.0**-20, 200.0), st.sampled_from([127, 255]))
def test_a_short_factor_is_the_nearest(factor: float, limit: int) -> None:
    multiplier, shift = short_factor(factor, limit)
    assert 1 <= multiplier <= limit
    step = Fraction(1, 1 << shift)
    assert abs(multiplier * step - Fraction(factor)) <= step / 2 or factor > limit
    assert multiplier > limit // 2 or shift in (0, 31)


@given(
    st.lists(st.floats(0.02, 1.5), min_size=2, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_multipliers_of_sums(factors: Sequence[float], unsigned: Sequence[bool], result: bool, fixed: bool) -> None:
    """Within the fields; the result's scale moves a little unless it is fixed; what is left is small at full range."""
    types = [stored(U8 if one else I8) for one in unsigned[: len(factors)]]
    choice = choose_multipliers(factors, types, stored(U8 if result else I8), fixed=fixed)
    assert choice.widening == 1.0 if fixed else 1 - 2.0**-7 <= choice.widening <= 1 + 2.0**-4
    largest = max(choice.multipliers, key=abs)
    assert all(value <= 127 for value in choice.multipliers if value is not largest)
    odd = largest // (largest & -largest)
    assert odd <= 127
    assert 0 <= choice.shift <= (8 if result else 31)
    steps = [255 if one else 128 for one in unsigned]
    if len(factors) > 2:
        assert sum(value * step for value, step in zip(choice.multipliers, steps, strict=False)) <= 32767
    for value, factor in zip(choice.multipliers, factors, strict=True):
        left = abs(value / 2**choice.shift - factor / choice.widening)
        assert left <= 2.0**-5  # eight bits in all for four operands that add up to sixteen


def test_a_movable_scale_leaves_less_than_a_fixed_one() -> None:
    factors = (0.7071, 0.5503)
    left: list[float] = []
    for fixed in (True, False):
        choice = choose_multipliers(factors, [stored(U8), stored(I8)], stored(U8), fixed=fixed)
        said = [value / 2**choice.shift * choice.widening for value in choice.multipliers]
        left.append(max(abs(one / factor - 1) for one, factor in zip(said, factors, strict=True)))
    assert left[1] < left[0] / 2


def test_products_with_a_scale_per_channel() -> None:
    """Depthwise filters take the operand's scale of their channel, others that of every input channel."""
    random = np.random.default_rng(1)
    source = UniformPerAxis(I8, F32, 1, (0.02, 0.5, 0.11), (0, 0, 0))
    result = UniformPerAxis(I8, F32, 1, (0.3, 0.7, 0.05), (0, 0, 0))
    for filters in (random.normal(size=(3, 1, 3, 3)), random.normal(size=(3, 3, 3, 3))):
        product = quantize_qdm(filters, None, source, result)
        by_channel = np.array(source.scales)
        scales = by_channel.reshape(3, 1, 1, 1) if filters.shape[1] == 1 else by_channel.reshape(1, 3, 1, 1)
        wanted = filters * scales / np.array(result.scales).reshape(3, 1, 1, 1)
        factors = [m / 2.0 ** (31 + s) for m, s in zip(product.multipliers, product.right_shifts, strict=True)]
        steps = np.array(factors).reshape(3, 1, 1, 1)
        assert np.abs(product.filters * steps - wanted).max(axis=(1, 2, 3)) == pytest.approx(0, abs=steps.max() / 2)


def _compiled(op: Op, operands: list[Any], table: dict[str, tuple[float, float]]) -> tuple[Module, dict[str, Array]]:
    session = Session(chip="cv183x", quantize="int8")
    module, inputs = sample_module({"y": Sample(op, operands)}, Registry())
    values = Interpreter(module).run(inputs, "all")
    ranges = {name: table.get(name, (float(array.min()), float(array.max()))) for name, array in values.items()}
    entries = {name: TensorThreshold(max(-low, high), low, high) for name, (low, high) in ranges.items()}
    final, data = build_exposed(session, module, CalibrationTable(entries))
    return final, session.chip.load(data).run(inputs)


def test_bytes_of_images_pass_the_cast_as_parts_of_255() -> None:
    """float32 to bf16 is rounded, not cut: every k / 255 is k again."""
    x = (np.arange(256, dtype=np.float32) / np.float32(255)).reshape(1, 4, 8, 8)
    final, got = _compiled(top.MulConst(const_val=1.0), [x], {})
    (bytes_,) = [got[o.name] for o in final.main.operations if o.op.name == "tpu.Cast" and o.result.tensor.is_quantized]
    assert (bytes_.reshape(-1) == np.arange(256)).all()


def test_averages_have_no_error_of_one_sign() -> None:
    """Planes of one value each: an 8-bit multiplier for the calibrated scale would be off by up to 0.4 % of it."""
    planes = np.arange(1, 201, dtype=np.float32)
    x = np.broadcast_to(planes.reshape(1, -1, 1, 1), (1, 200, 7, 7)).copy()
    final, got = _compiled(top.AvgPool(kernel_shape=(7, 7)), [x], {"y_x0": (0.0, 255.0), "y": (0.0, 233.0)})
    (pool,) = [o for o in final.main.operations if o.op.name == "tpu.Pool2D"]
    means = got[pool.name].reshape(-1) * pool.result.tensor.uniform.scale
    assert abs((means / planes)[50:].mean() - 1) < 5e-4
    assert np.abs(means - planes).max() <= pool.result.tensor.uniform.scale * 0.501


def test_scales_stay_where_a_join_copies() -> None:
    type_ = TensorType((1, 2), Calibrated(F32, -1.0, 1.0))
    alone = LoweringNode(top.Add(), (type_, type_), (type_,), "y", users=(top.MulConst(const_val=2.0),))
    joined = LoweringNode(
        top.Add(), (type_, type_), (type_,), "y", users=(top.Concat(axis=1), top.MulConst(const_val=2.0))
    )
    assert may_move_scale(alone)
    assert not may_move_scale(joined)


@each(
    ("value", "bits"),
    [
        (-np.inf, 0xFF7F),
        (np.inf, 0x7F7F),
        (-3.4028234663852886e38, 0xFF7F),
        (3.3895313892515355e38, 0x7F7F),
        (-0.5, 0xBF00),
        (1e300, 0x7F7F),
    ],
)
def test_a_bf16_number_beyond_the_largest_is_the_largest_of_its_sign(value: float, bits: int) -> None:
    assert Scalar.of(value, DType.BF16).bits == bits
    assert as_bf16(np.array([value]))[0] == bits
    assert np.float32(bf16(value)).view(np.uint32) == bits << 16
