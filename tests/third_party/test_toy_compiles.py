"""Networks on the toy chip: its simulator gives exactly the integers that the TPU dialect means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_node, make_tensor_value_info
from toy_chip.container import read_file
from toy_chip.isa import decode
from tpuc.api import find_hazards
from tpuc.errors import CorruptFile, LmemOverflow, Unsupported, UsageError
from tpuc.ir import Module
from tpuc.registry import Registry
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.packages import offers_of
from tpuc_testing.values import build_exposed

from tests.models.datasets import calibration_set, evaluation_set
from tests.third_party.conftest import Compiled, random_inputs
from tests.third_party.distributions import ROOT, TOY_CHIP

CompileGraph = Callable[..., Compiled]


# Trained networks


@dataclass(frozen=True)
class Trained:
    """A calibrated network with labeled images."""

    module: Module
    table: Any
    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def inputs(self, index: int) -> dict[str, NDArray[Any]]:
        (spec,) = inputs_of(self.module)
        return {spec.name: self.images[index].reshape(spec.shape)}


def trained(name: str, calibrate_on: int, request: pytest.FixtureRequest, work: Path) -> Trained:
    """digits, mnist or resnet8, calibrated on its own samples; all but digits need the model data."""
    path: Path = request.getfixturevalue(f"{name}_onnx")
    folder = None if name == "digits" else request.getfixturevalue("model_data")
    dataset = "ic01" if name == "resnet8" else name
    session = Session()
    module = session.transform(path)
    (spec,) = inputs_of(module)
    samples = work / "samples.npz"
    np.savez(samples, **{spec.name: calibration_set(dataset, folder)[:calibrate_on]})
    table = session.calibrate(module, dataset=samples)
    return Trained(module, table, *evaluation_set(dataset, folder))


@pytest.mark.parametrize(
    ("name", "samples", "integers", "accurate"),
    [("digits", 100, 8, 192), ("mnist", 100, 7, 195), ("resnet8", 4, 16, 0)],  # resnet8 takes too long for all images
)
def test_trained_network(
    name: str,
    samples: int,
    integers: int,
    accurate: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    registry: Registry,
) -> None:
    net = trained(name, samples, request, tmp_path)
    session = Session(registry, chip="toy", quantize="int8")
    compiled = Compiled(session, *build_exposed(session, net.module, net.table))
    for index in range(3):
        assert compiled.compare(net.inputs(index)) == integers
    if accurate:
        data = session.build(net.module, net.table).data
        loaded = session.chip.load(data)
        (output,) = loaded.outputs
        guesses = [int(loaded.run(net.inputs(index))[output.name].argmax()) for index in range(len(net.labels))]
        assert np.count_nonzero(guesses == net.labels) >= accurate


# Tiles


def graph(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int], weights: dict[str, NDArray[Any]], name: str = "net"
) -> onnx.GraphProto:
    """A network from `x` to `y`."""
    return make_graph(
        nodes,
        name,
        [make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(_as_stored(array), key) for key, array in weights.items()],
    )


def _as_stored(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.dtype == np.int64 else array.astype(np.float32)


def weight(*shape: int, seed: int = 3) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 0.3, shape).astype(np.float32)


def conv(shape: Sequence[int], filters: Sequence[int], **attributes: Any) -> onnx.GraphProto:
    weights = {"w": weight(*filters), "b": weight(filters[0], seed=4)}
    return graph([make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], shape, weights)


SPLITS = {
    "batch": (conv((700, 1, 1, 1), (3, 1, 1, 1)), "n"),
    "height": (conv((1, 8, 64, 16), (8, 8, 3, 3), pads=[1, 1, 1, 1]), "h"),
    "width": (conv((1, 3, 1, 3000), (5, 3, 1, 5), pads=[0, 2, 0, 2]), "w"),
    "outputs": (conv((1, 8, 4, 4), (200, 8, 3, 3)), "c"),
    "inputs": (conv((1, 300, 5, 4), (8, 300, 3, 3), pads=[1, 0, 0, 1], strides=[2, 1]), "k"),
    "matrix": (graph([make_node("MatMul", ["x", "w"], ["y"])], (3, 2000), {"w": weight(2000, 11)}), "k"),
}


@pytest.mark.parametrize(("net", "axis"), SPLITS.values(), ids=SPLITS)
def test_every_axis_is_cut_where_the_tile_is_too_large(
    net: onnx.GraphProto, axis: str, compile_graph: CompileGraph
) -> None:
    compiled = compile_graph(net, opt=1)  # without slices, in which rows would run through several ops
    sizes, dims = compiled.tilings()["y"]
    extents = dict(zip("nchw", (*dims, 1, 1), strict=False)) | {"k": max(net.initializer[0].dims)}
    assert sizes[axis] < extents[axis]
    assert compiled.compare(random_inputs(net, seed=5)) >= 2


def test_a_reduction_runs_through_first_middle_and_last(compile_graph: CompileGraph) -> None:
    net, _ = SPLITS["inputs"]
    compiled = compile_graph(net)
    lines = compiled.session.chip.load(compiled.data).disassemble().splitlines()
    phases = [line.rsplit("=", 1)[1] for line in lines if " Conv " in line]
    assert phases.count("True") > phases.count("False") > 0
    assert sum(" Requantize " in line for line in lines) == phases.count("False")


def test_cutting_rows_and_columns_meets_padding_strides_and_dilation(compile_graph: CompileGraph) -> None:
    net = conv((1, 9, 41, 37), (11, 9, 3, 4), pads=[3, 2, 1, 4], strides=[2, 3], dilations=[3, 2])
    compiled = compile_graph(net)
    assert compiled.compare(random_inputs(net, seed=6)) == 2


def test_no_wait_can_be_left_out(compile_graph: CompileGraph) -> None:
    """Each wait that grows is there because a hazard would be: without it the simulator refuses the program."""
    compiled = compile_graph(SPLITS["inputs"][0])
    content = read_file(compiled.data, "net.toy")
    streams = {"compute": decode(content.compute), "dma": decode(content.dma)}
    tried = 0
    for name, commands in streams.items():
        for at in [i for i in range(1, len(commands)) if commands[i].wait > commands[i - 1].wait][:10]:
            weaker = [replace(c, wait=commands[at - 1].wait) if i == at else c for i, c in enumerate(commands)]
            weaker = weaker[: at + 1]  # later waits would order it again only for what comes later
            other = "dma" if name == "compute" else "compute"
            first, second = (weaker, streams[other]) if name == "compute" else (streams[other], weaker)
            assert find_hazards(first, second), f"{name} command {at + 1} does not need its wait"
            tried += 1
    assert tried > 10


def test_transfers_run_beside_compute(compile_graph: CompileGraph) -> None:
    compiled = compile_graph(SPLITS["height"][0])
    timeline = compiled.session.chip.load(compiled.data).timeline("manual")
    assert timeline.cycles < 0.9 * sum(timeline.busy.values())


# Ops

OPS = {
    "relu": [make_node("Relu", ["x"], ["y"])],
    "clipped relu": [make_node("Conv", ["x", "w"], ["c"]), make_node("Clip", ["c", "zero", "six"], ["y"])],
    "max pool": [make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 0, 1])],
    "max pool, ceil": [make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)],
    "average pool": [make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 3], strides=[2, 2])],
    "average pool, padded": [
        make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    ],
    "global average": [make_node("GlobalAveragePool", ["x"], ["y"])],
    "max pool of volumes": [
        make_node("Reshape", ["x", "volumes"], ["v"]),
        make_node("MaxPool", ["v"], ["y"], kernel_shape=[2, 3, 2], strides=[1, 2, 2], pads=[1, 1, 0, 0, 1, 1]),
    ],
    "average pool of volumes": [
        make_node("Reshape", ["x", "volumes"], ["v"]),
        make_node("AveragePool", ["v"], ["y"], kernel_shape=[2, 3, 2], strides=[1, 2, 2]),
    ],
    "add": [make_node("Relu", ["x"], ["r"]), make_node("Add", ["x", "r"], ["y"])],
    "add, broadcast": [make_node("GlobalAveragePool", ["x"], ["g"]), make_node("Add", ["x", "g"], ["y"])],
    "add, relu": [
        make_node("Relu", ["x"], ["r"]),
        make_node("Add", ["x", "r"], ["s"]),
        make_node("Relu", ["s"], ["y"]),
    ],
    "permute": [make_node("Relu", ["x"], ["r"]), make_node("Transpose", ["r"], ["y"], perm=[0, 2, 3, 1])],
    "flatten": [make_node("Relu", ["x"], ["r"]), make_node("Flatten", ["r"], ["y"])],
    "permute, reshape, matrix": [
        make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
        make_node("MatMul", ["t", "m"], ["y"]),
    ],
    "softmax": [make_node("Softmax", ["x"], ["y"], axis=3)],
}


@pytest.mark.parametrize("nodes", OPS.values(), ids=OPS)
def test_op(nodes: list[onnx.NodeProto], compile_graph: CompileGraph) -> None:
    constants = {"w": weight(12, 12, 1, 1), "m": weight(12, 10), "zero": np.zeros(()), "six": np.array(6.0)}
    constants["volumes"] = np.array([2, 3, 4, 9, 8])
    used = {name for node in nodes for name in node.input}
    net = graph(nodes, (2, 12, 9, 8), {name: array for name, array in constants.items() if name in used})
    compiled = compile_graph(net)
    assert compiled.compare(random_inputs(net, seed=7)) >= (nodes[0].op_type != "Softmax")


# What the chip cannot do


@pytest.mark.parametrize(
    ("nodes", "weights", "sentence"),
    [
        (
            [make_node("Conv", ["x", "w"], ["y"], group=2)],
            {"w": weight(12, 6, 1, 1)},
            "node 'y': top.Conv int8 on toy: only group 1, this one has 2",
        ),
        (
            [make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
            {},
            "node 'y': top.AvgPool int8 on toy: an average over windows of different size",
        ),
        (
            [make_node("Softmax", ["x"], ["y"], axis=1)],
            {},
            "node 'y': tpu.Softmax on toy: only along the last dimension, this one has axis 1 of 4 dimensions",
        ),
        (
            [make_node("LogSoftmax", ["x"], ["y"], axis=3)],
            {},
            "node 'y': tpu.Softmax on toy: log softmax has no command",
        ),
        (
            [make_node("Mul", ["x", "x"], ["y"])],
            {},
            "node 'y': top.Mul int8 on toy: the chip has no lowering for it",
        ),
    ],
    ids=lambda value: value[0].op_type if isinstance(value, list) else "",
)
def test_refusals(
    nodes: list[onnx.NodeProto], weights: dict[str, NDArray[Any]], sentence: str, compile_graph: CompileGraph
) -> None:
    with pytest.raises(Unsupported, match=sentence):
        compile_graph(graph(nodes, (2, 12, 9, 8), weights))


def test_a_row_of_softmax_must_fit_a_lane(compile_graph: CompileGraph) -> None:
    """Two rows of f32 in 2048 bytes: 256 elements at most."""
    node = make_node("Softmax", ["x"], ["y"], axis=1)
    net = graph([node], (1, 256), {})
    compile_graph(net).compare(random_inputs(net))
    sentence = (
        r"node 'y': tpu\.Softmax on toy: the smallest tile needs 2064 bytes of local memory per lane, but only 2048"
    )
    with pytest.raises(LmemOverflow, match=sentence):
        compile_graph(graph([node], (1, 257), {}))


def test_other_modes_are_refused(registry: Registry) -> None:
    with pytest.raises(UsageError, match=r"chip 'toy' has no mode 'f32'\. Its modes: int8\."):
        Session(registry, chip="toy", quantize="f32")


# Files


def test_the_same_network_gives_the_same_bytes(compile_graph: CompileGraph) -> None:
    net, _ = SPLITS["inputs"]
    assert compile_graph(net).data == compile_graph(net).data


def test_a_compiled_file_can_be_inspected(compile_graph: CompileGraph) -> None:
    compiled = compile_graph(conv((1, 3, 8, 8), (8, 3, 3, 3)))
    loaded = compiled.session.chip.load(compiled.data)
    assert loaded.memory["file"] == len(compiled.data)
    assert loaded.memory["weights"] + loaded.memory["code"] < loaded.memory["file"]
    assert loaded.disassemble().count("\n") + 1 == len(loaded.timeline("manual").entries)


def test_a_truncated_file_is_refused(compile_graph: CompileGraph) -> None:
    compiled = compile_graph(conv((1, 3, 8, 8), (8, 3, 3, 3)))
    with pytest.raises(CorruptFile, match=r"net\.toy: 100 bytes where its header says"):
        compiled.session.chip.load(compiled.data[:100], "net.toy")


def test_other_packages_change_nothing(registry: Registry, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Without the acme ops, and without the bundled chip, the toy chip gets the same file."""
    net = trained("digits", 10, request, tmp_path)
    alone = [offer for offer in offers_of(ROOT, TOY_CHIP) if not offer.name.startswith("bm1684x")]
    files = [
        Session(Registry(offers=offers), chip="toy", quantize="int8").build(net.module, net.table).data
        for offers in (registry.offers, alone)
    ]
    assert files[0] == files[1]
