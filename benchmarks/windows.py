"""A stage of Swin: blocks of attention within windows, every other one shifted, in ONNX with random weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.transformers import Graph


@dataclass(frozen=True)
class Stage:
    """`side` by `side` tokens of `width` numbers in windows of `window` by `window`; by default Swin-T's first."""

    side: int = 56
    window: int = 7
    heads: int = 3
    width: int = 96
    blocks: int = 2

    @property
    def along(self) -> int:
        """Windows in a row."""
        return self.side // self.window

    @property
    def shift(self) -> int:
        """Rows and columns by which every other block is shifted."""
        return self.window // 2

    @staticmethod
    def images(batch: int = 1) -> onnx.ModelProto:
        """The first stage of Swin-T, for one image."""
        if batch > 1:
            raise SystemExit("the stage is written for one image")
        return Stage().model()

    def model(self) -> onnx.ModelProto:
        """The stage as exporters write it."""
        net, y = _Net(self), "x"
        for block in range(self.blocks):
            y = net.block(y, f"b{block}", self.shift if block % 2 else 0)
        dims = [1, self.side**2, self.width]
        ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)] for name in ("x", y)]
        graph = helper.make_graph(net.nodes, "stage", ends[0], ends[1], net.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class _Net(Graph):
    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage

    def norm(self, x: str, name: str) -> str:
        width = self.stage.width
        scale = self.constant(f"{name}.scale", np.ones(width, np.float32))
        bias = self.constant(f"{name}.bias", np.zeros(width, np.float32))
        return self.node("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=1e-5)

    def shaped(self, x: str, dims: list[int], name: str) -> str:
        return self.node("Reshape", [x, self.constant(f"{name}.dims", np.array(dims, np.int64))], name)

    def rolled(self, x: str, by: int, name: str) -> str:
        """The rows and columns from `by` on first."""
        for axis in (1, 2):
            parts: list[str] = []
            for part, (first, end) in enumerate(((by, self.stage.side), (0, by))):
                ends = [np.array([number], np.int64) for number in (first, end, axis)]
                names = [self.constant(f"{name}.{axis}.{part}.{index}", end) for index, end in enumerate(ends)]
                parts.append(self.node("Slice", [x, *names], f"{name}.{axis}.{part}"))
            x = self.node("Concat", parts, f"{name}.{axis}", axis=axis)
        return x

    def turned(self, x: str, name: str, order: list[int]) -> str:
        return self.node("Transpose", [x], name, perm=order)

    def block(self, x: str, name: str, shift: int) -> str:
        side, width = self.stage.side, self.stage.width
        y = self.shaped(self.norm(x, f"{name}.norm1"), [1, side, side, width], f"{name}.image")
        if shift:
            y = self.rolled(y, shift, f"{name}.roll")
        y = self.attention_in_windows(y, f"{name}.attention", shift)
        if shift:
            y = self.rolled(y, side - shift, f"{name}.back")
        y = self.node("Add", [x, self.shaped(y, [1, side * side, width], f"{name}.tokens")], f"{name}.sum1")
        z = self.linear(self.norm(y, f"{name}.norm2"), f"{name}.up", width, 4 * width)
        z = self.linear(self.gelu(z, f"{name}.gelu"), f"{name}.down", 4 * width, width)
        return self.node("Add", [y, z], f"{name}.sum2")

    def attention_in_windows(self, x: str, name: str, shift: int) -> str:
        stage, size, along = self.stage, self.stage.window, self.stage.along
        rows, windows, each = size * size, along * along, stage.width // stage.heads
        y = self.shaped(x, [1, along, size, along, size, stage.width], f"{name}.apart")
        y = self.turned(y, f"{name}.partition", [0, 1, 3, 2, 4, 5])
        y = self.linear(
            self.shaped(y, [windows, rows, stage.width], f"{name}.windows"), f"{name}.qkv", stage.width, 3 * stage.width
        )
        y = self.turned(
            self.shaped(y, [windows, rows, 3, stage.heads, each], f"{name}.split"), f"{name}.heads", [2, 0, 3, 1, 4]
        )
        q, k, v = (
            self.node("Gather", [y, self.constant(f"{name}.{part}.at", np.array(index, np.int64))], f"{name}.{part}")
            for index, part in enumerate("qkv")
        )
        q = self.node("Mul", [q, self.constant(f"{name}.factor", np.array(each**-0.5, np.float32))], f"{name}.scaled")
        scores = self.node("MatMul", [q, self.turned(k, f"{name}.kt", [0, 1, 3, 2])], f"{name}.scores")
        places = self.random(f"{name}.places", 1, stage.heads, rows, rows, spread=0.5)
        scores = self.node("Add", [scores, places], f"{name}.placed")
        if shift:
            scores = self.shaped(scores, [1, windows, stage.heads, rows, rows], f"{name}.by_window")
            scores = self.node("Add", [scores, self.constant(f"{name}.mask", self.mask(shift))], f"{name}.masked")
            scores = self.shaped(scores, [windows, stage.heads, rows, rows], f"{name}.by_head")
        y = self.node("MatMul", [self.node("Softmax", [scores], f"{name}.soft", axis=-1), v], f"{name}.context")
        y = self.shaped(self.turned(y, f"{name}.merge", [0, 2, 1, 3]), [windows, rows, stage.width], f"{name}.merged")
        y = self.linear(y, f"{name}.out", stage.width, stage.width)
        y = self.shaped(y, [1, along, along, size, size, stage.width], f"{name}.by_place")
        y = self.turned(y, f"{name}.join", [0, 1, 3, 2, 4, 5])
        return self.shaped(y, [1, stage.side, stage.side, stage.width], f"{name}.joined")

    def mask(self, shift: int) -> np.ndarray:
        """Keeps tokens apart that only the shift made neighbors."""
        side, size, along = self.stage.side, self.stage.window, self.stage.along
        bounds = (0, side - size, side - shift, side)
        zone = np.searchsorted(bounds, np.arange(side), side="right")
        zones = (4 * zone[:, None] + zone).reshape(along, size, along, size).transpose(0, 2, 1, 3)
        zones = zones.reshape(along * along, size * size)
        return np.where(zones[:, None, :, None] != zones[:, None, None, :], -100.0, 0.0).astype(np.float32)[None]
