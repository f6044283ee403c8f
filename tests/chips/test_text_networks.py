"""Text networks as people export them: token numbers that several ops read, computed places, masks of int64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.exported_text import TEXT
from tests.families import each

Array = NDArray[Any]
FLOAT = {"bm1684x": "f16", "c": "f32"}
CHIPS = ("bm1684x", "cv183x", "cv182x", "cv181x", "cv180x", "c")
LEAST = {"f32": 100.0, "f16": 45.0, "bf16": 28.0, "int8": 12.0}
"""dB that each mode keeps: rounding to 11 and 8 bits loses 72 and 54 dB each time, and these networks round some 50
times one after the other; int8 is calibrated on eight sentences, and CLIP's one word has 32 numbers.
"""
QUICK = ("distilbert", "roberta", "clip largest")


def signal(got: Array, wanted: Array) -> float:
    """The signal-to-noise ratio in dB, 200 for equal numbers."""
    noise = float(np.square(got.reshape(wanted.shape) - wanted.astype(np.float64)).sum())
    return 10 * float(np.log10(np.square(wanted.astype(np.float64)).sum() / noise)) if noise else 200.0


def check(name: str, chip: str, mode: str, tmp_path: Path) -> None:
    """Compile it and compare the outputs of two sentences with ONNX Runtime's."""
    network = TEXT[name]
    path = network.write(tmp_path / "net.onnx")
    session = Session(chip=chip, quantize=mode)
    if mode == "int8":
        samples = tmp_path / "samples"
        samples.mkdir()
        for seed in range(8):
            np.savez(samples / f"{seed}.npz", **network.fed(path, seed))
        target = tmp_path / f"net{session.chip.description.suffix}"
        session.compile(path, target, dims=network.dims, dataset=samples)
        loaded = session.open(target)[1]
    else:
        loaded = session.chip.load(session.build(session.transform(path, dims=network.dims)).data)
    reference = onnxruntime.InferenceSession(str(path))
    for seed in (100, 101):
        feed = network.fed(path, seed)
        wanted = reference.run(None, feed)
        for output, got, right in zip(reference.get_outputs(), loaded.run(feed).values(), wanted, strict=True):
            assert signal(got, right) > LEAST[mode], (output.name, seed, signal(got, right))


@each("name", QUICK)
def test_token_numbers_that_several_ops_read(name: str, tmp_path: Path) -> None:
    check(name, "cv181x", "bf16", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("is_integer", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("chip", CHIPS)
@each("name", TEXT)
def test_every_network_on_every_chip(chip: str, is_integer: bool, name: str, tmp_path: Path) -> None:
    check(name, chip, "int8" if is_integer else FLOAT.get(chip, "bf16"), tmp_path)


def draw(seed: int, path: Path) -> dict[str, Array]:
    """A gather of any kind by indices from both ends, computed or constant, as `path`; gives its inputs."""
    random = np.random.default_rng(seed)
    kind = ("Gather", "GatherND", "GatherElements")[seed % 3]
    rank = int(random.integers(1, 5))
    dims = [int(extent) for extent in random.integers(1, 7, rank)]
    axis, attributes = int(random.integers(-rank, rank)), dict[str, int]()
    match kind:
        case "Gather":
            shape = [int(extent) for extent in random.integers(1, 5, int(random.integers(0, 4)))]
            indices, attributes = random.integers(-dims[axis], dims[axis], shape), {"axis": axis}
        case "GatherElements":
            shape = [int(random.integers(1, extent + 1)) for extent in dims]
            shape[axis] = int(random.integers(1, 8))
            indices, attributes = random.integers(-dims[axis], dims[axis], shape), {"axis": axis}
        case _:
            batch = int(random.integers(0, rank))
            count = int(random.integers(1, rank - batch + 1))
            shape = dims[:batch] + [int(extent) for extent in random.integers(1, 4, int(random.integers(1, 3)))]
            chosen = dims[batch : batch + count]
            indices = np.stack([random.integers(-extent, extent, shape) for extent in chosen], -1)
            attributes = {"batch_dims": batch}
    values: dict[str, Array] = {"x": random.normal(size=dims).astype(np.float32), "i": np.asarray(indices, np.int64)}
    fixed = ("x", "i", "", "")[int(random.integers(4))]
    kinds = {"x": TensorProto.FLOAT, "i": TensorProto.INT64}
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "i"], ["y"], **attributes)],
        "gather",
        [helper.make_tensor_value_info(name, kinds[name], values[name].shape) for name in values if name != fixed],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(values[name], name) for name in values if name == fixed],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return {name: array for name, array in values.items() if name != fixed}


@each("seed", range(12))
def test_gathers_by_computed_indices(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "gather.onnx"
    feed = draw(seed, path)
    session = Session(chip="cv181x", quantize="bf16")
    (got,) = session.chip.load(session.build(session.transform(path)).data).run(feed).values()
    (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, feed)
    # The runtime's cast to bf16 may round to the number above the nearest one.
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=2**-6, atol=0)
