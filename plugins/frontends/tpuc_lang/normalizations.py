"""Normalizations, reductions, and recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Op
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_lang.graph import LangError, Tensor, floats_only, make, make_one, once


def batch_norm(
    input: Tensor,  # noqa: A002  # the interface's name
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    out_name: str | None = None,
) -> Tensor:
    """Normalize with fixed statistics per channel."""
    return _of_floats("batch_norm", top.BatchNorm(epsilon=epsilon), [input, mean, variance, gamma, beta], out_name)


def layer_norm(
    input: Tensor,  # noqa: A002  # the interface's name
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    axis: int = 2,
    out_name: str | None = None,
) -> Tensor:
    """Normalize over all dimensions from `axis` on."""
    rank = len(input.shape)
    first = once("layer_norm", lambda: positive_axis(axis, rank))
    op = top.LayerNorm(axis=first, normalized_shape=input.shape[first:], eps=epsilon)
    return _of_floats("layer_norm", op, [input, gamma, beta], out_name)


def group_norm(
    input: Tensor,  # noqa: A002  # the interface's name
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    num_groups: int = 1,
    out_name: str | None = None,
) -> Tensor:
    """Normalize over groups of adjacent channels."""
    return _of_floats("group_norm", top.GroupNorm(num_groups=num_groups, eps=epsilon), [input, gamma, beta], out_name)


def rms_norm(
    input: Tensor,  # noqa: A002  # the interface's name
    gamma: Tensor | None = None,
    epsilon: float = 1e-5,
    axis: int = -1,
    out_name: str | None = None,
) -> Tensor:
    """Divide by the root mean square over the last dimension."""
    rank = len(input.shape)
    if once("rms_norm", lambda: positive_axis(axis, rank)) != rank - 1:
        raise LangError(f"rms_norm: axis is {axis}, but only the last one can be normalized; permute the input first.")
    return _of_floats("rms_norm", top.RMSNorm(eps=epsilon), [input, gamma], out_name)


def normalize(
    input: Tensor,  # noqa: A002  # the interface's name
    p: float = 2.0,
    axes: Sequence[int] | int = 1,
    eps: float = 1e-12,
    out_name: str | None = None,
) -> Tensor:
    """Divide by the `p`-norm over adjacent axes, which is at least `eps`."""
    where, rank = "normalize", len(input.shape)
    wanted = [axes] if isinstance(axes, int) else list(axes)
    places = once(where, lambda: sorted(positive_axis(one, rank) for one in wanted))
    if not places or places != list(range(places[0], places[0] + len(places))):
        raise LangError(f"{where}: axes {wanted} are not adjacent; permute the input first.")
    if p <= 0:
        raise LangError(f"{where}: p is {p:g}; it must be above 0.")
    length = make_one(where, top.MaxConst(const_val=eps), [_length(where, input, p, tuple(places))])
    return _of_floats(where, top.Div(), [input, length], out_name)


def _length(where: str, x: Tensor, p: float, axes: tuple[int, ...]) -> Tensor:
    if p in (1.0, 2.0):
        return make_one(where, top.Reduce(axes=axes, mode="ReduceL1" if p == 1.0 else "ReduceL2"), [x])
    powers = make_one(where, top.Pow(exponent=p), [make_one(where, top.Abs(), [x])])
    total = make_one(where, top.Reduce(axes=axes, mode="ReduceSum"), [powers])
    return make_one(where, top.Pow(exponent=1 / p), [total])


def reduce(
    tensor_i: Tensor,
    method: str = "ReduceSum",
    axis: Sequence[int] | int | None = None,
    keep_dims: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """Reduce dimensions by ReduceMean, ReduceSum, ReduceMax, ReduceMin, ReduceProd, ReduceL1, or ReduceL2.

    Without `axis`, all of them.
    """
    given = range(len(tensor_i.shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    op = top.Reduce(axes=tuple(given), mode=method, keepdims=keep_dims)
    return _of_floats("reduce", op, [tensor_i], out_name)


# Beyond the language


def scale(tensor_i: Tensor, factor: Tensor, bias: Tensor | None = None, out_name: str | None = None) -> Tensor:
    """`x * factor + bias` per channel."""
    return _of_floats("scale", top.Scale(), [tensor_i, factor, bias], out_name)


def lrn(
    tensor_i: Tensor,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    out_name: str | None = None,
) -> Tensor:
    """Local response normalization over adjacent channels."""
    return _of_floats("lrn", top.LRN(size=size, alpha=alpha, beta=beta, bias=bias), [tensor_i], out_name)


def lstm(
    tensor_i: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    bidirectional: bool = False,
    batch_first: bool = False,
    out_name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return all h, the last h, and the last c of an LSTM; operands as for `top.LSTM`."""
    if len(recurrence.shape) != 3:
        raise LangError(f"lstm: the recurrence is {list(recurrence.shape)}; give [directions, 4 * hidden, hidden].")
    op = top.LSTM(
        hidden_size=recurrence.shape[2],
        have_bias=bias is not None,
        bidirectional=bidirectional,
        batch_first=batch_first,
    )
    operands = [tensor_i, weight, recurrence, bias, initial_h, initial_c]
    y, h, c = make("lstm", op, [*operands, None], out_name, dtype=floats_only("lstm", *operands))
    return y, h, c


def _of_floats(where: str, op: Op, operands: Sequence[Tensor | None], out_name: str | None) -> Tensor:
    return make_one(where, op, operands, out_name, dtype=floats_only(where, *operands))
