"""Calls that make no sense: the function, the reason and the way out."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import tpuc_lang as tl
from tpuc.registry import Registry

from tests.families import each
from tests.frontends.lang.programs import begin_anew, compiled, const, floats, integers, numbers

CASES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: tl.relu(tl.Tensor([1, 2], "x", dtype="int8", zero_point=[1, 2])),
        "relu: tensor 'x' has several zero points; use tl.dequantize first.",
    ),
    (
        lambda: tl.conv_v2(integers(1, 4, 5, 5), tl.Tensor([6, 4, 1, 1], dtype="int8", name="w", zero_point=3)),
        "conv_v2: a weight with a zero point must be constant; give tensor 'w' data.",
    ),
    (
        lambda: tl.conv_v2(integers(1, 4, 5, 5), tl.Tensor([6, 4, 1, 1], dtype="int8", name="w")),
        "conv_v2: the weight of integers must be constant; give tensor 'w' data.",
    ),
    (
        lambda: tl.lstm(floats(5, 1, 4), const(numbers(1, 8, 4)), const(numbers(8, 2))),
        "lstm: the recurrence is [8, 2]; give [directions, 4 * hidden, hidden].",
    ),
    (
        lambda: tl.slice(floats(4, 4), [0], [1, 1]),
        "slice: starts, ends, steps and axes need as many numbers each, at most 2.",
    ),
    (
        lambda: tl.concat([integers(4), integers(4)], [0.5, 0.5]),
        "concat: there are 2 tensors; give 3 scales and zero points.",
    ),
    (
        lambda: tl.interpolate(floats(4), 2, 2),
        "interpolate: [4] has no rows and columns; give two dimensions or more.",
    ),
    (
        lambda: tl.dequantize(
            tl.Tensor([1, 3], dtype="int8", name="x", scale=[0.5, 0.25, 1.0], zero_point=[1, 2]),
        ),
        "dequantize: tensor 'x' has 3 scales and 2 zero points.",
    ),
    (
        lambda: tl.quantize(floats(4), 0.5, out_dtype="int32"),
        "quantize: out_dtype is 'int32'; use int8, uint8, int16 or uint16.",
    ),
]


@each(("call", "wanted"), CASES)
def test_sentences(call: Callable[[], object], wanted: str) -> None:
    begin_anew()
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
    y = tl.relu(tl.Tensor([1, 2], dtype="int8", scale=0.5, zero_point=3))
    assert (y.dtype, y.quantization.zero_point) == ("int8", (3,))


def test_functions_of_packages_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("tpuc_lang.custom"), "_registry", lambda: Registry(offers=[]))
    with pytest.raises(tl.LangError) as caught:
        tl.custom([floats(4)], "acme", ["float32"])
    assert str(caught.value) == (
        "custom 'acme': there is no such function, no installed package offers one; install the package that has it."
    )
