"""Calls that make no sense: the function, the reason and the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tpuc_lang as tl

from tests.frontends.lang.programs import compiled, const, floats, integers, numbers

CASES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: tl.relu(tl.Tensor([1, 2], "int8", name="x", scale=0.5), relu_limit=6.0),
        "relu: tensor 'x' is int8; its limit and offsets need tl.dequantize.",
    ),
    (
        lambda: tl.conv_v2(integers(1, 4, 5, 5), tl.Tensor([6, 4, 1, 1], "int8", name="w", zero_point=3)),
        "conv_v2: a weight with a zero point must be constant; give tensor 'w' data.",
    ),
    (
        lambda: tl.conv_v2(integers(1, 4, 5, 5), tl.Tensor([6, 4, 1, 1], "int8", name="w")),
        "conv_v2: the weight of integers must be constant; give tensor 'w' data.",
    ),
    (
        lambda: tl.lstm(floats(5, 1, 4), const(numbers(1, 8, 4)), const(numbers(8, 2))),
        "lstm: the recurrence is [8, 2]; give [directions, 4 * hidden, hidden].",
    ),
    (
        lambda: tl.slice(floats(4, 4), [0], [1, 1]),
        "slice: offset, size and steps need 2 numbers each, and sizes are at least 1.",
    ),
    (
        lambda: tl.split(floats(4, 4), 0, 2, out_names=["a"]),
        "split: it makes 2 parts, and there are 1 names; give one for each.",
    ),
    (
        lambda: tl.interpolate(floats(4, 4), [2, 2]),
        "interpolate: images of 4 dimensions are resized to two extents, not [4, 4] to [2, 2].",
    ),
    (
        lambda: tl.dequantize(
            tl.Tensor([1, 3], "int8", name="x", scale=[0.5, 0.25, 1.0], zero_point=[1, 2]),
        ),
        "dequantize: tensor 'x' has 3 scales and 2 zero points.",
    ),
    (
        lambda: tl.quantize(floats(4), 0.5, out_dtype="int32"),
        "quantize: out_dtype is 'int32'; use int8, uint8, int16 or uint16.",
    ),
]


@pytest.mark.parametrize(("call", "wanted"), CASES)
def test_sentences(call: Callable[[], object], wanted: str) -> None:
    with pytest.raises(tl.LangError) as caught:
        call()
    assert str(caught.value) == wanted


def test_tensors_of_another_network(tmp_path: Path) -> None:
    x = floats(1, 4)
    y = tl.relu(x)
    tl.deinit()
    tl.init("BM1684X")
    with pytest.raises(tl.LangError, match=r"^compile: tensor 'BMTensor0' belongs to another network; build it after"):
        compiled([y], [x], tmp_path)


def test_a_relu_of_integers_begins_at_their_zero_point() -> None:
    y = tl.relu(tl.Tensor([1, 2], "int8", scale=0.5, zero_point=3))
    assert (y.dtype, y.quantisation.zero_point) == ("int8", (3,))
