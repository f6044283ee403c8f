"""Recurrent layers in integers: steps with ranges of their own on chips without a lowering, else one op."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.passes.calibration.digests import Graph, recurrent

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.slow
@pytest.mark.chip("bm1684x")
def test_chips_without_a_lowering_compute_steps_in_integers(tmp_path: Path) -> None:
    graph = recurrent()
    graph.write(tmp_path / "network.onnx")
    samples = np.random.default_rng(5).standard_normal((8, *graph.shape)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=samples)
    table, wanted = None, None
    for chip, is_unrolled in (("cv183x", True), ("bm1684x", False)):
        session = Session(chip=chip, quantize="int8")
        module = session.transform(tmp_path / "network.onnx")
        options = {"tune_num": 0, "bias_num": 0}
        table = table or session.calibrate(module, dataset=tmp_path / "samples.npz", options=options)
        final, data, *_ = session.build(module, table)
        inner = [one.result.tensor for one in final.main.operations if one.results and "_part" in one.name]
        assert any(type_.is_quantized for type_ in inner) == is_unrolled
        assert any(one.op.name == "tpu.RecurrentSteps" for one in final.main.operations) != is_unrolled
        (found,) = session.chip.load(data).run({"x": samples[0]}).values()
        if wanted is None:
            engine = onnxruntime.InferenceSession(str(tmp_path / "network.onnx"))
            (wanted,) = engine.run(None, {engine.get_inputs()[0].name: samples[0]})
        assert np.abs(found.reshape(wanted.shape) - wanted).max() <= 0.06 * np.abs(wanted).max()


def test_checks_simulate_what_the_chip_computes(tmp_path: Path) -> None:
    """Annotations of values inside belong to the steps; nothing of a table is ignored, with and without a chip."""
    graph = Graph(2, 1, 3)
    graph.op("RNN", graph.weight(1, 2, 3), graph.weight(1, 2, 2), hidden_size=2)
    graph.write(tmp_path / "network.onnx")
    np.savez(tmp_path / "samples.npz", x=np.random.default_rng(5).standard_normal((8, 2, 1, 3)).astype(np.float32))
    for chip in (None, "cv183x"):
        remarks: list[str] = []
        session = Session(chip=chip, quantize=chip and "int8", remark=remarks.append)
        module = session.transform(tmp_path / "network.onnx")
        table, check = session.calibrate_and_check(module, dataset=tmp_path / "samples.npz", options={"tune_num": 2})
        assert any(name.startswith("v0_part") for name in table.entries)
        assert any(line.startswith("v0_part") for line in table.sections["bias_shift"])
        assert check is not None
        assert check.worst.decibels > 25
        assert not [text for text in remarks if "ignored" in text]
