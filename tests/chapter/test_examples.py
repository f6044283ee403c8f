"""The op examples that the chapter prints, with their names in quotes: numbers without types, locations without quotes.

Signs that the print has for others (times for x, a semicolon for a colon, a missing bracket) are put right.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Module
from tpuc.errors import VerifyError
from tpuc.interpreter import Interpreter
from tpuc.ir.text import parse_module, print_module
from tpuc.registry import Registry
from tpuc_testing.equality import first_difference

EXAMPLES = (Path(__file__).parent / "examples.txt").read_text("utf-8").splitlines()
PARTS = re.compile(
    r'(?P<result>%\d+) = "[\w.]+"\((?P<operands>.*?)\).*?: ?\((?P<types>tensor.*)\) ?-> (?P<type>\S+) loc'
)


def read(example: str) -> Module:
    """A module with the example, whose operands are arguments."""
    parts = PARTS.match(example)
    assert parts is not None, example
    names, types = (re.split(r", ?", parts[key]) for key in ("operands", "types"))
    arguments = ", ".join(f"{name}: {type}" for name, type in zip(names, types, strict=True))
    head = f"func.func @main({arguments}) -> {parts['type']}"
    text = f"module @m {{ {head} {{ {example} return {parts['result']} : {parts['type']} }} }}"
    return parse_module(text, Registry().resolve_op)


def test_examples_are_read_and_computed() -> None:
    for example in EXAMPLES:
        module = read(example)
        module.verify()
        operation = next(operation for operation in module.main.operations if operation.name)
        assert not operation.extra_attributes, example
        assert operation.is_registered, example
        again = parse_module(print_module(module), Registry().resolve_op)
        assert first_difference(module, again) is None, example
        random = np.random.default_rng(0)
        inputs = {f"arg{index}": value.tensor for index, value in enumerate(module.main.inputs)}
        arrays = {name: random.uniform(0.5, 1.5, type.shape).astype(np.float32) for name, type in inputs.items()}
        (result,) = Interpreter(module).run(arrays).values()
        assert result.shape == operation.result.tensor.shape, example


LSTM = (
    '%6 = "top.LSTM"(%0, %1, %2, %3, %4, %5) {batch_first = false, bidirectional = true, have_bias = true}: '
    "(tensor<75x2x128xf32>, tensor<2x256x128xf32>, tensor<2x256x64xf32>, tensor<2x512xf32>, tensor<2x2x64xf32>, "
    "tensor<2x2x64xf32>) -> tensor<75x2x2x64xf32> loc(LSTM)"
)


def test_what_an_example_leaves_out_is_said_behind_the_parser() -> None:
    module = read(LSTM)
    with pytest.raises(VerifyError, match="hidden_size must be stated; it is the last extent of the recurrence"):
        module.verify()


def test_a_list_in_round_brackets_is_one() -> None:
    """As the chapter prints those of Deconv."""
    square, round_ = (f'"top.Permute"(%0) {{order = {order}}}' for order in ("[0, -1]", "(0, -1)"))
    rest = ": (tensor<2x3xf32>) -> tensor<2x3xf32> loc(x)"
    assert first_difference(read(f"%1 = {square}{rest}"), read(f"%1 = {round_}{rest}")) is None
