"""Lists of tensors and TensorArrays: loops over sequences as Keras writes them, and every operator on lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import ImportOptions, TpucError
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_tensorflow.frontend import FRONTEND

from tests.families import each
from tests.frontends.tensorflow.writing import GraphWriter

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
LIST: dict[str, Any] = {"element_dtype": F32, "shape_type": I32}


def run(graph: GraphWriter, folder: Path, registry: Registry, **inputs: NDArray[Any]) -> list[NDArray[Any]]:
    path = folder / "n.pb"
    path.write_bytes(graph.content())
    outputs = tuple(node.name for node in graph.graph.node if node.name.startswith("out"))
    module = FRONTEND.read(path, ImportOptions("n", output_names=outputs), registry)
    module.verify()
    return list(Interpreter(module).run({name: array.astype(np.float32) for name, array in inputs.items()}).values())


class Writer(GraphWriter):
    """With short forms of what the graphs below consist of."""

    def number(self, value: Any) -> str:
        return self.constant(f"c{len(self.graph.node)}", value, np.int32)

    def inner(self, after: str, value: Any) -> str:
        """A constant inside a frame."""
        return self.add(f"c{len(self.graph.node)}", "Const", f"^{after}", dtype=I32, value=np.array(value, np.int32))

    def scalar(self, name: str) -> str:
        """An input of one number, without a dimension."""
        axes = self.number([0])
        return self.add(f"{name}_sum", "Sum", self.placeholder(name, (1,)), axes, T=F32, Tidx=I32, keep_dims=False)

    def enter(self, value: str, kind: np.dtype[Any], constant: bool = True) -> str:
        return self.add(f"{value.replace(':', '_')}_in", "Enter", value, T=kind, frame_name="f", is_constant=constant)


def recurrent(steps: int, arrays: bool, step: int = 1) -> Writer:
    """A loop of version 1 that fills a list with h = tanh(x[t] w + h); with `step` 2, every second element."""
    g = Writer()
    x, w = g.placeholder("x", (steps, 1, 3)), g.constant("w", np.linspace(-1, 1, 9).reshape(3, 3))
    shape, count = g.number([1, 3]), g.number(steps)
    if arrays:
        every = g.number(range(steps))
        g.add("xs", "TensorArrayV3", count, dtype=F32)
        read = g.add("filled", "TensorArrayScatterV3", "xs", every, x, "xs:1", T=F32)
        g.add("ys", "TensorArrayV3", count, dtype=F32)
        written = "ys:1"
        handles = [g.enter("xs", F32), g.enter("ys", F32)]
    else:
        read = g.add("xs", "TensorListFromTensor", x, shape, **LIST)
        written = g.add("ys", "TensorListReserve", shape, count, **LIST)
        handles = []
    kinds = {"t": I32, "h": F32, "ys": F32}
    starts = {"t": g.number(0), "h": g.constant("h0", np.zeros((1, 3))), "ys": written}
    held = [g.enter(read, F32), g.enter(w, F32), g.enter(count, I32)]
    for name, start in starts.items():
        g.add(f"{name}_m", "Merge", g.enter(start, kinds[name], False), f"{name}_next", T=kinds[name], N=2)
    go = g.add("go", "LoopCond", g.add("less", "Less", "t_m", held[2], T=I32))
    for name, kind in kinds.items():
        g.add(f"{name}_s", "Switch", f"{name}_m", go, T=kind)
    if arrays:
        now = g.add("now", "TensorArrayReadV3", handles[0], "t_s:1", held[0], dtype=F32)
    else:
        now = g.add("now", "TensorListGetItem", held[0], "t_s:1", g.inner("t_s", [1, 3]), **LIST)
    h = g.add("h1", "Tanh", g.add("sum", "AddV2", g.add("p", "MatMul", now, held[1], T=F32), "h_s:1", T=F32), T=F32)
    if arrays:
        ys = g.add("put", "TensorArrayWriteV3", handles[1], "t_s:1", h, "ys_s:1", T=F32)
    else:
        ys = g.add("put", "TensorListSetItem", "ys_s:1", "t_s:1", h, **LIST)
    following = {"t": g.add("t1", "AddV2", "t_s:1", g.inner("t_s", step), T=I32), "h": h, "ys": ys}
    for name, value in following.items():
        g.add(f"{name}_next", "NextIteration", value, T=kinds[name])
    g.add("ys_out", "Exit", "ys_s", T=F32)
    if arrays:
        g.add("out", "TensorArrayGatherV3", "ys", g.number(range(steps)), "ys_out", dtype=F32)
    else:
        g.add("out", "TensorListStack", "ys_out", shape, num_elements=-1, **LIST)
    g.add("out_h", "Exit", "h_s", T=F32)
    return g


@each(("steps", "arrays", "step"), [(1, False, 1), (5, False, 1), (4, True, 1), (5, False, 2), (5, True, 2)])
def test_loops_that_fill_lists(steps: int, arrays: bool, step: int, tmp_path: Path, registry: Registry) -> None:
    """Elements that nothing writes are zeros."""
    x = np.random.default_rng(steps).normal(size=(steps, 1, 3))
    h, wanted = np.zeros((1, 3)), np.zeros((steps, 1, 3))
    for t in range(0, steps, step):
        h = wanted[t] = np.tanh(x[t] @ np.linspace(-1, 1, 9).reshape(3, 3) + h)
    stacked, last = run(recurrent(steps, arrays, step), tmp_path, registry, x=x)
    np.testing.assert_allclose(stacked, wanted, atol=1e-6)
    np.testing.assert_allclose(last, h, atol=1e-6)


def test_every_operator_on_lists(tmp_path: Path, registry: Registry) -> None:
    g = Writer()
    x, y = g.placeholder("x", (3, 2)), g.placeholder("y", (2,))
    shape, i = g.number([2]), g.scalar("i")
    parts = g.add("parts", "TensorListFromTensor", x, shape, **LIST)
    pushed = g.add("pushed", "TensorListPushBack", g.add("copy", "Identity", parts, T=F32), y, **LIST)
    popped = g.add("popped", "TensorListPopBack", pushed, shape, **LIST)
    g.add("out0", "Neg", "popped:1", T=F32)
    longer = g.add("longer", "TensorListResize", popped, g.number(5))
    g.add("out1", "TensorListStack", longer, shape, **LIST)
    g.add("out2", "TensorListGather", longer, g.number([4, 0, 0]), shape, **LIST)
    g.add("out3", "TensorListConcatV2", pushed, shape, g.number(np.zeros(0)), **LIST)
    spread = g.add("spread", "TensorListScatterV2", x, g.number([3, 0, 1]), shape, g.number(-1), **LIST)
    more = g.add("more", "TensorListScatterIntoExistingList", spread, x, g.number([0, 2, 1]), **LIST)
    g.add("out4", "TensorListStack", more, shape, **LIST)
    empty = g.add("empty", "EmptyTensorList", shape, g.number(-1), **LIST)
    grown = g.add("grown", "TensorListSetItem", empty, g.number(1), y, resize_if_index_out_of_bounds=True, **LIST)
    g.add("out5", "TensorListStack", grown, shape, **LIST)
    count = g.add("count", "Cast", g.add("length", "TensorListLength", longer), SrcT=I32, DstT=F32)
    g.add("out6", "Mul", y, count, T=F32)
    place = g.add("place", "Cast", i, SrcT=F32, DstT=I32)
    g.add("out7", "TensorListGetItem", parts, place, shape, **LIST)
    held = g.add("held", "TensorListFromTensor", g.constant("k", [[1, 2], [3, 4]]), shape, **LIST)
    g.add("out8", "Mul", g.add("all", "TensorListStack", held, shape, **LIST), y, T=F32)
    a, b = np.arange(1.0, 7).reshape(3, 2), np.array([7.0, 8])
    zero = np.zeros((1, 2))
    wanted = [
        -b,
        np.concatenate([a, zero, zero]),
        np.stack([zero[0], a[0], a[0]]),
        np.concatenate([a.reshape(-1), b]),
        np.stack([a[0], a[2], a[1], a[0]]),
        np.stack([zero[0], b]),
        b * 5,
        a[2],
        np.array([[1, 2], [3, 4]]) * b,
    ]
    for index, (got, right) in enumerate(
        zip(run(g, tmp_path, registry, x=a, y=b, i=np.array([2])), wanted, strict=True)
    ):
        np.testing.assert_array_equal(got, right, str(index))


def failing(case: str) -> Writer:
    """A network with one mistake."""
    g = Writer()
    x, shape, p = g.placeholder("x", (3, 2)), g.number([2]), g.scalar("p")
    parts = g.add("parts", "TensorListFromTensor", x, shape, **LIST)
    match case:
        case "place":
            g.add("out", "TensorListGetItem", parts, g.number(3), shape, **LIST)
        case "length":
            big = g.add("big", "TensorListReserve", shape, g.number(1 << 20), **LIST)
            g.add("out", "TensorListStack", big, shape, **LIST)
        case "open":
            started = g.add("started", "TensorListReserve", g.number(-1), g.number(2), **LIST)
            g.add("out", "TensorListStack", started, g.number(-1), **LIST)
        case "nothing":
            g.add(
                "out", "TensorListStack", g.add("none", "EmptyTensorList", shape, g.number(-1), **LIST), shape, **LIST
            )
        case "none":
            none, lengths = g.add("none", "EmptyTensorList", shape, g.number(-1), **LIST), g.number(np.zeros(0))
            g.add("out", "TensorListConcatV2", none, shape, lengths, **LIST)
        case "scalar":
            g.add(
                "out",
                "TensorListStack",
                g.add("cut", "TensorListFromTensor", g.constant("k", 1), shape, **LIST),
                shape,
                **LIST,
            )
        case "tensor":
            g.add("out", "TensorListStack", x, shape, **LIST)
        case "lengths":
            positive = g.add("positive", "Greater", p, g.constant("zero", 0), T=F32)
            g.add("ways", "Switch", parts, positive, T=F32)
            longer = g.add("longer", "TensorListPushBack", "ways:1", g.constant("k", [1, 2]), **LIST)
            either = g.add("either", "Merge", g.add("kept", "Identity", "ways", T=F32), longer, T=F32, N=2)
            g.add("out", "TensorListStack", either, shape, **LIST)
        case "list":
            g.add("out", "Neg", parts, T=F32)
        case _:
            place = g.add("place", "Cast", p, SrcT=F32, DstT=I32)
            put = g.add("put", "TensorListSetItem", parts, place, g.constant("k", [1, 2]), **LIST)
            g.add("out", "TensorListStack", put, shape, **LIST)
    return g


@each(
    ("case", "reason"),
    [
        ("place", r"node 'out' \(TensorListGetItem\): it uses element 3 of a list of 3\.$"),
        ("length", r"node 'big' \(TensorListReserve\): its list would have 1048576 elements, and the maximum is 16384"),
        (
            "open",
            r"node 'out' \(TensorListStack\): it reads an element that nothing wrote, and nothing states its shape",
        ),
        ("nothing", r"node 'out' \(TensorListStack\): it combines a list without elements\.$"),
        ("none", r"node 'out' \(TensorListConcatV2\): it combines a list without elements\.$"),
        ("scalar", r"node 'cut' \(TensorListFromTensor\): tensor 'k' has no dimension to make a list of\.$"),
        ("tensor", r"node 'out' \(TensorListStack\): nothing in the network makes the list that it reads\.$"),
        ("lengths", "its branches give '.*' different lengths, and the choice depends on the data"),
        ("list", r"node 'out' \(Neg\): it takes the list of tensors 'parts' for a tensor"),
        ("computed", r"node 'put' \(TensorListSetItem\): a length or place in a list of tensors"),
    ],
)
def test_lists_that_are_not_known(case: str, reason: str, tmp_path: Path, registry: Registry) -> None:
    with pytest.raises(TpucError, match=reason):
        run(failing(case), tmp_path, registry, x=np.zeros((3, 2)))
