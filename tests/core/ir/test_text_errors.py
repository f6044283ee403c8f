"""Every sentence that the parser says, with the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.errors import InvalidModel, ParseError, TpucError
from tpuc.ir.text import parse_attribute, parse_module, parse_type, read_module
from tpuc.npz import write_npz

from tests.core.ir.ops import resolve
from tests.families import each

OP = '    %0 = "t.Relu"(%arg0) {relu_limit = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32> loc("r")'
RETURN = "    return %0 : tensor<4xf32>"


def module_of(*lines: str, before: str = "", after: str = "") -> str:
    body = "\n".join(lines)
    return (
        f"{before}module @m {{\n  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\n  }}\n}}\n{after}"
    )


def everything(attributes: str) -> str:
    return module_of(f'    "t.Everything"() {{{attributes}}} : () -> () loc("e")', "    return %arg0 : tensor<4xf32>")


E = "op 'e' (t.Everything):"
CASES = [
    ("modul @m {}", "1:1", "expected 'module' or 'func.func', found 'modul'"),
    ("module @m {", "1:12", "expected 'func.func', 'module' or '}', found the end of the text"),
    ("module @m {}\nmodule @n {}", "2:1", "a file holds one module, this is a second one; split the file"),
    ("module @m {} func.func @f() { return }", "1:1", "functions stand outside the module; move them into it"),
    ("module @m {\n func.func @f() {\n }\n}", "2:17", "function 'f' is empty; it needs at least a return"),
    (module_of(RETURN), "3:12", "value '%0' is not defined"),
    (module_of(OP, OP, RETURN), "4:5", "value '%0' is defined twice; give one of them another name"),
    (
        module_of(OP.replace("(tensor<4xf32>)", "(tensor<5xf32>)"), RETURN),
        "3:19",
        "value '%arg0' has type tensor<4xf32>, not tensor<5xf32>",
    ),
    (
        module_of(OP.replace("(%arg0)", "(%arg0, %arg0)"), RETURN),
        "3:5",
        "the operation has 2 operands but 1 operand types",
    ),
    (module_of(OP.replace("%0 =", "%0:2 ="), RETURN), "3:5", "the operation names 2 results but has 1 result types"),
    (
        module_of(OP.replace("tensor<4xf32> loc", "tensor<4xq32> loc"), RETURN),
        "3:81",
        "expected the element type of a tensor such as f32, found 'q32'",
    ),
    (
        module_of("    %0 = top.Relu %arg0", RETURN),
        "3:10",
        "expected an operation such as \"top.Relu\"(%0), 'return', 'call' or '}', found 'top.Relu'",
    ),
    (
        module_of('    "t.br"()[^bb1] : () -> ()', RETURN),
        "3:13",
        "op t.br: successor blocks are not supported; only structured regions are",
    ),
    (module_of(OP, RETURN.replace("return", "%1 = return")), "4:10", "a return has no results"),
    (
        module_of(OP.replace('loc("r")', "loc(#nowhere)"), RETURN),
        "3:90",
        "'#nowhere' is not defined in this file; add a line '#nowhere = ...'",
    ),
    (
        module_of(OP.replace('loc("r")', "loc(#a)"), RETURN, after="#a = loc(#b)\n#b = loc(#a)\n"),
        "7:6",
        "the definition of '#a' uses itself",
    ),
    (
        module_of(OP, RETURN, after='#loc1 = loc("a")\n#loc1 = loc("b")\n'),
        "8:1",
        "alias '#loc1' is defined twice; remove one",
    ),
    (
        module_of(OP.replace("{relu_limit = 1.0 : f64}", "{a, a}"), RETURN),
        "3:30",
        "attribute 'a' is there twice; remove one",
    ),
    (
        module_of(OP.replace("{relu_limit = 1.0 : f64}", "{a = 1 b}"), RETURN),
        "3:33",
        "expected '}' or ',' after an attribute, found 'b'",
    ),
    (
        everything("kernel = [1]"),
        "3:5",
        f"{E} attribute 'axis' is missing; add axis = an integer such as 1 : si32",
    ),
    (
        everything("axis = 1 : si32, kernel = 3 : i64"),
        "3:5",
        f"{E} attribute 'kernel' must be a list whose items are each an integer such as 1 : i64, this one is 3 : i64",
    ),
    (
        everything("axis = 1 : i64, kernel = [1]"),
        "3:5",
        f"{E} attribute 'axis' must be an integer such as 1 : si32, this one is 1 : i64",
    ),
    (
        everything('axis = 1 : si32, kernel = [1], mode = "HalfUp"'),
        "3:5",
        f"{E} attribute 'mode' must be a choice such as #tpu<round_mode Name>, this one is \"HalfUp\"",
    ),
    (
        "module @m {\n  func.func @main(x: tensor<4xf32>) {\n  }\n}\n",
        "2:19",
        "expected an argument such as %arg0, found 'x:'",
    ),
    (
        "module @m {\n  func.func @main(%a: tensor<4xf32> {t.note}) {\n  }\n}\n",
        "2:37",
        "attributes of arguments are not supported; put them on the function",
    ),
    (module_of(OP.replace("(%arg0)", "(arg0)"), RETURN), "3:19", "expected a value such as %0, found 'arg0'"),
    (
        module_of(OP.replace("-> tensor<4xf32>", "-> tensor<4x!a>"), RETURN, before="!a = tensor<4xf32>\n"),
        "4:81",
        "a tensor cannot hold values of this type",
    ),
    (module_of(OP.replace('loc("r")', "loc(#)"), RETURN), "3:90", "expected the name of a location"),
    (module_of(OP.replace("{relu_limit", "{?"), RETURN), "3:27", "expected the name of an attribute, found '?'"),
]


@each(("text", "place", "sentence"), CASES)
def test_a_fault_is_named_with_its_place(text: str, place: str, sentence: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_module(text, resolve, "net.mlir")
    assert str(error.value) == f"net.mlir:{place}: {sentence}"


@each(
    ("text", "sentence"),
    [
        ("1.5 : i64", "<attribute>:1:1: 1.5 is not an integer, but its type is i64"),
        ("1 : f32", "<attribute>:1:1: a number of type f32 needs a point; write 1.0"),
        ("0x7F : f32", "<attribute>:1:1: a f32 in hexadecimal has 8 digits"),
        ('"open', "<attribute>:1:1: expected a string in quotes, found '\"open'"),
        ("[1, 2", "<attribute>:1:6: expected ']' or ',' in this list, found the end of the text"),
        ("#tpu.lg<a = [0>", "<attribute>:1:8: the attribute #tpu.lg has no end; a bracket is not closed"),
        ("what", "<attribute>:1:1: expected an attribute, found 'what'"),
        ("true false", "<attribute>:1:6: expected the end of the attribute, found 'false'"),
        ("array<f32: x>", "<attribute>:1:12: expected a number, found 'x'"),
        ("@", "<attribute>:1:1: expected a name after '@'"),
        ("#", "<attribute>:1:1: expected the name of an attribute after '#'"),
        ('#tpu.lg<"open>', "<attribute>:1:9: this string has no end; add the closing quote"),
    ],
)
def test_faults_in_attributes(text: str, sentence: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_attribute(text)
    assert str(error.value) == sentence


@each(
    ("text", "sentence"),
    [
        ("tensor<4xf32", "<type>:1:13: expected '>' after the tensor type, found the end of the text"),
        (
            "tensor<4x!quant.uniform<f8:f32, 1.0>>",
            "<type>:1:25: expected the storage type such as i8 or u8, found 'f8:f32'",
        ),
        ("tensor<4x!quant.calibrated<f32<1.0>>>", "<type>:1:35: expected ':' between minimum and maximum, found '>'"),
        ("vector", "<type>:1:1: expected a type, found 'vector'"),
        ("f32 f32", "<type>:1:5: expected the end of the type, found 'f32'"),
        ("!", "<type>:1:2: expected the name of a type after '!'"),
        ("tensor<4x!quant.calibrated<f32<x:1.0>>>", "<type>:1:32: expected a number, found 'x:1.0'"),
        ("!nowhere", "<type>:1:1: '!nowhere' is not defined in this file; add a line '!nowhere = ...'"),
    ],
)
def test_faults_in_types(text: str, sentence: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_type(text)
    assert str(error.value) == sentence


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"net\.mlir: cannot be read: No such file or directory\. Check the path\."):
        read_module(tmp_path / "net.mlir", resolve)
    (tmp_path / "net.mlir").write_text("\n")
    with pytest.raises(InvalidModel, match=r"net\.mlir: is empty\. Give the \.mlir file\."):
        read_module(tmp_path / "net.mlir", resolve)
    (tmp_path / "net.mlir").write_bytes(b"module \xff")
    with pytest.raises(InvalidModel, match=r"net\.mlir: is not a text file \(byte 7\)\. Give the \.mlir file\."):
        read_module(tmp_path / "net.mlir", resolve)


MODULE = """module @m attributes {module.weight_file = "w.npz"} {
  func.func @main(%arg0: tensor<1x4xf32> loc("x")) -> tensor<1x4xf32> {
    %0 = "t.Weight"() : () -> tensor<4xf32> loc("w")
    %1 = "t.Add"(%arg0, %0) : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32> loc("y")
    return %1 : tensor<1x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
"""


def test_files_edited_by_hand_are_verified_when_read(tmp_path: Path) -> None:
    file = tmp_path / "m.mlir"
    lines = MODULE.splitlines()
    file.write_text("\n".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    with pytest.raises(TpucError, match=r"m\.mlir: op 'y' .*is not computed before it; move one"):
        read_module(file, resolve)
    file.write_text("module @m {}")
    with pytest.raises(InvalidModel, match=r"module 'm' has no function 'main' to run; name one so"):
        _ = read_module(file, resolve).main


@each(
    ("array", "said"),
    [
        (np.zeros(3, np.float32), "its array has shape 3, its type 4"),
        (np.zeros(4, np.int8), "its array holds int8, its type f32"),
        (np.zeros(4, bool), "its array holds bool, its type f32"),
    ],
)
def test_weights_of_another_shape_are_refused_when_read(array: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(MODULE)
    write_npz(tmp_path / "w.npz", {"w": array})
    module = read_module(tmp_path / "m.mlir", resolve)
    with pytest.raises(InvalidModel) as caught:
        _ = module.weights["w"]
    assert str(caught.value) == (
        f"{tmp_path / 'w.npz'}: weight 'w': {said}; the npz does not belong to this module, write both again together"
    )


@each("deep", ["[" * 100_000, "{a = " * 100_000, "{a = " * 3000 + "1" + "}" * 3000])
def test_brackets_without_end_are_a_sentence(deep: str) -> None:
    with pytest.raises(ParseError, match=r"brackets are nested too deeply here; write fewer of them"):
        parse_module(everything(f"x = {deep}"), resolve)
