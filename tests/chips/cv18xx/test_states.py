"""States that a compiled file keeps between runs, in its constant memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from tpuc.api.evaluation import StatefulInterpreter
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

from tests.families import each
from tests.frontends.tflite.test_variables import by_litert, frames, streaming

KEPT = Boundary(state="internal")


@each(("chip", "kind"), [("cv181x", "FLOAT32"), ("cv183x", "INT8")])
def test_runs_in_a_row_are_those_of_the_module(chip: str, kind: str, tmp_path: Path) -> None:
    """Bit for bit, and again after a reset; close to LiteRT, whose sums are not rounded to bf16."""
    content = streaming(kind, -3 if kind == "INT8" else 0, 1.5 if kind == "FLOAT32" else 0.0)
    (tmp_path / "net.tflite").write_bytes(content)
    session = Session(chip=chip, quantize="bf16" if kind == "FLOAT32" else None)
    built = session.build(session.transform(tmp_path / "net.tflite"), boundary=KEPT)
    loaded, module, samples = session.chip.load(built.data), StatefulInterpreter(built.module), frames(kind)[:12]
    assert len(loaded.inputs) == 1
    assert len(loaded.outputs) == 2
    for _ in range(2):
        for sample, wanted in zip(samples, by_litert(content, samples), strict=True):
            given = sample if kind == "FLOAT32" else ((sample.astype(np.float32) + 3) * np.float32(0.05))
            got = [*loaded.run({"x": given.reshape(loaded.inputs[0].shape)}).values()]
            for ours, same, exact in zip(got, module.run({"x": given}).values(), wanted, strict=True):
                np.testing.assert_array_equal(ours.reshape(same.shape), same)
                if kind == "FLOAT32":
                    np.testing.assert_allclose(same, exact, atol=0.05)
        loaded.reset()
        module.reset()


def test_a_file_in_the_driver_has_no_states_at_its_ends(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(streaming())
    session = Session(chip="cv181x", quantize="bf16")
    session.compile(tmp_path / "net.tflite", tmp_path / "net.cvimodel", boundary=KEPT)
    samples = np.stack(frames("FLOAT32")[:4])
    np.savez(tmp_path / "x.npz", x=samples)
    found = session.run(tmp_path / "net.cvimodel", [tmp_path / "x.npz"])
    assert sorted(found) == ["mean", "total"]
    # the total is the sum so far and the sample again
    wanted = np.cumsum(samples, 0) + samples
    np.testing.assert_allclose(found["total"].reshape(wanted.shape), wanted, atol=0.02)


def test_an_input_that_is_an_output_stays_both(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="y")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    session = Session(chip="cv181x", quantize="bf16")
    loaded = session.chip.load(session.build(session.transform(tmp_path / "net.onnx")).data)
    assert [one.name for one in loaded.inputs] == ["x"]
    assert len(loaded.outputs) == 2
