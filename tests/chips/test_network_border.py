"""Inputs and outputs of compiled files are those of the network: names, shapes, order, and numbers of any type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tpuc
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tpuc.errors import TpucError, UsageError
from tpuc_driver.cli import main
from tpuc_driver.session import Session

from tests.families import each

Array = NDArray[Any]
MODES = {"bm1684x": ("f32", "int8"), "cv181x": ("bf16", "int8"), "c": ("f32", "int8")}
EACH = [
    pytest.param(chip, mode, marks=pytest.mark.chip(chip), id=f"{chip}-{mode}")
    for chip, modes in MODES.items()
    for mode in modes
]
SHAPES: dict[str, tuple[int, ...]] = {
    "z": (),
    "y": (5,),
    "x": (3, 4),
    "w": (1, 10, 7),
    "v": (1, 2, 3, 4),
    "u": (1, 2, 3, 4, 5),
    "t": (1, 1, 2, 3, 2, 2),
}
OUTPUTS = {f"out_{name}": shape for name, shape in reversed(SHAPES.items())}

pytestmark = pytest.mark.filterwarnings("ignore::tpuc.Remark")


def network(folder: Path) -> Path:
    """Inputs of every rank, named from the last letter to the first; results are twice each of them, in between."""
    nodes = [helper.make_node("Add", [name, name], [f"out_{name}"]) for name in SHAPES]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        for shapes in (SHAPES, OUTPUTS)
    ]
    graph = helper.make_graph(nodes, "border", *ends)
    path = folder / "border.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def whole_numbers(seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {name: np.asarray(generator.integers(-9, 10, shape)).astype(np.float32) for name, shape in SHAPES.items()}


def compiled(path: Path, chip: str, mode: str) -> tpuc.CompiledNetwork:
    loaded = tpuc.load(path)
    if mode != "int8":
        return loaded.compile(chip, mode=mode)
    samples = [whole_numbers(seed) for seed in range(4)]
    return loaded.quantize({name: np.stack([one[name] for one in samples]) for name in SHAPES}).compile(chip)


def fault_of(results: Mapping[str, Array], inputs: Mapping[str, Array]) -> str:
    """What is wrong with results: names, order, shapes, numbers (int8 rounds them to steps of a seventh)."""
    shapes = {name: array.shape for name, array in results.items()}
    if list(shapes.items()) != list(OUTPUTS.items()):
        return f"{shapes}"
    pairs = {name: (results[f"out_{name}"], 2 * inputs[name].astype(np.float64)) for name in SHAPES}
    return ", ".join(name for name, (one, other) in pairs.items() if np.abs(one - other).max() > 0.3)


@each(("chip", "mode"), EACH)
def test_every_way_in_and_out_is_that_of_the_network(chip: str, mode: str, tmp_path: Path) -> None:
    inputs, path = whole_numbers(), network(tmp_path)
    in_memory = compiled(path, chip, mode)
    file = in_memory.save(tmp_path / f"border{Session(chip=chip).chip.description.suffix}")
    saved = tpuc.load_compiled(file)
    np.savez(tmp_path / "in.npz", **{name: array.astype(np.int16) for name, array in inputs.items()})
    assert main(["run", str(file), str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]) == 0
    opened_chip, opened = (session := Session()).open(file)
    found = {
        "compiled": in_memory.run(inputs),
        "saved": saved.run(inputs),
        "integers": saved.run({name: array.astype(np.int64) for name, array in inputs.items()}),
        "doubles": saved.run({name: array.astype(np.float64) for name, array in inputs.items()}),
        "session": session.run(file, [tmp_path / "in.npz"]),
        "simulated": session.simulate(opened_chip, opened, inputs),
        "simulated integers": session.simulate(opened_chip, opened, {k: a.astype(np.int32) for k, a in inputs.items()}),
        "command": dict(np.load(tmp_path / "out.npz")),
    }
    faults = {way: fault_of(results, inputs) for way, results in found.items()}
    assert {way: fault for way, fault in faults.items() if fault} == {}
    for one in (in_memory, saved):
        assert [(info.name, info.shape) for info in one.inputs] == list(SHAPES.items())
        assert [(info.name, info.shape) for info in one.outputs] == list(OUTPUTS.items())


@each("chip", [pytest.param(one, marks=pytest.mark.chip(one)) for one in MODES])
def test_numbers_that_an_input_cannot_hold_are_refused(chip: str, tmp_path: Path) -> None:
    """Their bits are never read as other numbers."""
    session, inputs = Session(), whole_numbers()
    file = compiled(network(tmp_path), chip, MODES[chip][0]).save(
        tmp_path / f"border{Session(chip=chip).chip.description.suffix}"
    )
    found_chip, loaded = session.open(file)
    beyond = np.full(SHAPES["x"], 2**24 + 1, np.int32)
    with pytest.raises(UsageError, match=r"input 'x' is .* of shape \(3, 4.*\), got int32 of shape \(3, 4\); convert"):
        session.simulate(found_chip, loaded, {**inputs, "x": beyond})
    with pytest.raises(TpucError, match=re.escape("input 'x' has values that float32 cannot represent. Convert the")):
        tpuc.load_compiled(file).run({**inputs, "x": beyond})
    with pytest.raises(UsageError, match="input 'x' is missing; give all of z, y, x, w, v, u, t"):
        session.simulate(found_chip, loaded, {name: array for name, array in inputs.items() if name != "x"})
    with pytest.raises(UsageError, match="no input 'q'; the file has z, y, x, w, v, u, t"):
        session.simulate(found_chip, loaded, {**inputs, "q": beyond})
