"""`--fix-input`, `--dim`, `--input-names`: the network that is left, against ONNX Runtime on the whole one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tpuc.api import ImportOptions, InvalidModel, Unsupported, UsageError
from tpuc.interpreter import Interpreter
from tpuc_driver.cli import main

from tests.families import each
from tests.frontends.onnx.networks import network, node, ops, read, run_onnx, values


def rates() -> onnx.ModelProto:
    """Two branches, of which an integer input chooses one, as voice detectors have them for their sample rates."""
    slow = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["slow"])], "slow", [], [onnx.ValueInfoProto(name="slow")]
    )
    fast = helper.make_graph(
        [helper.make_node("Sigmoid", ["x"], ["fast"])], "fast", [], [onnx.ValueInfoProto(name="fast")]
    )
    choice = helper.make_node("If", ["is_slow"], ["z"], then_branch=slow, else_branch=fast, name="choice")
    nodes = [node("Equal", "sr rate", "is_slow"), choice, node("Add", "z x", "y")]
    weights = {"rate": np.array(8000, np.int64), "two": np.array(2, np.float32)}
    model = network(nodes, {"x": ["batch", "samples"]}, ["y"], weights)
    model.graph.input.append(helper.make_tensor_value_info("sr", TensorProto.INT64, []))
    return model


@pytest.mark.parametrize("rate", [8000, 16000])
def test_a_fixed_input_chooses_a_branch(tmp_path: Path, rate: int) -> None:
    model = rates()
    options = ImportOptions(dims={"batch": 2, "samples": 6}, fixed_inputs={"sr": str(rate)})
    module = read(model, tmp_path, options)
    x = values(2, 6)
    expected = run_onnx(model, {"x": x, "sr": np.array(rate)})["y"]
    np.testing.assert_allclose(Interpreter(module).run({"x": x})["y"], expected, rtol=0, atol=1e-6)
    assert "If" not in ops(module)


def test_forms_of_values(tmp_path: Path) -> None:
    """Text of the command line and arrays of Python mean the same."""
    model = network([node("Mul", "x m", "y")], {"x": [2, 3], "m": [2, 3]}, ["y"])
    x, ramp = values(2, 3), np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "m.npy", ramp)
    for given, meant in {
        "ones": np.ones((2, 3)),
        "zeros": np.zeros((2, 3)),
        "-1.5": np.full((2, 3), -1.5),
        "0,1,2,3,4,5": ramp,
        "[0,1,2,3,4,5]": ramp,
        str(tmp_path / "m.npy"): ramp,
    }.items():
        for value in (given, meant):
            module = read(model, tmp_path, ImportOptions(fixed_inputs={"m": value}))
            assert np.array_equal(Interpreter(module).run({"x": x})["y"], x * meant.astype(np.float32)), given


@pytest.mark.parametrize("cut", ["a", "b"])
def test_a_network_cut_at_its_front(tmp_path: Path, cut: str) -> None:
    """What lies before the cut is not even read: there an operator of nobody."""
    nodes = [
        *(node("Nobody", "x", "n", domain="acme"), node("Add", "n n", "a")),
        *(node("Relu", "a", "b"), node("Mul", "b s", "y")),
    ]
    model = network(nodes, {"x": [2, 3], "s": [2, 3]}, ["y"])
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3]))
    options = ImportOptions(input_names=(cut,), input_shapes=((2, 3), (2, 3)))
    module = read(model, tmp_path, options)
    inputs = {cut: values(2, 3), "s": values(2, 3, seed=2)}
    assert [*Interpreter(module).inputs] == [cut, "s"]
    expected = np.maximum(inputs[cut], 0) * inputs["s"] if cut == "a" else inputs[cut] * inputs["s"]
    assert np.array_equal(Interpreter(module).run(inputs)["y"], expected)


def test_the_command_compares_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rates.onnx"
    onnx.save(rates(), path)
    np.savez(tmp_path / "x.npz", x=values(1, 4))
    given = ["--dim", "batch=1", "--dim", "samples=4", "--fix-input", "sr=16000"]
    words = ["--model-name", "r", "--model-def", str(path), "--mlir", str(tmp_path / "r.mlir")]
    assert main(["transform", *words, *given, "--test-input", str(tmp_path / "x.npz")]) == 0
    assert "1 tensors, cosine >= 1.000000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ImportOptions(dims={"n": 1}, fixed_inputs={"sz": "1"}),
            "has no input named 'sz' (--fix-input). Its inputs are x, sr.",
        ),
        (
            ImportOptions(dims={"n": 1}, fixed_inputs={"sr": "1.5"}),
            "input 'sr' holds int64, but --fix-input gives it 1.5. Give numbers of this type.",
        ),
        (
            ImportOptions(dims={"n": 1}, fixed_inputs={"sr": "fast"}),
            (
                "input 'sr': --fix-input gives 'fast', which is not a value. Give a number, numbers between commas, "
                "ones, "
                "zeros, or an npy file."
            ),
        ),
        (
            ImportOptions(dims={"n": 2}, fixed_inputs={"x": "1,2,3"}),
            (
                "input 'x' has the shape 2x2, and the value that --fix-input gives it has 3. Give one number, or as "
                "many as the input has."
            ),
        ),
        (
            ImportOptions(fixed_inputs={"x": "ones"}),
            "input 'x' has open dimensions (n). Choose them: --dim n=1.",
        ),
        (
            ImportOptions(dims={"n": 2}, fixed_inputs={"x": "ones", "sr": "1"}),
            "--fix-input leaves no input, so nothing is computed at run time. Keep one.",
        ),
        (
            ImportOptions(input_names=("yy",)),
            "has no tensor named 'yy' (--input-names). Did you mean 'y'?",
        ),
    ],
)
def test_refusals(tmp_path: Path, options: ImportOptions, sentence: str) -> None:
    model = network([node("Cast", "sr", "f", to=1), node("Mul", "x f", "y")], {"x": ["n", 2]}, ["y"])
    model.graph.input.append(helper.make_tensor_value_info("sr", TensorProto.INT64, []))
    with pytest.raises((UsageError, InvalidModel)) as caught:
        read(model, tmp_path, options)
    assert str(caught.value).endswith(sentence)


def test_only_tensors_of_numbers_are_fixed(tmp_path: Path) -> None:
    model = network([node("Relu", "x", "y")], {"x": [2]}, ["y"])
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    model.graph.input.append(helper.make_value_info("some", helper.make_optional_type_proto(tensor)))
    with pytest.raises(Unsupported, match="input 'some' is an optional value, but only tensors of numbers"):
        read(model, tmp_path, ImportOptions(fixed_inputs={"some": "1"}))


@each(
    ("option", "sentence"),
    [
        (["--dim", "n=many"], "n=many is not an extent such as n=128."),
        (["--dim", "n=0"], "n=0 is not an extent such as n=128."),
        (["--dim", "n"], "'n' is not NAME=VALUE."),
        (["--fix-input", "=1"], "'=1' is not NAME=VALUE."),
        (["--fix-input", "x=1", "--fix-input", "x=2"], "'x' is given twice: 1 and 2."),
    ],
)
def test_options_that_say_nothing(option: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "net.onnx", "--chip", "bm1684x", *option]) == 2
    assert sentence in capsys.readouterr().err
