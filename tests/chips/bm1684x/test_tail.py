"""Which ops of an int8 network stay float: those behind the last convolution that compute."""

from __future__ import annotations

from tpuc.ir.text import parse_module
from tpuc.registry import Registry
from tpuc.schedule import PassContext
from tpuc_passes.keep_tail_float import KeepTailFloat

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
    return context.results.get("quantise_table", {})


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
