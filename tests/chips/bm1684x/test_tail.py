"""What of an int8 network is float: ops behind the last convolution that compute, and what that one gives them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from tpuc.api import QUANTIZE_TABLE, STORED_OUTPUTS
from tpuc.ir.text import parse_module
from tpuc.registry import Registry
from tpuc.schedule import PassContext
from tpuc_driver.session import Session
from tpuc_lower.target.results import FLOAT_SUMS
from tpuc_ops import top
from tpuc_quantize.remedies import keep_tail_float
from tpuc_quantize.remedies.keep_tail_float import KeepTailFloat
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.families import each
from tests.passes.graphs import Network

HEAD = """module @net attributes {module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x3x8x8xf32>) -> OUT {
    %0 = "top.None"() : () -> none
    %1 = "top.Input"(%arg0) : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> loc("x")
    %2 = "top.Weight"() : () -> tensor<4x3x1x1xf32> loc("w")
"""
RELU = '"top.Relu"(%1) : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> loc("relu")'
CONV = (
    '"top.Conv"(%3, %2, %0) {kernel_shape = [1, 1], strides = [1, 1], pads = [0, 0, 0, 0]} : '
    '(tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>, none) -> tensor<1x4x8x8xf32> loc("conv")'
)
IMAGE = "tensor<1x4x8x8xf32>"
ROWS = "tensor<1x4x64xf32>"


def _tail(body: str, result: str) -> dict[str, str]:
    registry = Registry()
    module = parse_module(HEAD.replace("OUT", result) + body + "\n  }\n}\n", registry.resolve_op)
    context = PassContext(registry, registry.get("tpuc.chips", "bm1684x"), {"quantize": "int8"})
    assert not KeepTailFloat().run(module, context)
    return context.find(QUANTIZE_TABLE, {})


def test_a_sigmoid_behind_the_last_convolution_stays_float() -> None:
    body = f"""
    %3 = {RELU}
    %4 = {CONV}
    %5 = "top.Reshape"(%4) {{shape = [1, 4, 64]}} : ({IMAGE}) -> {ROWS} loc("rows")
    %6 = "top.Sigmoid"(%5) : ({ROWS}) -> {ROWS} loc("score")
    return %6 : {ROWS}"""
    assert _tail(body, ROWS) == {"score": "f32"}


def test_what_leads_to_another_convolution_is_no_tail() -> None:
    second = CONV.replace("%3", "%6").replace('loc("conv")', 'loc("last")').replace("1x3x8x8", "1x4x8x8")
    second = second.replace("%2", "%5").replace("4x3x1x1", "4x4x1x1")
    body = f"""
    %3 = {RELU}
    %4 = {CONV}
    %5 = "top.Weight"() : () -> tensor<4x4x1x1xf32> loc("w2")
    %6 = "top.Sigmoid"(%4) : ({IMAGE}) -> {IMAGE} loc("inner")
    %7 = {second}
    return %7 : {IMAGE}"""
    assert _tail(body, IMAGE) == {}


def test_a_network_without_convolutions_has_no_tail() -> None:
    body = f"""
    %3 = {RELU}
    return %3 : tensor<1x3x8x8xf32>"""
    assert _tail(body, "tensor<1x3x8x8xf32>") == {}


def _sums(body: str, result: str, stored: Collection[int] = (), **table: str) -> set[str]:
    """Products whose sums are floats, in a network whose quantize table says `table` already."""
    registry = Registry()
    module = parse_module(HEAD.replace("OUT", result) + body + "\n  }\n}\n", registry.resolve_op)
    results = {STORED_OUTPUTS: frozenset(stored), QUANTIZE_TABLE: table}
    context = PassContext(registry, registry.get("tpuc.chips", "bm1684x"), {"quantize": "int8"}, results=results)
    KeepTailFloat().run(module, context)
    return set(context.result(FLOAT_SUMS))


ROWS_OF_CONV = f"""
    %3 = {RELU}
    %4 = {CONV}
    %5 = "top.Reshape"(%4) {{shape = [1, 4, 64]}} : ({IMAGE}) -> {ROWS} loc("rows")"""
SIGMOID = f'"top.Sigmoid"(%5) : ({ROWS}) -> {ROWS} loc("score")'


def test_sums_are_floats_where_nobody_reads_bytes() -> None:
    assert _sums(f"{ROWS_OF_CONV}\n    return %5 : {ROWS}", ROWS) == {"conv"}
    assert _sums(f"{ROWS_OF_CONV}\n    %6 = {SIGMOID}\n    return %6 : {ROWS}", ROWS) == {"conv"}


def test_few_answers_are_moved_as_floats_and_many_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, twice = "tensor<1x64x4xf32>", "tensor<1x128x4xf32>"
    turned = f"""{ROWS_OF_CONV}
    %6 = "top.Permute"(%5) {{order = [0, 2, 1]}} : ({ROWS}) -> {rows} loc("turned")
    %7 = "top.Concat"(%6, %6) {{axis = 1 : si32}} : ({rows}, {rows}) -> {twice} loc("twice")
    return %7 : {twice}"""
    assert _sums(turned, twice) == {"conv"}
    assert _sums(turned, twice, {0}) == set()
    monkeypatch.setattr(keep_tail_float, "OPTIONS", keep_tail_float.TailOptions(511))
    assert _sums(turned, twice) == set()
    monkeypatch.setattr(keep_tail_float, "OPTIONS", keep_tail_float.TailOptions(512))
    assert _sums(turned, twice) == {"conv"}


def test_sums_become_bytes_where_somebody_wants_them() -> None:
    assert _sums(f"{ROWS_OF_CONV}\n    return %5 : {ROWS}", ROWS, {0}) == set()
    scored = f"{ROWS_OF_CONV}\n    %6 = {SIGMOID}\n    return %6 : {ROWS}"
    assert _sums(scored, ROWS, score="int8") == set()
    assert _sums(scored, ROWS, conv="f16") == set()  # a float layer has no sums of integers
    both = f"{ROWS_OF_CONV}\n    %6 = {SIGMOID}\n    return %6, %5 : {ROWS}, {ROWS}"
    assert _sums(both, f"({ROWS}, {ROWS})", {0}) == {"conv"}  # a float, whatever its position is asked to be
    assert _sums(both, f"({ROWS}, {ROWS})", {1}) == set()


@each("mode", ["int8", "int8-asym"])
@each("do_relu", [False, True])
def test_answers_are_sums_times_one_factor_per_channel(mode: str, do_relu: bool) -> None:
    random = np.random.default_rng(3)
    filters = random.normal(size=(4, 3, 1, 1)).astype(np.float32)
    bias = random.normal(size=4).astype(np.float32)
    net = Network(1, 3, 8, 8)
    weight, shift = net.weight(4, 3, 1, 1), net.weight(4)
    net.module.weights[weight.name], net.module.weights[shift.name] = filters, bias
    op = top.Conv(kernel_shape=(1, 1), do_relu=do_relu, relu_limit=1.5 if do_relu else -1.0)
    module = net.finish(net.op(op, net.input, weight, shift))
    low = -1.0 if mode == "int8" else -0.5
    entries = {name: TensorThreshold(1.0, low, 1.0) for name in (net.input.name, module.main.outputs[0].name)}
    session = Session(chip="bm1684x", quantize=mode)
    data = session.build(module, CalibrationTable(entries)).data
    x = random.uniform(low, 1.0, (1, 3, 8, 8)).astype(np.float32)
    ((name, got),) = session.chip.load(data).run({net.input.name: x}).items()
    assert name == module.main.outputs[0].name
    # By hand: the steps of the operand are 1/128, or 1.5/255 from -0.5 on.
    step, point = (1 / 128, 0) if mode == "int8" else (1.5 / 255, -43)
    q = np.clip(np.floor(np.abs(x / step) + 0.5) * np.sign(x) + point, -128, 127)
    steps = np.abs(filters).max(axis=(1, 2, 3)) / 127
    stored = np.round(filters / steps[:, None, None, None])
    sums = np.einsum("oc,nchw->nohw", stored[:, :, 0, 0], q - point) + np.round(bias / (steps * step))[:, None, None]
    wanted = sums * (steps * step)[:, None, None]
    wanted = np.clip(wanted, 0, 1.5) if do_relu else wanted
    # One step of the sums where a quotient lies on the border between two integers; f32 otherwise.
    assert np.abs(got - wanted).max() <= 1.01 * (steps * step * 127).max()
    assert np.median(np.abs(got - wanted)) <= 1e-6
    assert np.abs(got).max() > 1.2  # beyond the threshold of the table: nothing is cut off
