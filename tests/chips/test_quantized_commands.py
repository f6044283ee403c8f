"""Networks that are quantized already, on every chip from the command line: the mode when nobody names one, 16-bit
integers, and bytes of the network's file at the border of the compiled one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Chip, ChipDescription
from tpuc.registry import Registry
from tpuc_driver.cli import main

from tests.families import each
from tests.frontends.tflite.files import RELU, SAME, Node, Tensor, constant, tflite_file

Array = NDArray[Any]
REGISTRY = Registry()
INSTALLED: list[Chip] = [REGISTRY.get("tpuc.chips", name) for name in REGISTRY.names("tpuc.chips")]
CHIPS: list[ChipDescription] = [chip.description for chip in INSTALLED if chip.profiles]
"""Those with a timing model, which reports are read for."""
EVERY_CHIP = pytest.mark.parametrize("chip", CHIPS, ids=[chip.name for chip in CHIPS])

SCALE, ZERO_POINT = 2 / 255, 100
SHAPE = (1, 3, 16, 16)
"""Of inputs: as many values as there are bytes, three times."""


def weights(*shape: int) -> Array:
    return np.random.default_rng(3).integers(-100, 101, shape).astype(np.int8)


def of_bytes_onnx(path: Path) -> Path:
    """An ONNX network whose input is a tensor of bytes, with a convolution of integers behind it."""
    constants = {
        "xs": np.float32(SCALE),
        "xz": np.uint8(ZERO_POINT),
        "w": weights(4, 3, 3, 3),
        "ws": np.float32(0.01),
        "wz": np.int8(0),
        "ys": np.float32(0.05),
        "yz": np.uint8(128),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"]),
        helper.make_node("Conv", ["xf", "wf"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "ys", "yz"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 16, 16))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def of_bytes_tflite(path: Path) -> Path:
    """The same in a TFLite file, whose images have their channels last."""
    n, c, h, w = SHAPE
    tensors = [
        Tensor("x", (n, h, w, c), "UINT8", None, (SCALE,), (ZERO_POINT,)),
        constant(
            "w", (weights(4, 3, 3, 3).transpose(0, 2, 3, 1).astype(np.int16) + 128).astype(np.uint8), [0.01], [128]
        ),
        constant("b", np.zeros(4, np.int32), [0.01 * SCALE], [0]),
        Tensor("y", (n, h, w, 4), "UINT8", None, (0.05,), (128,)),
    ]
    nodes = [Node("CONV_2D", ["x", "w", "b"], ["y"], ("Conv2DOptions", {"Padding": SAME, "StrideH": 1, "StrideW": 1}))]
    path.write_bytes(tflite_file(tensors, nodes, ["x"], ["y"]))
    return path


WIDE_SCALE, WIDE_RESULT = 2 / 32768, 8 / 32768
WIDE_BIAS = np.random.default_rng(4).integers(-9000, 9000, 4).astype(np.int64)


def of_16_bits(path: Path) -> Path:
    """Activations of 16 bits and filters of 8, as TFLite's converter writes them."""
    filters = weights(4, 3, 3, 3).transpose(0, 2, 3, 1)
    tensors = [
        Tensor("x", (1, 6, 6, 3), "INT16", None, (WIDE_SCALE,), (0,)),
        constant("w", filters, [0.01] * 4, [0] * 4),
        constant("b", WIDE_BIAS, [0.01 * WIDE_SCALE] * 4, [0] * 4),
        Tensor("y", (1, 6, 6, 4), "INT16", None, (WIDE_RESULT,), (0,)),
    ]
    options = {"Padding": SAME, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": RELU}
    nodes = [Node("CONV_2D", ["x", "w", "b"], ["y"], ("Conv2DOptions", options))]
    path.write_bytes(tflite_file(tensors, nodes, ["x"], ["y"]))
    return path


def compile_report(network: Path, chip: ChipDescription, *options: str) -> tuple[Path, dict[str, Any]]:
    target, report = network.with_suffix(chip.suffix), network.with_suffix(".json")
    arguments = ["--chip", chip.name, *options, "-o", str(target), "--report", str(report)]
    assert main(["compile", str(network), *arguments]) == 0
    return target, json.loads(report.read_text())


def run(model: Path, array: Array) -> Array:
    given, output = model.with_suffix(".in.npy"), model.with_suffix(".out.npz")
    np.save(given, array)
    assert main(["run", "--model", str(model), "--input", str(given), "-o", str(output)]) == 0
    with np.load(output) as results:
        return results[results.files[0]]


def every_byte() -> Array:
    return np.random.default_rng(0).permutation(np.arange(np.prod(SHAPE)) % 256).astype(np.uint8).reshape(SHAPE)


# The mode


@EVERY_CHIP
def test_without_a_mode_floats_get_the_most_exact_one(chip: ChipDescription, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 4, 4))],
    )
    network = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), network)
    target, report = compile_report(network, chip)
    assert report["mode"] == next(mode for mode in ("f32", "bf16", "f16") if mode in chip.modes)
    module = tmp_path / "relu.mlir"
    assert main(["transform", "--model-name=relu", f"--model-def={network}", f"--mlir={module}"]) == 0
    deployed = tmp_path / f"deployed{chip.suffix}"
    assert main(["deploy", "--mlir", str(module), "--chip", chip.name, "-o", str(deployed)]) == 0
    x = np.array([-2, -1, 0, 1, 2, 3] * 8, np.float32).reshape(1, 3, 4, 4)
    np.testing.assert_array_equal(run(target, x), np.maximum(x, 0))
    np.testing.assert_array_equal(run(deployed, x), np.maximum(x, 0))


@EVERY_CHIP
def test_without_a_mode_integers_stay_integers(
    chip: ChipDescription, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = of_bytes_onnx(tmp_path / "net.onnx")
    capsys.readouterr()
    _, report = compile_report(network, chip)
    wanted = "int8-asym" if "int8-asym" in chip.modes else "int8"
    assert report["mode"] == wanted
    assert f"net is already quantized: compiling in mode '{wanted}'" in capsys.readouterr().err
    assert main(["check", str(network), "--chip", chip.name]) == 0
    assert f"net.onnx on {chip.name} in {wanted}: all " in capsys.readouterr().out


# 16 bits


@EVERY_CHIP
@pytest.mark.parametrize("mode", ["", "int8"])
def test_integers_of_16_bits_are_refused_in_a_sentence(
    mode: str, chip: ChipDescription, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = of_16_bits(tmp_path / "wide.tflite")
    capsys.readouterr()
    options = ["--quantize", mode] if mode else []
    assert main(["compile", str(network), "--chip", chip.name, *options, "-o", str(tmp_path / "o")]) == 1
    floats = " or ".join(one for one in chip.modes if one in ("f32", "f16", "bf16"))
    assert capsys.readouterr().err == (
        "tpuc: wide: value 'x' is quantized to 16 bits, but chips compute with 8-bit integers. Compile it with "
        f"--quantize {floats}, or quantize the network to 8 bits.\n"
    )


@each(
    ("chip", "mode"),
    [
        pytest.param(chip, mode, id=f"{chip.name}-{mode}")
        for chip in CHIPS
        for mode in ("bf16", "f16")
        if mode in chip.modes
    ],
)
def test_integers_of_16_bits_become_floats_when_asked(chip: ChipDescription, mode: str, tmp_path: Path) -> None:
    target, report = compile_report(of_16_bits(tmp_path / "wide.tflite"), chip, "--quantize", mode)
    assert report["mode"] == mode
    stored = np.random.default_rng(5).integers(-32768, 32768, (1, 6, 6, 3)).astype(np.int16)
    x = stored * WIDE_SCALE
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    under = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    filters = weights(4, 3, 3, 3) * 0.01
    sums = np.einsum("nhwcij,ocij->nohw", under, filters) + (WIDE_BIAS * 0.01 * WIDE_SCALE)[:, None, None]
    absolute = np.einsum("nhwcij,ocij->nohw", np.abs(under), np.abs(filters))
    wanted = np.maximum(sums, 0)
    got = run(target, x.transpose(0, 3, 1, 2).astype(np.float32))
    # Input, filter, bias and result are rounded to so many bits each; the sums are kept in float32.
    half_step = 2.0 ** -(9 if mode == "bf16" else 12)
    assert (np.abs(got - wanted) <= 2.01 * half_step * absolute + 2.01 * half_step * (np.abs(sums) + 0.01)).all()


# Bytes at the border


@EVERY_CHIP
@pytest.mark.parametrize("form", ["onnx", "tflite"])
def test_inputs_take_the_bytes_of_the_file(form: str, chip: ChipDescription, tmp_path: Path) -> None:
    make = of_bytes_onnx if form == "onnx" else of_bytes_tflite
    plain, _ = compile_report(make(tmp_path / f"plain.{form}"), chip)
    taken, report = compile_report(make(tmp_path / f"taken.{form}"), chip, "--quant-input")
    (given,) = report["inputs"]
    assert (given["type"], given["scale"], given["zero_point"]) == ("u8", pytest.approx(SCALE), ZERO_POINT)
    x = every_byte()
    meant = ((x.astype(np.float64) - ZERO_POINT) * SCALE).astype(np.float32)
    got = run(taken, x)
    np.testing.assert_array_equal(got, run(plain, meant))
    np.testing.assert_array_equal(got, run(taken, meant))  # floats are quantized to those bytes
    assert len(np.unique(got)) > 100


@EVERY_CHIP
def test_stages_are_compared_on_bytes(chip: ChipDescription, tmp_path: Path) -> None:
    data = tmp_path / "x.npy"
    np.save(data, every_byte())
    network = of_bytes_onnx(tmp_path / "net.onnx")
    _, report = compile_report(network, chip, "--quant-input", f"--test-input={data}")
    assert {one["stages"] for one in report["comparisons"]} == {"TOP and TPU", "TPU and simulator"}
