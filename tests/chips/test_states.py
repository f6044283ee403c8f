"""States that a compiled file keeps between runs: in its constants, or on BM1684X beside its inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tpuc.api import Unsupported
from tpuc.api.evaluation import StatefulInterpreter
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

from tests.families import each
from tests.frontends.tflite.test_variables import by_litert, frames, streaming

KEPT = Boundary(state="internal")


@pytest.mark.parametrize(
    ("chip", "kind"),
    [("cv181x", "FLOAT32"), ("cv183x", "INT8"), ("bm1684x", "FLOAT32"), ("bm1684x", "INT8"), ("cv186x", "INT8")],
)
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


def _passing(folder: Path, names: list[str], sources: dict[str, str]) -> Path:
    """``y = x + last`` and states whose next values are other tensors, unchanged."""
    nodes = [helper.make_node("Add", ["x", f"{names[-1]}_in"], ["y"])]
    nodes += [helper.make_node("Identity", [sources[name]], [f"{name}_out"]) for name in names]
    given = [
        helper.make_tensor_value_info(one, TensorProto.FLOAT, [1, 4]) for one in ("x", *(f"{n}_in" for n in names))
    ]
    made = [
        helper.make_tensor_value_info(one, TensorProto.FLOAT, [1, 4]) for one in ("y", *(f"{n}_out" for n in names))
    ]
    graph = helper.make_graph(nodes, "g", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@each("chip", ["cv181x", "bm1684x", "cv186x"])
@each("names", [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]])
def test_delay_lines_hold_what_came_before(names: list[str], chip: str, tmp_path: Path) -> None:
    """Each state takes the previous one's value: with three of them the sample of three runs ago is added."""
    sources = {"a": "x", "b": "a_in", "c": "b_in"}
    boundary = Boundary(state="internal", state_pair=tuple(f"{name}_in={name}_out" for name in names))
    session = Session(chip=chip, quantize="bf16")
    built = session.build(session.transform(_passing(tmp_path, names, sources)), boundary=boundary)
    loaded = session.chip.load(built.data)
    found: list[float] = []
    for number in range(1, 7):
        (y,) = loaded.run({"x": np.full(loaded.inputs[0].shape, number, np.float32)}).values()
        found.append(float(y.ravel()[0]))
    delay = {"a": 1, "b": 2, "c": 3}[names[-1]]
    assert found == [float(number + max(0, number - delay)) for number in range(1, 7)]


def test_states_that_exchange_values_are_refused(tmp_path: Path) -> None:
    path = _passing(tmp_path, ["a", "b"], {"a": "b_in", "b": "a_in"})
    session = Session(chip="cv181x", quantize="bf16")
    boundary = Boundary(state="internal", state_pair=("a_in=a_out", "b_in=b_out"))
    with pytest.raises(Unsupported, match=r"states 'a_in', 'b_in' exchange their values, and the file copies one"):
        session.build(session.transform(path), boundary=boundary)


def test_states_outside_constants_may_exchange_values(tmp_path: Path) -> None:
    """What is kept is copied before any state is read, so none overwrites another. Both stay at zero here."""
    path = _passing(tmp_path, ["a", "b"], {"a": "b_in", "b": "a_in"})
    session = Session(chip="bm1684x", quantize="f32")
    boundary = Boundary(state="internal", state_pair=("a_in=a_out", "b_in=b_out"))
    loaded = session.chip.load(session.build(session.transform(path), boundary=boundary).data)
    for number in (1.0, 2.0):
        (y,) = loaded.run({"x": np.full(loaded.inputs[0].shape, number, np.float32)}).values()
        assert y.ravel().tolist() == [number] * 4


@each(("mode", "count"), [("f16", 5000), ("int8", 5000), ("int8", 4096), ("f32", 3)])
def test_rows_of_states_are_kept_whole(mode: str, count: int, tmp_path: Path) -> None:
    """Running sums of more and fewer bytes than a row; memory is not cleared before the first run."""
    ends = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, count]) for name in ("x", "h", "y", "z")}
    nodes = [helper.make_node("Add", ["x", "h"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    graph = helper.make_graph(nodes, "g", [ends["x"], ends["h"]], [ends["y"], ends["z"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(tmp_path / "net.onnx")
    samples = np.random.default_rng(3).integers(-2, 3, (4, 1, count)).astype(np.float32)
    table = None
    if mode == "int8":
        (tmp_path / "table").write_text("".join(f"{name} 12.7 -12.7 12.7\n" for name in ends))
        table = tmp_path / "table"
    boundary = Boundary(state="internal", state_pair=("h=y",))
    built = session.build(module, calibration_table=table, boundary=boundary)
    loaded, reference = session.chip.load(built.data), StatefulInterpreter(built.module)
    assert loaded.reset_input is not None
    for _ in range(2):
        for sample in samples:
            (z,), (wanted,) = loaded.run({"x": sample}).values(), reference.run({"x": sample}).values()
            np.testing.assert_array_equal(z.reshape(wanted.shape), wanted)
        loaded.reset()
        reference.reset()
