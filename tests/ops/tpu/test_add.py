"""tpu.Add and tpu.Sub."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpuc.api import Node, TensorType
from tpuc_ops import tpu
from tpuc_testing import OpConformance, integers, onnx_node, quantized_element, uniform

from tests.ops.tpu import plain


class TestAdd(OpConformance):
    op = tpu.Add()
    reference = onnx_node("Add")
    samples = [uniform(2, 3, 4), uniform(2, 3, 4, seed=1)], [uniform(2, 3, 4), uniform(3, 1)]
    flops = 1


class TestSub(OpConformance):
    op = tpu.Sub()
    reference = onnx_node("Sub")
    samples = ([uniform(2, 3, 4), uniform(3, 1)],)
    flops = 1


@settings(max_examples=60)
@given(st.data())
def test_integers_are_exact(data: st.DataObject) -> None:
    draw = data.draw
    dtypes = [draw(st.sampled_from(["int8", "uint8"])) for _ in range(3)]
    zeros = [draw(st.integers(-3, 3) if dtype == "int8" else st.integers(0, 3)) for dtype in dtypes]
    x, y = (integers(2, 3, dtype=dtype, seed=draw(st.integers(0, 99))) for dtype in dtypes[:2])
    multipliers = (draw(st.integers(1, 127)), draw(st.integers(1, 127)))
    count = draw(st.integers(1, 3))
    common = count == 1
    shifts = tuple(draw(st.integers(0, 9)) for _ in range(count))
    subtract, do_relu = draw(st.booleans()), draw(st.booleans())
    op = (tpu.Sub if subtract else tpu.Add)(multipliers=multipliers, rshifts=shifts, do_relu=do_relu)
    elements = [quantized_element(dtype, 0.5, zero) for dtype, zero in zip(dtypes, zeros, strict=True)]
    types = tuple(TensorType(x.shape, element) for element in elements)
    (result,) = op.evaluate(Node(op, types[:2], types[2:]), [x, y])
    assert result.dtype == dtypes[2]
    for place in np.ndindex(2, 3):
        products = [
            (int(operand[place]) - zero) * multiplier
            for operand, zero, multiplier in zip((x, y), zeros, multipliers, strict=False)
        ]
        if subtract:
            products[1] = -products[1]
        if common:
            total = plain.half_up(plain.scaled(sum(products), 1, shifts[0]))
        elif subtract:
            total = _term(products[0], shifts[0]) - _term(-products[1], shifts[1])
        else:
            total = _term(products[0], shifts[0]) + _term(products[1], shifts[1])
        if count == 3:
            total = plain.half_up(plain.scaled(total, 1, shifts[2]))
        q = plain.saturated(total + zeros[2], dtypes[2])
        assert result[place] == (max(q, zeros[2]) if do_relu else q)


def _term(product: int, shift: int) -> int:
    return plain.saturated(plain.half_up(plain.scaled(product, 1, shift)), "int16")


def test_terms_saturate_at_int16() -> None:
    # 255 * 255 = 65025 becomes 32767 before the sum.
    types = (TensorType((1,), quantized_element("uint8", 1.0)), TensorType((1,), quantized_element("int8", 1.0)))
    op = tpu.Add(multipliers=(255, 127), rshifts=(0, 0))
    (y,) = op.evaluate(Node(op, types, types[1:]), [np.array([255], np.uint8), np.array([-128], np.int8)])
    assert y.item() == 127
    op = tpu.Add(multipliers=(255, 255), rshifts=(0, 0))
    (y,) = op.evaluate(Node(op, types, types[1:]), [np.array([255], np.uint8), np.array([-128], np.int8)])
    assert y.item() == 127  # 32767 - 32640


def test_integers_without_multipliers_are_refused() -> None:
    types = (TensorType((1,), quantized_element("int8", 1.0)),) * 2
    with pytest.raises(ValueError, match="0 multipliers do not fit 2 integer operands"):
        tpu.Add().infer(types)
