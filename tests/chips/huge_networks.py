"""Small networks of ONNX whose constants are as large as float32 allows, or infinite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

GREATEST = float(np.finfo(np.float32).max)
X: Array = np.linspace(-3, 3, 13, dtype=np.float32).reshape(1, 13)
_ODD = np.arange(13) % 2 == 1
"""Places that masks hide."""


@dataclass(frozen=True)
class HugeNetwork:
    """Nodes from `x: [1, 13]` to `y`, with constants by name. `in_integers`: a byte can hold what it computes."""

    nodes: tuple[onnx.NodeProto, ...]
    constants: Mapping[str, Any]
    in_integers: bool = True

    def model(self) -> bytes:
        """The file."""
        arrays = {name: np.asarray(value) for name, value in self.constants.items()}
        floats = {name: array if array.dtype.kind in "ib" else np.float32(array) for name, array in arrays.items()}
        graph = helper.make_graph(
            self.nodes,
            "huge",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.asarray(array), name) for name, array in floats.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def _clip(low: float | None, high: float | None) -> HugeNetwork:
    given = {name: value for name, value in (("low", low), ("high", high)) if value is not None}
    names = ["x", "low" if low is not None else "", "high" if high is not None else ""]
    return HugeNetwork((helper.make_node("Clip", names, ["y"]),), given)


def _extreme(op: str, constant: Any) -> HugeNetwork:
    return HugeNetwork((helper.make_node(op, ["x", "c"], ["y"]),), {"c": constant})


def _masked(hidden: float) -> HugeNetwork:
    nodes = (helper.make_node("Add", ["x", "mask"], ["sum"]), helper.make_node("Softmax", ["sum"], ["y"]))
    return HugeNetwork(nodes, {"mask": np.where(_ODD, hidden, 0)}, in_integers=False)


def _chosen(hidden: float) -> HugeNetwork:
    nodes = (helper.make_node("Where", ["c", "x", "h"], ["all"]), helper.make_node("Softmax", ["all"], ["y"]))
    return HugeNetwork(nodes, {"c": ~_ODD, "h": hidden}, in_integers=False)


def _padded(value: float) -> HugeNetwork:
    nodes = (
        helper.make_node("Reshape", ["x", "image"], ["images"]),
        helper.make_node("Pad", ["images", "pads", "value"], ["wide"]),
        helper.make_node("MaxPool", ["wide"], ["pooled"], kernel_shape=[1, 3]),
        helper.make_node("Reshape", ["pooled", "row"], ["y"]),
    )
    constants = {"image": [1, 1, 1, 13], "row": [1, 13], "pads": [0, 0, 0, 1, 0, 0, 0, 1], "value": value}
    return HugeNetwork(nodes, constants, in_integers=False)


NETWORKS: Mapping[str, HugeNetwork] = {
    "an upper bound alone": _clip(None, 0.5),
    "a lower bound alone": _clip(0.5, None),
    "no bound": _clip(None, None),
    "the lowest number as lower bound": _clip(-GREATEST, 0.5),
    "the greatest number as upper bound": _clip(-0.5, GREATEST),
    "minus infinity as lower bound": _clip(-np.inf, 0.5),
    "infinity as upper bound": _clip(-0.5, np.inf),
    "bounds of 3.4e38": _clip(-3.4e38, 3.4e38),
    "bounds of 1e5": _clip(-1e5, 1e5),
    "a relu up to 6": _clip(0.0, 6.0),
    "a minimum": _extreme("Min", 0.5),
    "a maximum": _extreme("Max", 0.5),
    "a minimum with the greatest number": _extreme("Min", GREATEST),
    "a maximum with the lowest number": _extreme("Max", -GREATEST),
    "a minimum with infinity": _extreme("Min", np.inf),
    "a maximum with minus infinity": _extreme("Max", -np.inf),
    "a maximum with numbers and infinities": _extreme("Max", np.where(_ODD, -np.inf, 0)),
    "a mask of the lowest number": _masked(-GREATEST),
    "a mask of minus infinity": _masked(-np.inf),
    "a choice of the lowest number": _chosen(-GREATEST),
    "a choice of minus infinity": _chosen(-np.inf),
    "a border of the lowest number": _padded(-GREATEST),
    "a border of minus infinity": _padded(-np.inf),
}
