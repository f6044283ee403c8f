"""Listings of the source documents, with line numbers and line breaks of the page taken out, survive a round trip."""

from __future__ import annotations

from tpuc.ir.attributes import IntegerAttr, StringAttr
from tpuc.ir.text import parse_module, parse_type, print_module
from tpuc.ir.types import F32, I8, Calibrated, TensorType, Uniform
from tpuc_testing.equality import first_difference

from tests.core.ir.test_text import unknown
from tests.families import each

# S0, listing 1 (its `module_attributes` is `module attributes`).
PAPER = """\
#loc0 = loc(unknown)
module attributes {module.name = "Sample", module.weight_file = "conv2d_weight.npz"} {
  func.func @main(%arg0: tensor<1x16x100x100xf32> loc(unknown)) ->
    tensor<1x32x100x100xf32> {
    %0 = "top.None"() : () -> none loc(#loc0)
    %1 = "top.Input"(%arg0) : (tensor<1x16x100x100xf32>) -> tensor<1x16x100x100xf32>
      loc(#loc1)
    %2 = "top.Weight"() : () -> tensor<32x16x3x3xf32> loc(#loc2)
    %3 = "top.Weight"() : () -> tensor<32xf32> loc(#loc3)
    %4 = "top.Conv"(%1, %2, %3) {dilations = [1, 1], do_relu = false, group = 1 : i64,
      kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]} :
      (tensor<1x16x100x100xf32>, tensor<32x16x3x3xf32>, tensor<32xf32>) ->
      tensor<1x32x100x100xf32> loc(#loc4)
    return %4 : tensor<1x32x100x100xf32> loc(#loc0)
  } loc(#loc0)
} loc(#loc0)
#loc1 = loc("input")
#loc2 = loc("filter_conv1")
#loc3 = loc("bias_conv1")
#loc4 = loc("conv1")
"""

# S4, figure 5-10: names as attributes, no locations.
BOOK = """\
module attributes {module.chip = "ALL", module.name = "Conv2d", module.state = "TOP_F32",
module.weight_file = "conv2d_top_f32_all_weight.npz"} {
    func.func @main(%arg0: tensor<1x16x100x100xf32>) -> tensor<1x32x100x100xf32> {
        %0 = "top.None"(): () -> none
        %1 = "top.Input"(%arg0) {name = "input"}: (tensor<1x16x100x100xf32>) -> tensor<1x16x100x100xf32>
        %2 = "top.Weight"() {name = "weight"}: () -> tensor<32x16x3x3xf32>
        %3 = "top.Weight"() {name = "bias"}: () -> tensor<32xf32>
        %4 = "top.Conv"(%1, %2, %3) {dilations = [1, 1], do_relu = false, group = 1 : i64, kernel_shape = [3, 3],
        name = "output_Conv", pads = [1, 1, 1, 1], strides = [1, 1]}: (tensor<1x16x100x100xf32>,
        tensor<32x16x3x3xf32>, tensor<32xf32>) -> tensor<1x32x100x100xf32>
    return %4 : tensor<1x32x100x100xf32>
    }
}
"""

# S4, figure 5-32.
TPULANG = """\
#loc = loc(unknown)
module attributes {module.FLOPs = 109428480 : i64, module.chip = "ALL", module.name = "model_def", \
module.state = "TOP_F32", module.weight_file = "model_def_top_f32_all_weight.npz"} {
  func.func @main(%arg0: tensor<1x3x173x141xf32> loc(unknown)) -> tensor<1x64x84x69xf32> {
    %0 = "top.input"(%arg0) : (tensor<1x3x173x141xf32>) -> tensor<1x3x173x141xf32> loc(#loc1)
    %1 = "top.Weight"() : () -> tensor<64x1x7x7xf32> loc(#loc2)
    %2 = "top.Weight"() : () -> tensor<64xf32> loc(#loc3)
    %3 = "top.Conv"(%0, %1, %2) {dilations = [1, 1], do_relu = false, group = 1 : i64, kernel_shape = [7, 7], \
pads = [0, 0, 1, 1], relu_limit = -1.000000e+00 : f64, strides = [2, 2]} : (tensor<1x3x173x141xf32>, \
tensor<64x1x7x7xf32>, tensor<64xf32>) -> tensor<1x64x84x69xf32> loc(#loc4)
    return %3 : tensor<1x64x84x69xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("BMTensor0")
#loc2 = loc("BMTensor1")
#loc3 = loc("BMTensor2")
#loc4 = loc("BMTensor3")
"""


@each("text", [PAPER, BOOK, TPULANG], ids=["paper", "book", "tpulang"])
def test_a_listing_is_stable_after_one_round_trip(text: str) -> None:
    module = parse_module(text, unknown)
    printed = print_module(module)
    assert first_difference(module, parse_module(printed, unknown)) is None
    assert print_module(parse_module(printed, unknown)) == printed


def test_the_listing_of_tpulang_prints_as_in_the_book() -> None:
    assert print_module(parse_module(TPULANG, unknown)) == TPULANG


def test_names_of_the_paper_are_locations() -> None:
    module = parse_module(PAPER, unknown)
    assert [operation.name for operation in module.main.operations] == [
        "",
        "input",
        "filter_conv1",
        "bias_conv1",
        "conv1",
        "",
    ]
    assert module.attributes["module.name"] == StringAttr("Sample")


def test_quantized_types_of_the_paper() -> None:
    calibrated = parse_type("tensor<1x16x100x100x!quant.calibrated<f32<-4.1780586242675781:4.4932479858398438>>>")
    assert calibrated == TensorType((1, 16, 100, 100), Calibrated(F32, -4.1780586242675781, 4.4932479858398438))
    quantized = parse_type("tensor<1x16x100x100x!quant.uniform<i8:f32, 0.034005123961205579:-5>>")
    assert quantized == TensorType((1, 16, 100, 100), Uniform(I8, F32, 0.034005123961205579, -5))
    placed = parse_type("tensor<1x32x100x100xf32, 4295618560 : i64>")
    assert placed == TensorType((1, 32, 100, 100), F32, IntegerAttr(4295618560))
