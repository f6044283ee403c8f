"""The vendor's functional model runs files with fused preprocessing, batches and stored inputs as we evaluate them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc.ir import Uniform
from tpuc_driver.data import quantize
from tpuc_driver.session import Boundary
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.small_networks import pixels
from tests.chips.bm1684x.test_batches import in_batches
from tests.chips.bm1684x.test_networks import assert_same
from tests.chips.bm1684x.test_preprocess import NORMALIZED, compile_both
from tests.chips.bm1684x.test_quantized_io import prepared
from tests.chips.frames import CAMERA
from tests.conftest import RunVendor
from tests.models.networks import Network


@pytest.mark.interop
@pytest.mark.parametrize("form", ["RGB_PACKED", "RGB_PLANAR", "BGR_PACKED", *CAMERA])
@pytest.mark.parametrize("mode", ["int8", "f32"])
def test_fused_preprocessing(mode: str, form: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    preprocess = {**NORMALIZED, "pixel_format": "bgr"}
    _, _, fused, data, _ = compile_both(tmp_path, mode, form, preprocess)
    path = tmp_path / "fused.bmodel"
    path.write_bytes(data)
    inputs = {"image_raw": pixels(fused.main.inputs[0].tensor.dims)}
    wanted = Interpreter(fused).run(inputs, "all")
    got = run_vendor(path, inputs)
    assert_same(got, wanted, got)
    first = "image_i8" if mode == "int8" else "image"
    assert np.array_equal(got[first], wanted[first])


@pytest.mark.interop
@pytest.mark.parametrize("name", ["digits", "mnist", "resnet8"])
@pytest.mark.parametrize("mode", ["int8", "f32"])
def test_four_samples_at_once(
    name: str, mode: str, network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    _, inputs, data, wanted = in_batches(network(name), mode)
    path = tmp_path / "four.bmodel"
    path.write_bytes(data)
    got = run_vendor(path, inputs)
    assert_same(got, wanted, got)


@pytest.mark.interop
def test_stored_values_go_in_and_come_out(run_vendor: RunVendor, tmp_path: Path) -> None:
    session, module, table = prepared(tmp_path)
    final, data = build_exposed(session, module, table, boundary=Boundary(quant_input=True, quant_output=True))
    path = tmp_path / "stored.bmodel"
    path.write_bytes(data)
    (info,) = session.chip.load(data).inputs
    assert isinstance(info.element, Uniform)
    x = np.random.default_rng(3).normal(size=(1, 3, 8, 8)).astype(np.float32)
    inputs = {"image": quantize(x, info.element)}
    got = run_vendor(path, inputs)
    assert {"map", "score"} <= set(got)
    assert_same(got, Interpreter(final).run(inputs, "all"), got)
