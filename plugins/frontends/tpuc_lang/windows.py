"""Pooling, and the numbers that describe windows.

In functions of the first edition, `pad` is up, down, left, right; in the others it lists all before, then all after, as
in TOP.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Op
from tpuc_ops import top

from tpuc_lang.graph import FLOATS, LangError, Tensor, floats_only, make, make_one
from tpuc_lang.stored import AWAY, parameters, quantized, real

RESULT_DTYPES = ("int32", "uint32", "float32", "float16")


def maxpool(
    tensor_i: Tensor,
    kernel: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    ceil_mode: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """Maximum pooling. Integers keep their meaning. First edition."""
    op = _max_pool("maxpool", tensor_i, 2, kernel, stride, all_before(pad), ceil_mode)
    meaning = tensor_i.quantization
    return make_one("maxpool", op, [tensor_i], out_name, dtype=tensor_i.dtype, quantization=meaning)


def avgpool(
    tensor_i: Tensor,
    kernel: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """Average pooling. First edition."""
    op = _average_pool("avgpool", tensor_i, 2, kernel, stride, all_before(pad), ceil_mode, count_include_pad)
    return make_one("avgpool", op, [tensor_i], out_name, dtype=floats_only("avgpool", tensor_i))


def maxpool2d(
    input: Tensor,  # noqa: A002  # the interface's name
    kernel: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    ceil_mode: bool = False,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
    round_mode: str = AWAY,
) -> Tensor:
    """Maximum pooling, global without a kernel. Integers keep their scale, or get one."""
    op = _max_pool("maxpool2d", input, 2, kernel, stride, pad, ceil_mode)
    return _pooled("maxpool2d", op, input, scale, zero_point, out_name, round_mode)


def maxpool3d(
    input: Tensor,  # noqa: A002  # the interface's name
    kernel: Sequence[int] | int | None = None,
    stride: Sequence[int] | int | None = None,
    pad: Sequence[int] | int | None = None,
    ceil_mode: bool = False,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
    round_mode: str = AWAY,
) -> Tensor:
    """As `maxpool2d`, over `[n, c, d, h, w]`; a single number applies to all dimensions."""
    op = _max_pool("maxpool3d", input, 3, *_volume(kernel, stride, pad), ceil_mode)
    return _pooled("maxpool3d", op, input, scale, zero_point, out_name, round_mode)


def maxpool2d_with_mask(
    input: Tensor,  # noqa: A002  # the interface's name
    kernel: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    ceil_mode: bool = False,
    out_name: str | None = None,
    mask_name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Maximum pooling that also returns the positions in the channel: ``row * columns + column``."""
    where = "maxpool2d_with_mask"
    plain = _max_pool(where, input, 2, kernel, stride, pad, ceil_mode)
    pads = plain.pads
    if ceil_mode:
        rows = zip(input.shape[2:], plain.kernel_shape, plain.strides, pads[:2], pads[2:], strict=True)
        pads = (*pads[:2], *(_pad_of_last_window(*row) for row in rows))
    op = top.MaxPoolWithMask(kernel_shape=plain.kernel_shape, strides=plain.strides, pads=pads)
    values, places = make(where, op, [input], out_name, dtype=floats_only(where, input))
    places.dtype = "int32"
    if mask_name is not None:
        places.rename(mask_name)
    return values, places


def _pad_of_last_window(extent: int, taps: int, stride: int, before: int, after: int) -> int:
    """Return the padding after the end with which a last window that begins before the end is complete."""
    rest = (extent + before + after - taps) % stride
    wanted = after + (stride - rest if rest else 0)
    begins = extent + before + wanted - taps
    return wanted if begins < extent + before else after


def avgpool2d(
    input: Tensor,  # noqa: A002  # the interface's name
    kernel: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    ceil_mode: bool = False,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
    count_include_pad: bool = False,
    round_mode: str = AWAY,
    first_round_mode: str = AWAY,
) -> Tensor:
    """Average pooling, global without a kernel."""
    op = _average_pool("avgpool2d", input, 2, kernel, stride, pad, ceil_mode, count_include_pad)
    return _pooled("avgpool2d", op, input, scale, zero_point, out_name, round_mode, first_round_mode)


def avgpool3d(
    input: Tensor,  # noqa: A002  # the interface's name
    kernel: Sequence[int] | int | None = None,
    stride: Sequence[int] | int | None = None,
    pad: Sequence[int] | int | None = None,
    ceil_mode: bool = False,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
    count_include_pad: bool = False,
    round_mode: str = AWAY,
    first_round_mode: str = AWAY,
) -> Tensor:
    """As `avgpool2d`, over `[n, c, d, h, w]`; a single number applies to all dimensions."""
    op = _average_pool("avgpool3d", input, 3, *_volume(kernel, stride, pad), ceil_mode, count_include_pad)
    return _pooled("avgpool3d", op, input, scale, zero_point, out_name, round_mode, first_round_mode)


def _pooled(
    where: str,
    op: Op,
    x: Tensor,
    scale: Sequence[float] | None,
    zero_point: Sequence[int] | None,
    out_name: str | None,
    round_mode: str,
    first_round_mode: str | None = None,
) -> Tensor:
    """Pool floats, integers that are only selected, or real values of quantized integers.

    A mean is rounded once, in the result's scale, so `first_round_mode` must equal `round_mode`.
    """
    if first_round_mode not in (None, round_mode):
        raise LangError(f"{where}: first_round_mode and round_mode differ; means are rounded once, so state one.")
    if scale is None:
        if isinstance(op, top.MaxPool) or not x.is_integer:
            return make_one(where, op, [x], out_name, dtype=x.dtype, quantization=x.quantization)
        raise LangError(f"{where}: tensor '{x.name}' is {x.dtype}; state the scales of operand and result.")
    points = (0, 0) if zero_point is None else tuple(zero_point)
    if len(scale) != 2 or len(points) != 2:
        raise LangError(f"{where}: scale and zero_point have two numbers each, of the operand and the result.")
    value = make_one(where, op, [real(where, x, scale[0], points[0])])
    return quantized(where, value, parameters(where, scale[1], points[1]), x.dtype, out_name, round_mode)


def _max_pool(
    where: str,
    x: Tensor,
    rank: int,
    kernel: Sequence[int] | None,
    stride: Sequence[int] | None,
    pad: Sequence[int] | None,
    ceil_mode: bool,
) -> top.MaxPool:
    taps, strides, pads = _window(where, x, rank, kernel, stride, pad)
    return top.MaxPool(kernel_shape=taps, strides=strides, pads=pads, ceil_mode=True if ceil_mode else None)


def _average_pool(
    where: str,
    x: Tensor,
    rank: int,
    kernel: Sequence[int] | None,
    stride: Sequence[int] | None,
    pad: Sequence[int] | None,
    ceil_mode: bool,
    count_include_pad: bool,
) -> top.AvgPool:
    taps, strides, pads = _window(where, x, rank, kernel, stride, pad)
    return top.AvgPool(
        kernel_shape=taps,
        strides=strides,
        pads=pads,
        ceil_mode=True if ceil_mode else None,
        count_include_pad=count_include_pad,
    )


def _window(
    where: str,
    x: Tensor,
    rank: int,
    kernel: Sequence[int] | None,
    stride: Sequence[int] | None,
    pad: Sequence[int] | None,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    if len(x.shape) != rank + 2:
        raise LangError(f"{where}: the input has {rank + 2} dimensions, this one is {list(x.shape)}.")
    taps = numbers(where, "kernel", x.shape[2:] if kernel is None else kernel, rank, 1, 1)
    return taps, numbers(where, "stride", stride, rank, 1, 1), numbers(where, "pad", pad, 2 * rank, 0, 0)


def _volume(
    kernel: Sequence[int] | int | None, stride: Sequence[int] | int | None, pad: Sequence[int] | int | None
) -> tuple[Sequence[int] | None, Sequence[int] | None, Sequence[int] | None]:
    return (
        [kernel] * 3 if isinstance(kernel, int) else kernel,
        [stride] * 3 if isinstance(stride, int) else stride,
        [pad] * 6 if isinstance(pad, int) else pad,
    )


# Arguments


def numbers(
    where: str, label: str, values: Sequence[int] | None, count: int, least: int, default: int
) -> tuple[int, ...]:
    """Return `count` numbers, each at least `least`; raises LangError otherwise."""
    found = (default,) * count if values is None else tuple(values)
    if len(found) != count:
        raise LangError(f"{where}: {label} has {len(found)} numbers; give {count}.")
    if min(found) < least:
        raise LangError(f"{where}: {label} is {list(found)}; its numbers are at least {least}.")
    return found


def all_before(pairs: Sequence[int] | None) -> tuple[int, ...]:
    """Convert pads given as pairs of before and after to TOP's order: all before, then all after."""
    found = (0,) * 4 if pairs is None else tuple(pairs)
    return (*found[::2], *found[1::2])


def result_dtype(where: str, x: Tensor, wanted: str | None) -> str:
    """Return the type of sums of products."""
    if wanted is None:
        return x.dtype if x.dtype in FLOATS else "int32"
    if wanted not in RESULT_DTYPES:
        raise LangError(f"{where}: out_dtype is '{wanted}'; use one of {', '.join(RESULT_DTYPES)}.")
    if not x.is_integer and wanted not in FLOATS:
        raise LangError(
            f"{where}: out_dtype is {wanted} for a {x.dtype} input; use a float type, or quantize the input."
        )
    return wanted
