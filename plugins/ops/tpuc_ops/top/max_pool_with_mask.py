"""Maximum pooling that also returns the positions of the maxima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from tpuc.api import Bool, I64Array, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.convolution import pad_images
from tpuc_ops.window import Window


@dataclass(frozen=True)
class MaxPoolWithMask(Op):
    """The maximum under each window, and its position in its channel of the operand: ``row * columns + column``.

    With `by_column`, positions are ``column * rows + row``. The first of several equal elements counts. `pads` are top,
    left, bottom, right.
    """

    name = "top.MaxPoolWithMask"
    kernel_shape: I64Array
    strides: I64Array = (1, 1)
    pads: I64Array = (0, 0, 0, 0)
    by_column: Bool = False

    def window(self) -> Window:
        """Return the sliding window over rows and columns; raises ValueError if the attributes contradict each
        other.
        """
        return Window.of(self.kernel_shape, self.strides, self.pads)

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if x.rank != 4 or len(self.kernel_shape) != 2:
            raise ValueError(f"images and kernels of two dimensions are needed, the operand has {x.rank} dimensions")
        result = x.shape_only().with_shape((*x.dims[:2], *self.window().output(x.dims[2:])))
        return (result, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, window = as_float(operands[0]), self.window()
        rows, columns = x.shape[2:]
        strides = (slice(None),) * 2 + tuple(slice(None, None, stride) for stride in window.strides)
        row, column = np.indices((rows, columns))
        numbers = column * rows + row if self.by_column else row * columns + column
        places = pad_images(numbers[None, None].astype(np.float32), window.pads)
        padded = pad_images(x, window.pads, -np.inf)
        values, origins = (sliding_window_view(array, window.kernel, (2, 3))[strides] for array in (padded, places))
        flat = values.reshape(*values.shape[:4], -1)
        chosen = flat.argmax(-1)[..., None]
        origins = np.broadcast_to(origins.reshape(*origins.shape[:4], -1), flat.shape)
        return [np.take_along_axis(array, chosen, -1)[..., 0] for array in (flat, origins)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * self.window().taps
