"""Rounding that training tools export, compared with the formulas that their formats publish."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tpuc.api import PassContext, Unsupported
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_prequantized.absorb_quantization import AbsorbQuantization

from tests.families import each
from tests.frontends.onnx.networks import Array, network, node, ops, read, registry, values

QONNX = "qonnx.custom_op.general"
TABLE = np.array([5.5, 2.5, 1.6, 1.1, 1.0, -1.0, -1.1, -1.6, -2.5, -5.5], np.float32)
"""The numbers for which QONNX lists what its rounding modes give."""

ROUNDED: Mapping[str, list[int]] = {
    "ROUND": [6, 2, 2, 1, 1, -1, -1, -2, -2, -6],
    "CEIL": [6, 3, 2, 2, 1, -1, -1, -1, -2, -5],
    "FLOOR": [5, 2, 1, 1, 1, -1, -2, -2, -3, -6],
    "UP": [6, 3, 2, 2, 1, -1, -2, -2, -3, -6],
    "DOWN": [5, 2, 1, 1, 1, -1, -1, -1, -2, -5],
    "HALF_UP": [6, 3, 2, 1, 1, -1, -1, -2, -3, -6],
    "HALF_DOWN": [5, 2, 2, 1, 1, -1, -1, -2, -2, -5],
}


def run(op: str, x: Array, weights: Mapping[str, Array], folder: Path, domain: str = "", **attributes: Any) -> Array:
    """What the operator makes of `x`, as imported and with its casts absorbed: the same."""
    proto = node(op, " ".join(["x", *weights]), "y", domain=domain, **attributes)
    model = network([proto], {"x": list(x.shape)}, ["y"], weights)
    module = read(model, folder)
    found = Interpreter(module).run({"x": x})["y"]
    AbsorbQuantization().run(module, PassContext(registry()))
    module.verify()
    (absorbed,) = Interpreter(module).run({"x": x}).values()
    if "Quantize" not in "".join(ops(read(model, folder))):  # those are of more than 8 bits, and left out
        np.testing.assert_array_equal(absorbed, found)
    return found


def folded(op: str, x: Array, weights: Mapping[str, Array], folder: Path, domain: str = "", **attributes: Any) -> Array:
    """What the operator makes of a constant."""
    nodes = [node(op, " ".join(["c", *weights]), "q", domain=domain, **attributes), node("Mul", "x q", "y")]
    module = read(network(nodes, {"x": list(x.shape)}, ["y"], {**weights, "c": x}), folder)
    return Interpreter(module).run({"x": np.ones_like(x)})["y"]


def grid(x: Array, scale: Array, zero: Array, low: float, high: float) -> Array:
    """The published formula, with the rounding of numpy."""
    return (np.round(np.clip(x / scale + zero, low, high)) - zero) * scale


def numbers(scale: Any, zero: Any, bits: float) -> dict[str, Array]:
    return {"s": np.array(scale, np.float32), "z": np.array(zero, np.float32), "b": np.array(bits, np.float32)}


@each("mode", ROUNDED)
def test_rounding_modes_of_qonnx(mode: str, tmp_path: Path) -> None:
    weights = numbers(1, 0, 5)
    got = run("Quant", TABLE, weights, tmp_path, QONNX, rounding_mode=mode)
    np.testing.assert_array_equal(got, ROUNDED[mode])
    np.testing.assert_array_equal(folded("Quant", TABLE, weights, tmp_path, QONNX, rounding_mode=mode), ROUNDED[mode])
    got = run("IntQuant", TABLE, weights, tmp_path, "onnx.brevitas", rounding_mode=mode.lower())
    np.testing.assert_array_equal(got, ROUNDED[mode])


BOUNDS: Mapping[tuple[int, int, int], tuple[int, int]] = {
    (8, 1, 0): (-128, 127),
    (8, 1, 1): (-127, 127),
    (8, 0, 0): (0, 255),
    (8, 0, 1): (0, 254),
    (4, 1, 0): (-8, 7),
    (3, 1, 1): (-3, 3),
    (2, 0, 0): (0, 3),
    (16, 1, 0): (-32768, 32767),
    (10, 1, 1): (-511, 511),
}


@each(("bits", "signed", "narrow"), BOUNDS)
@each("zero", [0, 1])
def test_bounds_of_qonnx(bits: int, signed: int, narrow: int, zero: int, tmp_path: Path) -> None:
    low, high = BOUNDS[bits, signed, narrow]
    scale = 3.0 / (high - low)
    x, weights = values(2, 3, 40), numbers(scale, zero, bits)
    wanted = grid(x, np.float32(scale), np.float32(zero), low, high)
    for get in (run, folded):
        got = get("Quant", x, weights, tmp_path, QONNX, signed=signed, narrow=narrow)
        np.testing.assert_allclose(got, wanted, atol=scale * 1e-3)
    assert np.unique(wanted).size <= high - low + 1


def test_scales_by_channel_of_qonnx(tmp_path: Path) -> None:
    scale = np.linspace(0.1, 0.4, 3).astype(np.float32).reshape(1, 3, 1)
    x, weights = values(2, 3, 40), numbers(scale, 0, 4)
    wanted = grid(x, scale, np.float32(0), -8, 7)
    for get in (run, folded):
        np.testing.assert_allclose(get("Quant", x, weights, tmp_path, QONNX), wanted, atol=1e-5)


def test_signs(tmp_path: Path) -> None:
    x = np.array([[-1.5, -0.1, 0.0, 0.1, 2.0]], np.float32)
    wanted = np.array([[-0.5, -0.5, 0.5, 0.5, 0.5]], np.float32)
    for get in (run, folded):
        np.testing.assert_array_equal(
            get("BipolarQuant", x, {"s": np.float32(0.5).reshape(1)}, tmp_path, QONNX), wanted
        )
        np.testing.assert_array_equal(get("Quant", x, numbers(0.5, 0, 1), tmp_path, QONNX), wanted)


@each(("mode", "function"), [("FLOOR", np.floor), ("ROUND", np.round), ("CEIL", np.ceil)])
def test_trunc(mode: str, function: Any, tmp_path: Path) -> None:
    """Both versions of the operator; the second has a scale of its result, and bounds."""
    x = values(3, 50) * 10
    first = {**numbers(0.25, 0, 8), "o": np.array(5, np.float32)}
    wanted = function(np.round(x / 0.25) / 8) * 0.25
    np.testing.assert_allclose(run("Trunc", x, first, tmp_path, QONNX, rounding_mode=mode), wanted, atol=1e-5)
    second = {**numbers(0.25, 2, 8), "t": np.array(2, np.float32), "o": np.array(4, np.float32)}
    wanted = (function(np.clip(np.round(x / 0.25 + 2) / 8, -7, 7)) - 2 / 8) * 2
    got = run("Trunc", x, second, tmp_path, QONNX, rounding_mode=mode, narrow=1, signed=1)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@each("op", ["FixedPerTensorAffine", "LearnablePerTensorAffine", "FakeQuantizeDSQPertensor"])
@each("bounds", [(-128, 127), (-127, 127), (0, 255), (0, 15), (-8, 7)])
def test_one_scale_of_mqbench(op: str, bounds: tuple[int, int], tmp_path: Path) -> None:
    low, high = bounds
    scale, zero = np.float32(3 / (high - low)), np.int32(low // 3 if low else high // 4)
    x, weights = values(2, 3, 40), {"s": scale.reshape(1), "z": zero.reshape(1)}
    wanted = grid(x, scale, zero, low, high)
    domain = "MQBench_custom" if "DSQ" in op else ""
    for get in (run, folded):
        got = get(op, x, weights, tmp_path, domain, quant_min=low, quant_max=high)
        np.testing.assert_allclose(got, wanted, atol=float(scale) * 1e-3)
    stated = {**weights, "l": np.int64(low).reshape(()), "h": np.int64(high).reshape(())}
    got = run("FixedPerTensorAffine", x, stated, tmp_path, "Sophgo_custom")
    np.testing.assert_allclose(got, wanted, atol=float(scale) * 1e-3)


@each("op", ["FixedPerChannelAffine", "FakeQuantizeLearnablePerchannelAffine", "FakeQuantizeDSQPerchannel"])
def test_scales_by_channel_of_mqbench(op: str, tmp_path: Path) -> None:
    scale = np.linspace(0.01, 0.03, 3).astype(np.float32)
    weights: dict[str, Array] = {"s": scale, "z": np.zeros(3, np.int32)}
    x = values(3, 4, 5)
    wanted = grid(x, scale.reshape(3, 1, 1), np.float32(0), -128, 127)
    for get in (run, folded):
        got = get(op, x, weights, tmp_path, quant_min=-128, quant_max=127)
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    stated = {name: np.array(number, np.int64) for name, number in {"a": 1, "l": -128, "h": 127}.items()}
    got = run("FixedPerChannelAffine", x.swapaxes(0, 1).copy(), {**weights, **stated}, tmp_path)
    np.testing.assert_allclose(got, wanted.swapaxes(0, 1), atol=1e-5)


def test_learned_zero_points_are_rounded(tmp_path: Path) -> None:
    x, weights = values(3, 40), {"s": np.array([0.02], np.float32), "z": np.array([7.6], np.float32)}
    wanted = grid(x, weights["s"], np.array(8.0), -128, 127)
    got = run("LearnablePerTensorAffine", x, weights, tmp_path, quant_min=-128, quant_max=127)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@each(("scale", "step"), [(0.02, 1 / 32), (0.25, 0.25), (2.0**-16, 1.0)])
def test_powers_of_two_of_mqbench(scale: float, step: float, tmp_path: Path) -> None:
    """TQT computes with the power of two that is not below the learned scale, and with 1 for tiny ones."""
    x, weights = values(3, 40) * 3, {"s": np.array([scale], np.float32), "z": np.zeros(1, np.float32)}
    wanted = grid(x, np.array(step), np.array(0.0), -128, 127)
    for get in (run, folded):
        got = get("FakeQuantizeTqtAffine", x, weights, tmp_path, quant_min=-128, quant_max=127)
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_bounds_on_standard_casts_of_mqbench(tmp_path: Path) -> None:
    """Its newer versions write QuantizeLinear and DequantizeLinear with two attributes more."""
    weights = {"s": np.float32(0.1).reshape(()), "z": np.int8(2).reshape(())}
    bounds = {"quant_min": -8, "quant_max": 7}
    nodes = [
        node("QuantizeLinear", "x s z", "q", **bounds),
        node("DequantizeLinear", "q s z", "a", **bounds),
        node("QuantizeLinear", "c s z", "cq", **bounds),
        node("DequantizeLinear", "cq s z", "b", **bounds),
        node("Add", "a b", "y"),
    ]
    x, constant = values(2, 30), values(2, 30, seed=3)
    module = read(network(nodes, {"x": [2, 30]}, ["y"], {**weights, "c": constant}), tmp_path)
    wanted = grid(x, weights["s"], np.float32(2), -8, 7) + grid(constant, weights["s"], np.float32(2), -8, 7)
    np.testing.assert_allclose(Interpreter(module).run({"x": x})["y"], wanted, atol=1e-5)
    AbsorbQuantization().run(module, PassContext(registry()))
    np.testing.assert_allclose(Interpreter(module).run({"x": x})["y"], wanted, atol=1e-5)


@each("by_column", [False, True])
def test_products_with_a_bias_behind_them_compute_with_integers(by_column: bool, tmp_path: Path) -> None:
    """As exporters write a layer of three dimensions: the matrix transposed, the bias as a sum of its own."""
    scale = np.linspace(0.05, 0.1, 5).astype(np.float32).reshape(5, 1) if by_column else np.array(0.1, np.float32)
    weights = {"w": values(5, 8), "b": values(5, seed=3), "ws": scale, "s": np.array(0.02, np.float32)}
    weights |= {"ys": np.array(0.1, np.float32), "bs": np.array(0.002, np.float32), "z": np.zeros((), np.float32)}
    weights |= {f"b{bits}": np.array(bits, np.float32) for bits in (4, 8, 32)}
    nodes = [
        node("Quant", "x s z b8", "a", domain=QONNX),
        node("Quant", "w ws z b4", "f", domain=QONNX, narrow=1),
        node("Quant", "b bs z b32", "c", domain=QONNX),
        node("Transpose", "f", "t", perm=[1, 0]),
        node("MatMul", "a t", "m"),
        node("Add", "m c", "r"),
        node("Quant", "r ys z b8", "y", domain=QONNX),
    ]
    module = read(network(nodes, {"x": [2, 3, 8]}, ["y"], weights), tmp_path)
    AbsorbQuantization().run(module, PassContext(registry()))
    module.verify()
    assert ops(module) == ["quant.qcast", "MatMul", "quant.dcast"]
    x, zero = values(2, 3, 8), np.array(0)
    matrix = grid(weights["w"], scale, zero, -7, 7)
    sums = grid(x, weights["s"], zero, -128, 127) @ matrix.T + grid(weights["b"], weights["bs"], zero, -1e9, 1e9)
    differ = np.abs(Interpreter(module).run({"x": x})["y"] - grid(sums, weights["ys"], zero, -128, 127))
    assert differ.max() <= 0.1001
    assert np.mean(differ > 1e-4) <= 0.1


def network_of_qonnx(signed: int) -> onnx.ModelProto:
    """Filters of 4 bits, an input of 8, and results of 4."""
    scale = {"s": 0.02, "ws": 0.1, "ys": 0.5}
    weights: dict[str, Array] = {name: np.array(number, np.float32) for name, number in scale.items()}
    weights |= {"z": np.zeros((), np.float32), "eight": np.array(8, np.float32), "four": np.array(4, np.float32)}
    weights["w"] = values(3, 4, 3, 3)
    nodes = [
        node("Quant", "x s z eight", "a", domain=QONNX, signed=signed),
        node("Quant", "w ws z four", "f", domain=QONNX, narrow=1),
        node("Conv", "a f", "c"),
        node("Quant", "c ys z four", "y", domain=QONNX, signed=signed),
    ]
    return network(nodes, {"x": [1, 4, 6, 6]}, ["y"], weights)


def by_formula(x: Array, signed: int) -> Array:
    """The same network by the published formulas."""
    return grid(sums_by_formula(x, signed), np.array(0.5), np.array(0), -8 if signed else 0, 7 if signed else 15)


def sums_by_formula(x: Array, signed: int) -> Array:
    """Its convolution."""
    low, high = (-128, 127) if signed else (0, 255)
    weights = grid(values(3, 4, 3, 3), np.array(0.1), np.array(0), -7, 7)
    inner = grid(x.astype(np.float64), np.array(0.02), np.array(0), low, high)
    windows = np.lib.stride_tricks.sliding_window_view(inner[0], (3, 3), (1, 2))
    return np.einsum("chwij,ocij->ohw", windows, weights)[None]


@each("signed", [0, 1])
def test_a_network_of_qonnx_computes_with_its_integers(signed: int, tmp_path: Path) -> None:
    """Sums are exact, so the answer is that of the formulas but where a sum lies between two numbers."""
    module = read(network_of_qonnx(signed), tmp_path)
    x = values(1, 4, 6, 6)
    wanted = by_formula(x, signed)
    for _ in range(2):
        (got,) = Interpreter(module).run({"x": x}).values()
        differ = np.abs(got - wanted)
        assert differ.max() <= 0.501
        assert np.mean(differ > 1e-4) <= 0.05
        AbsorbQuantization().run(module, PassContext(registry()))
        module.verify()
    assert ops(module) == ["quant.qcast", "Conv", "Clip", "quant.dcast"]
    assert all(
        operation.results[0].tensor.is_quantized for operation in module.walk() if operation.op.name == "top.Conv"
    )


NORM: Mapping[str, Array] = {
    "beta": np.array([0.1, 0.3, -0.05], np.float32),
    "mean": np.array([0.2, -0.1, 0.05], np.float32),
    "variance": np.array([1.5, 0.6, 0.9], np.float32),
    "b": np.array([0.3, 0.0, -0.2], np.float32),
}


@each("gamma", [0.4, 0.0, 1e-9])
@each("bias", ["", " b"])
def test_normalizations_go_into_the_scales_of_filters(gamma: float, bias: str, tmp_path: Path) -> None:
    """As Brevitas exports layers. Where a channel has the factor 0 there is no scale, and where it has a tiny one the
    bias has too many steps for 32 bits: floats are computed.
    """
    model = network_of_qonnx(0)
    statistics = {**NORM, "gamma": np.array([0.7, -1.3, gamma], np.float32)}
    del model.graph.node[2:]
    model.graph.node.extend(
        [
            node("Conv", f"a f{bias}", "c"),
            node("BatchNormalization", "c gamma beta mean variance", "n", epsilon=1e-3),
            node("Relu", "n", "r"),
            node("Quant", "r ys z four", "y", domain=QONNX, signed=0),
        ]
    )
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in statistics.items())
    module = read(model, tmp_path)
    AbsorbQuantization().run(module, PassContext(registry()))
    module.verify()
    is_quantized = [one.result.tensor.is_quantized for one in module.walk() if one.op.name == "top.Conv"]
    assert is_quantized == [gamma == 0.4]
    assert ("BatchNorm" in ops(module)) == (gamma == 0.0)
    x = values(1, 4, 6, 6)
    columns = {name: array.astype(np.float64).reshape(1, 3, 1, 1) for name, array in statistics.items()}
    sums = sums_by_formula(x, 0) + (columns["b"] if bias else 0.0)
    scaled = columns["gamma"] * (sums - columns["mean"]) / np.sqrt(columns["variance"] + 1e-3) + columns["beta"]
    wanted = grid(scaled, np.array(0.5), np.array(0), 0, 15)
    (got,) = Interpreter(module).run({"x": x}).values()
    assert np.abs(got - wanted).max() <= 0.501
    assert np.mean(np.abs(got - wanted) > 1e-4) <= 0.05
    assert len(np.unique(wanted)) > 8


@each(("chip", "suffix", "step"), [("bm1684x", "bmodel", 0.0), ("cv183x", "cvimodel", 0.501)])
@each("signed", [0, 1])
def test_chips_keep_to_the_bounds_of_four_bits(
    chip: str, suffix: str, step: float, signed: int, tmp_path: Path
) -> None:
    """BM1684X computes what the module says; CV183X has scales of its own choice, which differ by a step."""
    path, out = tmp_path / "m.onnx", tmp_path / f"m.{suffix}"
    path.write_bytes(network_of_qonnx(signed).SerializeToString())
    x = values(1, 4, 6, 6)
    (wanted,) = Interpreter(Session(Registry()).transform(path)).run({"x": x}).values()
    session = Session(Registry(), chip=chip)
    session.compile(path, out)
    (got,) = session.runner(out, {}).run({"x": x}).values()
    assert (wanted.min(), wanted.max()) == pytest.approx((-4.0, 3.5) if signed else (0, 7.5))
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, atol=step)


@each(
    ("op", "domain", "weights", "attributes", "expected"),
    [
        ("Quant", QONNX, numbers(0, 0, 8), {}, "one of its scales is not above 0: quantize the network again."),
        ("Quant", QONNX, numbers(1, 0, 2.5), {}, "2.5 is not a number of bits from 1 to 32."),
        (
            "Quant",
            QONNX,
            numbers(1, 0, 8),
            {"rounding_mode": "ODD"},
            "rounding mode 'ODD' is not supported; use CEIL, DOWN, FLOOR, HALF_DOWN, HALF_EVEN, HALF_UP, ROUND, UP.",
        ),
        (
            "FixedPerTensorAffine",
            "",
            {"s": np.ones(2, np.float32), "z": np.zeros(2, np.int32)},
            {"quant_min": 0, "quant_max": 255},
            "it has 2 scales; it needs one for the whole tensor.",
        ),
        (
            "FixedPerChannelAffine",
            "",
            {"s": np.ones(7, np.float32), "z": np.zeros(7, np.int32)},
            {"quant_min": 0, "quant_max": 255},
            "it has 7 scales, which do not fit the dimensions (2, 3).",
        ),
        (
            "FixedPerTensorAffine",
            "",
            {"s": np.ones(1, np.float32), "z": np.zeros(1, np.int32)},
            {},
            "its range of integers is missing.",
        ),
    ],
)
def test_refusals(
    op: str, domain: str, weights: dict[str, Array], attributes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(Unsupported) as caught:
        run(op, values(2, 3), weights, tmp_path, domain, **attributes)
    assert str(caught.value).endswith(f"m.onnx: node '{op}_y' ({op}): {expected}")
