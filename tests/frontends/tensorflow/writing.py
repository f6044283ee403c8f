"""GraphDefs written node by node, without TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_tensorflow.loading.schema import new_message

_TYPES = {"float32": 1, "int32": 3, "bool": 10, "int64": 9}


class GraphWriter:
    """A graph; `add` gives the name of the node's first result."""

    def __init__(self) -> None:
        self.graph = new_message("Graph")

    def add(self, name: str, op: str, *inputs: str, **attributes: Any) -> str:
        """A node; attributes are numbers, texts, flags, numpy types, arrays (tensors), or lists of integers."""
        node = self.graph.node.add(name=name, op=op, input=inputs)
        for key, value in attributes.items():
            entry = node.attr.add(key=key)
            _set(entry.value, value)
        return name

    def placeholder(self, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> str:
        """An input; extents of -1 are open."""
        self.add(name, "Placeholder", dtype=np.dtype(dtype))
        entry = self.graph.node[-1].attr.add(key="shape")
        for extent in shape:
            entry.value.shape.dim.add(size=extent)
        return name

    def constant(self, name: str, value: Any, dtype: type = np.float32) -> str:
        """A constant."""
        array = np.asarray(value, dtype)
        return self.add(name, "Const", dtype=array.dtype, value=array)

    def content(self) -> bytes:
        """The file."""
        return self.graph.SerializeToString()


def _set(value: Any, given: Any) -> None:
    match given:
        case bool():
            value.b = given
        case int():
            value.i = given
        case float():
            value.f = given
        case str():
            value.s = given.encode()
        case np.dtype():
            value.type = _TYPES[given.name]
        case np.ndarray():
            _set_tensor(value.tensor, given)
        case _:
            value.list.i.extend(given)


def _set_tensor(tensor: Any, array: NDArray[Any]) -> None:
    tensor.dtype = _TYPES[array.dtype.name]
    tensor.tensor_shape.SetInParent()
    for extent in array.shape:
        tensor.tensor_shape.dim.add(size=extent)
    tensor.tensor_content = array.tobytes()


def small_network() -> bytes:
    """A convolution, pooling, a batch normalization, arithmetic on shapes, and a layer."""
    g, ramp = GraphWriter(), np.linspace(-1, 1, 54, dtype=np.float32)
    x = g.placeholder("x", (-1, 8, 8, 3))
    f32, i32 = np.dtype(np.float32), np.dtype(np.int32)
    w = g.constant("w", ramp.reshape(3, 3, 3, 2))
    c = g.add("c", "Conv2D", x, w, T=f32, strides=[1, 2, 2, 1], padding="SAME", data_format="NHWC")
    four = [g.constant(name, value) for name, value in (("s", [1, 0.5]), ("b", [0, 1]), ("m", [0.1, 0]), ("v", [1, 2]))]
    n = g.add("n", "FusedBatchNormV3", c, *four, T=f32, U=f32, epsilon=1e-3, is_training=False)
    p = g.add(
        "p", "MaxPool", g.add("r", "Relu", n, T=f32), T=f32, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
    )
    shape = g.add("shape", "Shape", p, T=f32, out_type=i32)
    ends = [g.constant(name, value, np.int32) for name, value in (("zero", [0]), ("one", [1]), ("step", [1]))]
    batch = g.add("batch", "StridedSlice", shape, *ends, T=i32, Index=i32, shrink_axis_mask=1)
    rest = g.constant("rest", -1, np.int32)
    target = g.add("target", "Pack", batch, rest, T=i32, N=2, axis=0)
    flat = g.add("flat", "Reshape", p, target, T=f32, Tshape=i32)
    layer = g.add("layer", "MatMul", flat, g.constant("k", ramp[:24].reshape(8, 3)), T=f32, transpose_b=False)
    g.add("y", "Softmax", g.add("a", "BiasAdd", layer, g.constant("bias", [0, 1, 2]), T=f32), T=f32)
    return g.content()


def power_loop(steps: int | None) -> bytes:
    """`x` doubled so many times, by the control flow of version 1; None: until its sum is over 100."""
    g, f32, i32 = GraphWriter(), np.dtype(np.float32), np.dtype(np.int32)
    x = g.placeholder("x", (2,))
    frame = {"frame_name": "loop", "parallel_iterations": 10}
    i0 = g.add("i0", "Enter", g.constant("zero", 0, np.int32), T=i32, is_constant=False, **frame)
    x0 = g.add("x0", "Enter", x, T=f32, is_constant=False, **frame)
    i = g.add("i", "Merge", i0, "i_next", T=i32, N=2)
    s = g.add("s", "Merge", x0, "s_next", T=f32, N=2)
    if steps is None:
        axes = g.add("axes", "Const", f"^{s}", dtype=i32, value=np.array([0], np.int32))
        total = g.add("total", "Sum", s, axes, T=f32, Tidx=i32, keep_dims=False)
        limit = g.add("limit", "Const", f"^{s}", dtype=f32, value=np.array(100, np.float32))
        less = g.add("less", "Less", total, limit, T=f32)
    else:
        limit = g.add("limit", "Const", f"^{i}", dtype=i32, value=np.array(steps, np.int32))
        less = g.add("less", "Less", i, limit, T=i32)
    go = g.add("go", "LoopCond", less)
    g.add("iw", "Switch", i, go, T=i32)
    g.add("sw", "Switch", s, go, T=f32)
    one = g.add("one", "Const", "^iw", dtype=i32, value=np.array(1, np.int32))
    g.add("i_next", "NextIteration", g.add("more", "Add", "iw:1", one, T=i32), T=i32)
    g.add("s_next", "NextIteration", g.add("twice", "Add", "sw:1", "sw:1", T=f32), T=f32)
    g.add("y", "Exit", "sw", T=f32)
    return g.content()


def branch() -> bytes:
    """`x * 2` where the sum of x is positive, else `1 - x`, by Switch and Merge."""
    g, f32, i32, bool_ = GraphWriter(), np.dtype(np.float32), np.dtype(np.int32), np.dtype(bool)
    x = g.placeholder("x", (3,))
    total = g.add("total", "Sum", x, g.constant("axes", [0], np.int32), T=f32, Tidx=i32, keep_dims=False)
    p = g.add("p", "Greater", total, g.constant("zero", 0.0), T=f32)
    g.add("pw", "Switch", p, p, T=bool_)
    pivot = g.add("pivot", "Identity", "pw", T=bool_)
    g.add("xw", "Switch", x, p, T=f32)
    one = g.add("one", "Const", f"^{pivot}", dtype=f32, value=np.array(1, np.float32))
    taken = g.add("taken", "AddV2", "xw:1", "xw:1", T=f32)
    other = g.add("other", "Sub", one, "xw", T=f32)
    g.add("y", "Merge", other, taken, T=f32, N=2)
    return g.content()
