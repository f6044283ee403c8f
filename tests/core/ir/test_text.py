"""MLIR text: what is printed, and that nothing is lost on the way there and back."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.ir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DialectAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
)
from tpuc.ir.op import UnregisteredOp
from tpuc.ir.operation import Location, Module
from tpuc.ir.text import (
    attributes_of,
    parse_attribute,
    parse_module,
    parse_type,
    print_attribute,
    print_module,
    print_type,
    read_module,
    write_module,
)
from tpuc.ir.types import (
    DYNAMIC,
    F32,
    I8,
    I64,
    Calibrated,
    FunctionType,
    NoneType,
    OpaqueType,
    ScalarType,
    TensorType,
    Type,
    Uniform,
    UniformPerAxis,
)
from tpuc_testing.equality import first_difference, same_module

from tests.core.ir.ops import Everything, Relu, resolve
from tests.families import each

GROUPED = """\
#loc = loc(unknown)
#loc1 = loc("in")
module @net attributes {module.chip = "ALL", module.weight_file = "w.npz"} {
  module @net attributes {module.step = 0 : i64} {
    func.func @main(%arg0: tensor<1x8xf32> loc(unknown)) -> (tensor<1x4xf32, 4096 : i64>, tensor<1x4xf32>) {
      %0 = "t.Input"(%arg0) : (tensor<1x8xf32>) -> tensor<1x8xf32> loc(#loc1)
      %1:2 = call @part(%0) : (tensor<1x8xf32>) -> (tensor<1x4xf32, 4096 : i64>, tensor<1x4xf32>) loc(#loc)
      return %1#0, %1#1 : tensor<1x4xf32, 4096 : i64>, tensor<1x4xf32> loc(#loc)
    } loc(#loc)
    func.func @part(%arg0: tensor<1x8xf32> loc("in")) -> (tensor<1x4xf32, 4096 : i64>, tensor<1x4xf32>) \
attributes {id = 0 : i64, mode = #tpu<run_mode TPU_STATIC>, next_index = array<i32: -1>} {
      %0:2 = "t.Group"(%arg0) ({
        %2:2 = "t.Split"(%arg0) {ginfo = #tpu.lg<out_addr = 0, h_idx = [0, 1], id = 2>} : (tensor<1x8xf32>) -> \
(tensor<1x4xf32>, tensor<1x4xf32>) loc(#loc8)
        %3 = "t.Relu"(%2#1) {relu_limit = 6.000000e+00 : f64} : (tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc3)
        "t.Yield"(%2#0, %3) : (tensor<1x4xf32>, tensor<1x4xf32>) -> () loc(#loc7)
      }) {hsecs = 1 : i64, nsecs = 1 : i64} : (tensor<1x8xf32>) -> (tensor<1x4xf32, 4096 : i64>, tensor<1x4xf32>) \
loc(#loc7)
      %1 = "t.Relu"(%0#1) {relu_limit = -1.000000e+00 : f64} : (tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc5)
      return %0#0, %1 : tensor<1x4xf32, 4096 : i64>, tensor<1x4xf32> loc(#loc6)
    } loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("a")
#loc3 = loc("c")
#loc4 = loc("b")
#loc5 = loc("d")
#loc6 = loc("net.py":3:7)
#loc7 = loc(fused[#loc2, #loc3])
#loc8 = loc(fused[#loc2, #loc4])
"""


def unknown(_: str) -> None:
    """A resolver that knows no op."""


def wrapped(body: str, arguments: str = "%arg0: tensor<4xf32>", result: str = "tensor<4xf32>") -> str:
    return f"module @m {{\n  func.func @main({arguments}) -> {result} {{\n{body}\n  }}\n}}\n"


def round_trip(text: str) -> Module:
    """Parse, print, parse again, with known and with unknown ops."""
    for resolver in (unknown, resolve):
        module = parse_module(text, resolver)
        printed = print_module(module)
        again = parse_module(printed, resolver)
        assert first_difference(module, again) is None
        assert print_module(again) == printed
    return module


@each("resolver", [unknown, resolve])
def test_a_module_with_groups_calls_and_locations_prints_as_it_was_read(resolver) -> None:
    assert print_module(parse_module(GROUPED, resolver)) == GROUPED


def test_a_fused_location_names_each_result() -> None:
    module = parse_module(GROUPED, resolve)
    split = next(operation for operation in module.walk() if operation.op.name == "t.Split")
    assert [value.name for value in split.results] == ["a", "b"]
    assert split.location == Location(("a", "b"))


TYPES: list[tuple[str, Type]] = [
    ("tensor<1x3x8x8xf32>", TensorType((1, 3, 8, 8), F32)),
    ("tensor<f32>", TensorType((), F32)),
    ("tensor<*xf32>", TensorType(None, F32)),
    ("tensor<?x3xi64>", TensorType((DYNAMIC, 3), I64)),
    ("tensor<4xsi8, 4295618560 : i64>", TensorType((4,), ScalarType("si8"), IntegerAttr(4295618560))),
    ("tensor<4xf8E4M3FN>", TensorType((4,), ScalarType("f8E4M3FN"))),
    (
        "tensor<2x!quant.calibrated<f32<-4.1780586242675781:4.493000e+00>>>",
        TensorType((2,), Calibrated(F32, -4.1780586242675781, 4.493)),
    ),
    (
        "tensor<2x!quant.uniform<i8:f32, 0.034005123961205579:-5>>",
        TensorType((2,), Uniform(I8, F32, 0.034005123961205579, -5)),
    ),
    (
        "tensor<2x!quant.uniform<u8:f32, 1.000000e+00>, 4096 : i64>",
        TensorType((2,), Uniform(ScalarType("u8"), F32, 1.0), IntegerAttr(4096)),
    ),
    ("tensor<2x!quant.uniform<i8<-127:127>:f32, 5.000000e-01>>", TensorType((2,), Uniform(I8, F32, 0.5, 0, -127, 127))),
    (
        "tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01,1.000000e+00:-2}>>",
        TensorType((2, 3), UniformPerAxis(I8, F32, 1, (0.5, 0.25, 1.0), (3, 0, -2))),
    ),
    ("tensor<2x!quant.any<i8:f32>>", TensorType((2,), OpaqueType("quant.any<i8:f32>"))),
    ("none", NoneType()),
    ("!tf_executor.control", OpaqueType("tf_executor.control")),
    ("!acme.box<tensor<2xf32>, (i32) -> f32>", OpaqueType("acme.box<tensor<2xf32>, (i32) -> f32>")),
    ("tuple<i32, tensor<2xf32>>", OpaqueType("tuple<i32, tensor<2xf32>>")),
    ("() -> ()", FunctionType((), ())),
    ("(i64) -> (f32, none)", FunctionType((I64,), (F32, NoneType()))),
    ("(i64) -> ((i64) -> f32)", FunctionType((I64,), (FunctionType((I64,), (F32,)),))),
]


@each(("text", "type"), TYPES)
def test_types_from_and_to_text(text: str, type: Type) -> None:
    assert parse_type(text) == type
    assert print_type(type) == text


def test_bounds_of_the_whole_storage_type_are_no_bounds() -> None:
    assert parse_type("tensor<2x!quant.uniform<i8<-128:127>:f32, 0.5>>") == TensorType((2,), Uniform(I8, F32, 0.5))


ATTRIBUTES: list[tuple[str, Attribute]] = [
    ("-5 : index", IntegerAttr(-5, ScalarType("index"))),
    ("7 : si32", IntegerAttr(7, ScalarType("si32"))),
    ("1.000000e+00 : f32", FloatAttr(1.0, F32)),
    ("0x7FF0000000000000 : f64", FloatAttr(math.inf)),
    ("0x7FC00000 : f32", FloatAttr(math.nan, F32)),
    ("true", BoolAttr(True)),
    ('"a\\22b\\\\c\\0A\\C3\\A9"', StringAttr('a"b\\c\né')),
    ("unit", UnitAttr()),
    ("[]", ArrayAttr(())),
    ("[1, 2.500000e+00, 3 : i32]", ArrayAttr((IntegerAttr(1), FloatAttr(2.5), IntegerAttr(3, ScalarType("i32"))))),
    ("[[1], [unit, @f]]", ArrayAttr((ArrayAttr((IntegerAttr(1),)), ArrayAttr((UnitAttr(), SymbolAttr("f")))))),
    ("array<i32: -1>", DenseArrayAttr(ScalarType("i32"), (-1,))),
    ("array<i32>", DenseArrayAttr(ScalarType("i32"), ())),
    ("array<i1: true, false>", DenseArrayAttr(ScalarType("i1"), (True, False))),
    ("array<f32: 1.000000e+00>", DenseArrayAttr(F32, (1.0,))),
    ("tensor<2xf32>", TypeAttr(TensorType((2,), F32))),
    ("() -> ()", TypeAttr(FunctionType((), ()))),
    ("@outer::@inner", SymbolAttr("outer::@inner")),
    ('@"odd name"', SymbolAttr("odd name")),
    ("{a = 1 : i64, b}", DictAttr((("a", IntegerAttr(1)), ("b", UnitAttr())))),
    ("{a = {b = [{c}]}}", DictAttr((("a", DictAttr((("b", ArrayAttr((DictAttr((("c", UnitAttr()),)),))),))),))),
    ("#tpu<round_mode HalfUp>", DialectAttr("#tpu<round_mode HalfUp>")),
    ('#tpu.lg<a = [0, 1], b = <x = "a>b">, c = -> >', DialectAttr('#tpu.lg<a = [0, 1], b = <x = "a>b">, c = -> >')),
    ("dense<[1, 2]> : tensor<2xi32>", DialectAttr("dense<[1, 2]> : tensor<2xi32>")),
    ("affine_map<(d0) -> (d0)>", DialectAttr("affine_map<(d0) -> (d0)>")),
]


@each(("text", "attribute"), ATTRIBUTES)
def test_attributes_from_and_to_text(text: str, attribute: Attribute) -> None:
    assert parse_attribute(text) == attribute
    assert print_attribute(attribute) == text


@given(st.text())
def test_every_string_survives_its_text(text: str) -> None:
    if not re.search("[\ud800-\udfff]", text):
        assert parse_attribute(print_attribute(StringAttr(text))) == StringAttr(text)


def test_fields_are_read_by_kind_and_others_kept() -> None:
    module = round_trip(
        wrapped("""
    "t.Everything"() {alpha = 0.5 : f64, axis = -1 : si32, flags = false, ginfo = #tpu.lg<h = [0]>,
      indices = array<i32: 1, 2>, kernel = [3, 4], labels = ["a"], mode = #tpu<round_mode Up>,
      scale = [1.0, 2.5], text = "x", zraw = dense<1> : tensor<i32>, zz = 1 : i64} : () -> () loc("e")
    return %arg0 : tensor<4xf32>""")
    )
    operation = module.main.operations[0]
    assert operation.op == Everything(
        -1, (3, 4), 1, 0.5, False, (1, 2), ("a",), "Up", (1.0, 2.5), "x", DialectAttr("dense<1> : tensor<i32>")
    )
    assert operation.extra_attributes == {"ginfo": DialectAttr("#tpu.lg<h = [0]>"), "zz": IntegerAttr(1)}
    line = next(line for line in print_module(module).splitlines() if "t.Everything" in line)
    assert re.findall(r"(\w+) = [^,]", line.partition("{")[2].replace("h = [", "")) == sorted(
        [*attributes_of(operation.op), "ginfo", "zz"]
    )


def test_defaults_fill_in_and_absent_optional_fields_are_not_printed() -> None:
    module = round_trip(
        wrapped('    "t.Everything"() {axis = 1 : si32, kernel = []} : () -> ()\n    return %arg0 : tensor<4xf32>')
    )
    assert module.main.operations[0].op == Everything(1, ())
    printed = print_module(module)
    assert "group = 1 : i64" in printed
    assert "alpha" not in printed
    assert "zraw" not in printed


def test_ops_that_nobody_knows_keep_everything() -> None:
    module = parse_module(GROUPED, unknown)
    relu = next(operation for operation in module.walk() if operation.op.name == "t.Relu")
    assert isinstance(relu.op, UnregisteredOp)
    assert relu.extra_attributes == {"relu_limit": FloatAttr(6.0)}
    assert not relu.is_registered


def test_properties_several_result_names_comments_and_odd_spacing_are_read() -> None:
    module = round_trip(
        wrapped("""
    // a comment with a { brace
    %a, %b = "t.Split"  ( %arg0 ) <{p = 1 : i64}> {q = 2 : i64} // behind an operation
      :(tensor<4xf32>) -> (tensor<2xf32>,tensor<2xf32>)
    %odd.name-1 = "t.Add"(%a,%b):(tensor<2xf32>, tensor<2xf32>)->tensor<2xf32> loc("s")
    %c:2 = "t.Split"(%arg0) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %d = "t.Add"(%c, %c#1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    func.return %arg0 : tensor<4xf32>""")
    )
    split, add = module.main.operations[:2]
    assert split.extra_attributes == {"p": IntegerAttr(1), "q": IntegerAttr(2)}
    assert add.operands == tuple(split.results)


def test_blocks_with_arguments_and_several_regions_are_kept() -> None:
    module = round_trip(
        wrapped("""
    %0 = "t.If"(%arg0) ({
    ^bb0(%x: tensor<2xf32> loc("x"), %y: i1):
      "t.Yield"(%x) : (tensor<2xf32>) -> ()
    ^bb1:
      "t.Yield"(%arg0) : (tensor<4xf32>) -> ()
    }, {
      "t.Yield"(%arg0) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>""")
    )
    first, second = module.main.operations[0].regions
    assert [len(block.arguments) for block in first.blocks] == [2, 0]
    assert first.blocks[0].arguments[0].name == "x"
    assert len(second.blocks) == 1


def test_a_value_may_be_used_before_it_is_defined() -> None:
    module = round_trip(
        wrapped("""
    "g.graph"() ({
      %0 = "g.next"(%1) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "g.first"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    }) : () -> ()
    return %arg0 : tensor<4xf32>""")
    )
    following, first = module.main.operations[0].regions[0].blocks[0].operations
    assert following.operands == (first.result,)
    assert list(first.result.uses) == [(following, 0)]


LOCATIONS = [
    ('loc("x")', Location(("x",))),
    ("loc(unknown)", Location()),
    ('loc(fused["a", "b"])', Location(("a", "b"))),
    ('loc(fused<>["a", "b"])', Location(("a", "b"))),
    ('loc(fused<"meta">["a", "b"])', Location(("a", "b"), 'fused<"meta">["a", "b"]')),
    ('loc("net.py":3:4)', Location((), '"net.py":3:4')),
    ('loc("n"("net.py":3:4))', Location(("n",), '"n"("net.py":3:4)')),
    ('loc("n"(#other))', Location(("n",), '"n"("far")')),
    ('loc(callsite("a" at "b"))', Location((), 'callsite("a" at "b")')),
    ("loc(#other)", Location(("far",))),
    ("loc(fused[#other, #before])", Location(("far", "near"))),
    ('loc("quote\\22d")', Location(('quote"d',))),
]


@each(("text", "location"), LOCATIONS)
def test_locations(text: str, location: Location) -> None:
    body = f'    %0 = "t.Relu"(%arg0) : (tensor<4xf32>) -> tensor<4xf32> {text}\n    return %0 : tensor<4xf32>'
    module = round_trip('#before = loc("near")\n' + wrapped(body) + '#other = loc("far")\n')
    assert module.main.operations[0].location == location


def test_aliases_of_types_and_attributes_are_resolved() -> None:
    text = "!box = tensor<4x!el>\n!el = !quant.uniform<i8:f32, 0.5>\n#map = affine_map<(d0) -> (d0)>\n" + wrapped(
        '    %0 = "t.X"(%arg0) {m = #map, n = [#map]} : (!box) -> !box\n    return %0 : !box', "%arg0: !box", "!box"
    )
    module = round_trip(text)
    operation = module.main.operations[0]
    assert operation.result.type == TensorType((4,), Uniform(I8, F32, 0.5))
    assert operation.extra_attributes["m"] == DialectAttr("affine_map<(d0) -> (d0)>")


def test_functions_without_a_module_get_one() -> None:
    module = round_trip("func.func private @main(%arg0: i64) {\n  return\n}\n")
    assert module.name == ""
    assert module.main.attributes == {"sym_visibility": StringAttr("private")}
    assert print_module(module).startswith(
        "#loc = loc(unknown)\nmodule {\n  func.func private @main(%arg0: i64 loc(unknown)) {"
    )


def test_equal_modules_give_equal_texts_and_different_ones_are_told_apart() -> None:
    a, b = parse_module(GROUPED, resolve), parse_module(GROUPED, resolve)
    assert same_module(a, b)
    assert print_module(a) == print_module(b)
    relu = next(operation for operation in b.walk() if operation.name == "d")
    relu.op = Relu(3.0)
    difference = first_difference(a, b)
    assert difference is not None
    assert re.fullmatch(r"function 'part': operation 'd' \(t.Relu\): op or attributes differ: .*", difference)


def test_a_module_and_its_weights_go_to_files_and_back(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    module = parse_module(GROUPED, resolve)
    module.weights["w"] = np.arange(3, dtype=np.float32)
    write_module(tmp_path / "net.mlir", module)
    back = read_module(tmp_path / "net.mlir", resolve)
    assert same_module(module, back)
    assert not back.weights.is_loaded
    assert back.modules[0].weights is back.weights
    assert back.weights["w"].tolist() == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.mlir", "w.npz"]
