"""Scatters and samples of images in random forms: ONNX Runtime's results, in floats of eight significant bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.errors import Unsupported
from tpuc_driver.session import Session

Array = NDArray[Any]
MOST_PLACES = 256
"""That eight significant bits can number."""
ROUNDING = 2.0**-8
SUMS = 0.03
"""Of up to a dozen normal values, each sum rounded."""


def _values(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.normal(0, 1, shape).astype(ml_dtypes.bfloat16).astype(np.float32)


def _indices(random: np.random.Generator, dims: tuple[int, ...]) -> tuple[str, Array, tuple[int, ...], dict[str, Any]]:
    """The operator, its indices, the shape of the updates, and its attributes."""
    rank = len(dims)
    if random.random() < 0.5:
        depth = int(random.integers(1, rank + 1))
        rows = tuple(int(extent) for extent in random.integers(1, 4, int(random.integers(1, 3))))
        places = np.stack([random.integers(-extent, extent, rows) for extent in dims[:depth]], -1)
        return "ScatterND", places, (*rows, *dims[depth:]), {}
    axis = int(random.integers(-rank, rank))
    kept = random.random(rank) < 0.7
    taken = [extent if kept[at] else int(random.integers(1, extent + 1)) for at, extent in enumerate(dims)]
    taken[axis] = int(random.integers(1, 2 * dims[axis] + 2))
    lines = [1] * rank
    lines[axis] = taken[axis]
    drawn = lines if random.random() < 0.2 else taken
    places = np.broadcast_to(random.integers(-dims[axis], dims[axis], drawn), taken)
    return "ScatterElements", np.ascontiguousarray(places), tuple(taken), {"axis": axis}


def write_scatter(path: Path, seed: int) -> dict[str, Array]:
    """Write a random scatter between other ops; returns the inputs."""
    random = np.random.default_rng(seed)
    dims = tuple(int(extent) for extent in random.integers(1, 8, int(random.integers(1, 5))))
    if random.random() < 0.15:
        dims = (*dims[:-1], int(random.integers(20, 90)))
    while math.prod(dims) > MOST_PLACES:
        dims = dims[1:]
    kind, places, shape, attributes = _indices(random, dims)
    reduction = str(random.choice(["none", "none", "none", "add", "max", "min"]))
    x, updates = _values(random, dims), _values(random, shape)
    inputs: dict[str, Array] = {"updates": updates}
    constants: dict[str, Array] = {}
    (constants if random.random() < 0.3 else inputs)["x"] = x
    (constants if random.random() < 0.4 else inputs)["places"] = places.astype(np.int64)
    nodes = [
        helper.make_node("Neg", ["x"], ["base"]),
        helper.make_node("Neg", ["updates"], ["new"]),
        helper.make_node(kind, ["base", "places", "new"], ["y"], reduction=reduction, **attributes),
        helper.make_node("Neg", ["y"], ["z"]),
    ]
    _save(path, nodes, inputs, constants)
    return inputs


def write_samples(path: Path, seed: int, mode: str = "linear") -> dict[str, Array]:
    """Write random samples of images between other ops; returns the inputs."""
    random = np.random.default_rng(seed)
    n, c, h, w, rows, width = (int(extent) for extent in random.integers(1, 7, 6))
    grid = random.normal(0, 0.8, (n, rows, width, 2)).astype(np.float32)
    grid.reshape(-1)[0] = random.choice([-1, 1, 0, 3, -5])
    kinds = {
        "mode": mode,
        "padding_mode": ("zeros", "border", "reflection")[seed % 3],
        "align_corners": seed // 3 % 2,
    }
    nodes = [
        helper.make_node("Neg", ["x"], ["images"]),
        helper.make_node("GridSample", ["images", "grid"], ["y"], name="samples", **kinds),
        helper.make_node("Neg", ["y"], ["z"]),
    ]
    inputs: dict[str, Array] = {"x": _values(random, (n, c, h, w)), "grid": grid}
    _save(path, nodes, inputs, {})
    return inputs


def _save(path: Path, nodes: list[onnx.NodeProto], inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> None:
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    given = [helper.make_tensor_value_info(name, kinds[one.dtype.kind], one.shape) for name, one in inputs.items()]
    known = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "scatter", given, [onnx.ValueInfoProto(name="z")], known)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def is_right(chip: str, path: Path, inputs: Mapping[str, Array]) -> bool:
    """Is the result ONNX Runtime's, within rounding, and exact where nothing is added or weighted?"""
    engine = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted: Array = np.asarray(engine.run(None, dict(inputs))[0])
    session = Session(chip=chip, quantize="bf16")
    loaded = session.chip.load(session.build(session.transform(path)).data)
    (found,) = loaded.run({info.name: inputs[info.name] for info in loaded.inputs}).values()
    moved = not any(word in path.read_bytes() for word in (b"GridSample", b"add"))
    bound = 0 if moved else ROUNDING * np.abs(wanted) + SUMS
    return bool((np.abs(found.reshape(wanted.shape) - wanted) <= bound).all())


@pytest.mark.parametrize("chip", ["cv181x", pytest.param("cv183x", marks=pytest.mark.slow)])
def test_scatters_in_random_forms(chip: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    wrong = [seed for seed in range(12) if not is_right(chip, path, write_scatter(path, seed))]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["cv181x", "cv180x"])
def test_five_hundred_scatters(chip: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    wrong = [seed for seed in range(500) if not is_right(chip, path, write_scatter(path, seed))]
    assert not wrong


def test_samples_in_random_forms(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    wrong = [seed for seed in range(12) if not is_right("cv181x", path, write_samples(path, seed))]
    assert not wrong


@pytest.mark.parametrize("mode", ["nearest", "cubic"])
def test_other_samples_are_refused(mode: str, tmp_path: Path) -> None:
    """The runtime rounds halves away from zero, where ONNX takes the even element."""
    path = tmp_path / "net.onnx"
    write_samples(path, 0, mode)
    session = Session(chip="cv181x", quantize="bf16")
    with pytest.raises(Unsupported) as error:
        session.build(session.transform(path))
    known = "'grid_sampler' of the runtime cannot compute it either: it samples in mode bilinear, this one is"
    assert f"{known} {mode.replace('cubic', 'bicubic')}" in str(error.value)
