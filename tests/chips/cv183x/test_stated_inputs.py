"""Inputs of networks that come quantized: integers, rounded as the network does it, unless floats are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from tpuc.api import F32, ScalarType, Uniform, UsageError
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Boundary, Session

from tests.chips.test_quantized_commands import of_bytes_tflite
from tests.passes.test_stated_on_chips import Network, saved

STEP = np.float32(2 / 255)


def of_pixels(folder: Path) -> Path:
    """A convolution of floats between -1 and 1, which pixels lie exactly between two steps of."""
    net = Network()
    x = net.stored("x", float(STEP), 128)
    filters = net.weight("w", np.random.default_rng(4).integers(-127, 127, (3, 4, 1, 1), np.int8), 0.01)
    y = net.stored(net.do("Conv", [x, filters], "c"), 0.05, 128)
    return saved(net, y, [1, 3, 9, 7], folder / "pixels.onnx")


def pixels() -> NDArray[Any]:
    """Every byte as such a float."""
    return (np.arange(252, dtype=np.float32) / np.float32(127.5) - 1).reshape(1, 4, 9, 7)


def test_integers_go_in_and_floats_are_rounded_as_onnx_does_it(tmp_path: Path) -> None:
    path, model, data = of_pixels(tmp_path), tmp_path / "pixels.cvimodel", tmp_path / "x.npy"
    remarks: list[str] = []
    session = Session(chip="cv183x", quantize="int8", remark=remarks.append)
    session.deploy(session.transform(path), model)
    assert any("input 'x' takes u8" in remark and "--float-input" in remark for remark in remarks)
    (info,) = session.chip.load(model.read_bytes()).inputs
    assert info.element == Uniform(ScalarType("u8"), F32, float(STEP), 128)
    np.save(data, pixels())
    (got,) = session.run(model, [data]).values()
    (wanted,) = onnxruntime.InferenceSession(path).run(None, {"x": pixels()})
    # Results have zero point 128 and leave through bf16, which holds eight bits.
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=2**-8)
    (direct,) = session.runner(model, {}).run({"x": pixels()}).values()
    np.testing.assert_array_equal(direct, got)


def test_another_way_of_rounding_is_another_result(tmp_path: Path) -> None:
    """The pixels tell the two ways apart."""
    session = Session(chip="cv183x", quantize="int8")
    (given,) = inputs_of(session.build(session.transform(of_pixels(tmp_path))).module)
    assert given.store is not None
    away = np.trunc(pixels() / STEP + np.copysign(0.5, pixels())).astype(int) + 128
    assert (given.store(pixels()) != np.clip(away, 0, 255)).mean() > 0.1


def test_floats_go_in_where_they_are_asked_for(tmp_path: Path) -> None:
    session = Session(chip="cv183x", quantize="int8")
    built = session.build(session.transform(of_pixels(tmp_path)), boundary=Boundary(float_input=True))
    (info,) = session.chip.load(built.data).inputs
    assert info.element == F32


def test_bytes_of_a_tflite_file_go_in_as_they_are(tmp_path: Path) -> None:
    session = Session(chip="cv183x", quantize="int8")
    built = session.build(session.transform(of_bytes_tflite(tmp_path / "bytes.tflite")))
    (given,) = inputs_of(built.module)
    assert given.dtype == np.uint8
    assert built.module.main.inputs[0].tensor.uniform.zero_point == 100


def test_floats_and_integers_exclude_each_other() -> None:
    with pytest.raises(UsageError) as error:
        Boundary(float_input=True, quant_input=True)
    assert str(error.value) == "--float-input and --quant-input contradict each other; give one of them."
    with pytest.raises(UsageError) as error:
        Boundary(float_output=True, quant_output=True)
    assert str(error.value) == "--float-output and --quant-output contradict each other; give one of them."
