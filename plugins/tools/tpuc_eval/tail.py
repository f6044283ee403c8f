"""The end of a network, to which post-processing is appended as TOP ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Builder, Module, Op, Operation, UsageError, Value, free_name, remove_dead
from tpuc.api.boundary import mark_as_postprocess
from tpuc_driver.api.host import inputs_of
from tpuc_images.placing import Placement
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize

from tpuc_eval.protocols import Sample

if TYPE_CHECKING:
    from tpuc_eval.protocols import Postprocess

LOWEST = -1e30
"""A threshold below every score."""


@dataclass(frozen=True)
class Anchors:
    """Boxes to which offsets refer: `centers` and `sizes` `[n, 2]`, x before y, in an image of the given width and
    height. `variances` are `[n, 4]`, or four for all.

    A box has its center at `center + variances[:2] * size * offset[:2]`, and the size `size * exp(variances[2:] *
    offset[2:])`.
    """

    centers: NDArray[Any]
    sizes: NDArray[Any]
    image: tuple[int, int] = (1, 1)
    variances: NDArray[Any] | tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Candidates:
    """Candidate boxes: `offsets` `[images, n, 4]` to anchors, and `scores` `[images, n, classes]`."""

    offsets: Value
    scores: Value
    anchors: Anchors


class Tail:
    """Appends ops to the outputs of a module, as floats; quantized ones are dequantized. `finish` makes one value the
    only output.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names = [value.name for value in module.main.outputs]
        self._taken = {name for operation in module.walk() for name in operation.location.names}
        self._build = Builder(module, before=module.main.terminator, constant=top.Weight(), absent=top.None_())
        self.outputs: Sequence[Value] = [
            self(Dequantize(), value) if value.tensor.is_quantized else value for value in module.main.outputs
        ]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The extents of the outputs."""
        return [value.tensor.dims for value in self.outputs]

    @property
    def listed(self) -> str:
        """Format the outputs for messages."""
        named = zip(self.names, self.shapes, strict=True)
        return ", ".join(f"{name} {'x'.join(map(str, dims))}" for name, dims in named)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the network's only picture input; raises UsageError for other networks."""
        pictures = [one for one in inputs_of(self.module) if len(one.shape) == 4]
        if len(pictures) != 1:
            raise UsageError(
                f"{self.module.name}: {len(pictures)} inputs are images, but boxes belong to a single image; leave out "
                "--post."
            )
        (one,) = pictures
        rows, columns = one.shape[1:3] if one.preprocess.layout == "nhwc" else one.shape[2:]
        return columns, rows

    @property
    def sample(self) -> Sample:
        """A placement of a picture that fills the input."""
        return Sample((), Placement(self.size, self.size, (1.0, 1.0), (0.0, 0.0)))

    def computes(self, *kinds: type[Op]) -> bool:
        """True if one of these ops follows the last convolutions and products."""
        seen: set[Operation] = set()
        left = [value.defining for value in self.outputs]
        while left:
            operation = left.pop()
            if operation is None or operation in seen or isinstance(operation.op, (top.Conv, top.MatMul)):
                continue
            if isinstance(operation.op, kinds):
                return True
            seen.add(operation)
            left += [value.defining for value in operation.operands]
        return False

    def __call__(self, op: Op, *operands: Value) -> Value:
        """Append an op; return its first result."""
        operation = self._build.operation(op, operands, None, self._name(op.name.rpartition(".")[2].lower()))
        mark_as_postprocess(operation)
        return operation.results[0]

    def known(self, value: Value) -> NDArray[Any] | None:
        """Return the numbers of a value that is the same for every picture; None if it is computed."""
        made = value.defining
        if made is not None and isinstance(made.op, top.Reshape):
            found = self.known(made.operands[0])
            return None if found is None else found.reshape(value.tensor.dims)
        return self.module.constant(value)

    def constant(self, array: NDArray[Any]) -> Value:
        """Create a constant stored with the network."""
        return self._build.weight(self._name("constant"), array.astype(np.float32))

    def reshape(self, value: Value, *dims: int) -> Value:
        """Return the same elements in another shape."""
        if value.tensor.dims == dims:
            return value
        constant = self.module.constant(value)
        return self(top.Reshape(shape=dims), value) if constant is None else self.constant(constant.reshape(dims))

    def permute(self, value: Value, *order: int) -> Value:
        """Permute the dimensions."""
        return self(top.Permute(order=order), value)

    def part(self, value: Value, start: int, end: int | None = None, axis: int = -1) -> Value:
        """Return the elements of a dimension, by default the last one, from `start` to before `end`."""
        dims = value.tensor.dims
        axis %= len(dims)
        end = dims[axis] if end is None else end
        if (start, end) == (0, dims[axis]):
            return value
        offset = tuple(start if index == axis else 0 for index in range(len(dims)))
        ends = tuple(end if index == axis else extent for index, extent in enumerate(dims))
        return self(top.Slice(offset=offset, steps=(1,) * len(dims), ends=ends), value)

    def concat(self, axis: int, *values: Value) -> Value:
        """Concatenate values."""
        return values[0] if len(values) == 1 else self(top.Concat(axis=axis), *values)

    def detections(self, found: Candidates, *, score: float, iou: float, keep: int) -> Value:
        """Select detections by `DetectionOutput`: `[images, 1, keep, 7]`. Minimum score and overlap are as in
        `Detector`.
        """
        images, count, classes = found.scores.tensor.dims
        anchors = found.anchors
        corners = np.concatenate([anchors.centers - anchors.sizes / 2, anchors.centers + anchors.sizes / 2], axis=1)
        rows = [corners / np.tile(anchors.image, 2), np.broadcast_to(anchors.variances, corners.shape)]
        op = top.DetectionOutput(
            num_classes=classes,
            background_label_id=classes,  # none is
            nms_threshold=iou,
            top_k=count,
            code_type="CENTER_SIZE",
            keep_top_k=keep,
            confidence_threshold=score,
        )
        return self(
            op,
            self.reshape(found.offsets, images, count * 4),
            self.reshape(found.scores, images, count * classes),
            self.constant(np.stack(rows).reshape(1, 2, -1)),
        )

    def leave(self, operation: Operation) -> None:
        """Mark an operation of the network as post-processing."""
        mark_as_postprocess(operation)

    def parts(self, value: Value, axis: int) -> list[Value]:
        """Return the values concatenated into a value along an axis; the value itself if there is only one."""
        made = value.defining
        if made is None or not isinstance(made.op, top.Concat) or made.op.axis % len(value.tensor.dims) != axis:
            return [value]
        return [part for operand in made.operands for part in self.parts(operand, axis)]

    def finish(self, *values: Value) -> None:
        """Make these the only outputs."""
        self.module.main.terminator.set_operands(values)
        self.module.main.update_type()
        remove_dead(self.module)

    def _name(self, word: str) -> str:
        name = free_name(f"post_{word}", self._taken.__contains__)
        self._taken.add(name)
        return name


def text_of(post: Postprocess) -> str:
    """Format a post-processing as users write it, with options that differ from their defaults."""
    fields = dataclasses.fields(post) if dataclasses.is_dataclass(post) else ()
    given = {one.name: getattr(post, one.name) for one in fields if getattr(post, one.name) != one.default}
    options = ",".join(f"{name.replace('_', '-')}={_shown(value)}" for name, value in given.items())
    return f"{post.name}{{{options}}}" if options else post.name


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        parts = cast("tuple[Any, ...]", value)
        return f"[{','.join(map(_shown, parts))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
