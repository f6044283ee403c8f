"""Ops spelled in others, products of many rows and long recurrences, on the vendor's functional model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.kernels.more_cases import CASES
from tests.chips.bm1684x.kernels.test_more_lowerings import module_of
from tests.chips.bm1684x.steps import check_steps
from tests.chips.bm1684x.test_long_sequences import inputs_of, write_network
from tests.chips.lowered import own_ranges
from tests.conftest import RunVendor

REPRESENTATIVE = (
    "arcsinh", "tan", "normalize", "lrn", "conv_far_dilation", "conv_far_stride", "avg_pool_far", "deconv_row",
    "lstm", "gru", "grid", "deformed", "regions", "einsum_attention",
)  # fmt: skip


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f32", "f16", "int8"])
@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_the_vendors_model_takes_the_same_steps(name: str, mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    module, inputs, values = module_of(CASES[name])
    table = own_ranges(values) if mode == "int8" else None
    final, data = build_exposed(Session(chip="bm1684x", quantize=mode), module, table)
    path = tmp_path / "model.bmodel"
    path.write_bytes(data)
    assert check_steps(final, run_vendor(path, inputs))


@pytest.mark.interop
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_two_hundred_steps_end_where_the_vendors_model_does(kind: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    network, path = tmp_path / "net.onnx", tmp_path / "model.bmodel"
    write_network(kind, network)
    session = Session(chip="bm1684x", quantize="f32")
    final, data, *_ = session.build(session.transform(network), None)
    path.write_bytes(data)
    expected = Interpreter(final).run(inputs_of(), "all")
    for name, array in run_vendor(path, inputs_of()).items():
        # Sums of 48 products in another order, carried on over 200 steps that forget.
        assert np.abs(array.reshape(expected[name].shape) - expected[name]).max() <= 2e-6
