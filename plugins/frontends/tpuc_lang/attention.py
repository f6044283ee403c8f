"""Parts of transformers: rotary position embedding, and deformable attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc_ops import top

from tpuc_lang.arithmetic import add_shift, mul_shift
from tpuc_lang.arrangement import permute, reshape
from tpuc_lang.arrangement import slice as part
from tpuc_lang.graph import LangError, Tensor, constant, floats_only, make_one
from tpuc_lang.stored import shifted


def rope(
    input: Tensor,  # noqa: A002  # the interface's name
    weight0: Tensor,
    weight1: Tensor,
    is_permute_optimize: bool = False,
    mul1_round_mode: str = "half_up",
    mul2_round_mode: str = "half_up",
    add_round_mode: str = "half_up",
    mul1_shift: int | None = None,
    mul2_shift: int | None = None,
    add_shift: int | None = None,
    mul1_saturation: bool = True,
    mul2_saturation: bool = True,
    add_saturation: bool = True,
    out_name: str | None = None,
) -> Tensor:
    """Return ``turned * weight0 + x * weight1``, where pairs `(a, b)` of the last dimension are turned to `(-b, a)`.

    Weights are `[rows, columns]` over the last two dimensions, or over the second and the last one with
    `is_permute_optimize`. For integers, products and sum are shifted, rounded, and saturated or wrapped.
    """
    where, rank = "rope", len(input.shape)
    rows = 1 if is_permute_optimize and rank == 4 else rank - 2
    if rank not in (3, 4, 5) or input.shape[-1] % 2:
        raise LangError(f"{where}: the input is {list(input.shape)}; give 3 to 5 dimensions, the last one of pairs.")
    extents = [input.shape[axis] if axis in (rows, rank - 1) else 1 for axis in range(rank)]
    weights: list[Tensor] = []
    for weight in (weight0, weight1):
        if weight.shape != (input.shape[rows], input.shape[-1]):
            raise LangError(f"{where}: a weight is {list(weight.shape)}; give {[input.shape[rows], input.shape[-1]]}.")
        weights.append(reshape(weight, extents))
    turned = _turned(where, input)
    if not input.is_integer:
        dtype = floats_only(where, input, *weights)
        first, second = (make_one(where, top.Mul(), pair) for pair in zip((turned, input), weights, strict=True))
        return make_one(where, top.Add(), [first, second], out_name, dtype=dtype)
    if mul1_shift is None or mul2_shift is None or add_shift is None:
        raise LangError(f"{where}: tensor '{input.name}' is {input.dtype}; state the three shifts.")
    first = mul_shift(turned, weights[0], mul1_shift, input.dtype, mul1_round_mode, mul1_saturation)
    second = mul_shift(input, weights[1], mul2_shift, input.dtype, mul2_round_mode, mul2_saturation)
    return _sum_shifted(first, second, add_shift, input.dtype, add_round_mode, add_saturation, out_name)


_sum_shifted = add_shift


def _turned(where: str, x: Tensor) -> Tensor:
    """Exchange the elements of each pair, and negate the first of the result."""
    width = x.shape[-1]
    places = np.arange(width) ^ 1
    exchanged = make_one(where, top.Gather(axis=len(x.shape) - 1), [x, constant(places)])
    signs = constant(np.where(np.arange(width) % 2, 1.0, -1.0).reshape([1] * (len(x.shape) - 1) + [-1]))
    return make_one(where, top.Mul(), [exchanged, signs], dtype="int16" if x.is_integer else x.dtype)


def multi_scale_deformable_attention(
    query: Tensor,
    value: Tensor,
    key_padding_mask: Tensor,
    reference_points: Tensor,
    sampling_offsets_weight: Tensor,
    sampling_offsets_bias_ori: Tensor,
    attention_weights_weight: Tensor,
    attention_weights_bias_ori: Tensor,
    value_proj_weight: Tensor,
    value_proj_bias_ori: Tensor,
    output_proj_weight: Tensor,
    output_proj_bias_ori: Tensor,
    spatial_shapes: Sequence[Sequence[int]],
    embed_dims: int,
    num_heads: int = 8,
    num_levels: int = 4,
    num_points: int = 4,
    out_name: str | None = None,
) -> Tensor:
    """Return, for each query, a weighted mean of values sampled near its reference points.

    `query: [1, q, e]`; `value: [1, k, e]` of all maps, whose rows and columns are `spatial_shapes`; values where the
    mask `[1, k]` is 1 count as 0. `reference_points: [1, q, levels, 2]` are columns and rows from 0 to 1.
    """
    where = "multi_scale_deformable_attention"
    dtype = floats_only(where, query, value, reference_points)
    queries, total = query.shape[1], sum(height * width for height, width in spatial_shapes)
    if embed_dims % num_heads or len(spatial_shapes) != num_levels or total != value.shape[1]:
        raise LangError(
            f"{where}: {num_heads} heads of {embed_dims} and {num_levels} levels {list(map(list, spatial_shapes))} do "
            f"not fit {value.shape[1]} values."
        )
    offsets = _linear(where, query, sampling_offsets_weight, sampling_offsets_bias_ori)
    offsets = reshape(offsets, [queries, num_heads, num_levels, num_points * 2])
    logits = _linear(where, query, attention_weights_weight, attention_weights_bias_ori)
    logits = reshape(logits, [queries, num_heads, num_levels * num_points])
    shares = permute(make_one(where, top.Softmax(axis=2), [logits]), [1, 0, 2])
    projected = _linear(where, value, value_proj_weight, value_proj_bias_ori)
    seen = make_one(where, top.SubConst(const_val=1.0, is_reverse=True), [key_padding_mask])
    values = make_one(where, top.Mul(), [projected, reshape(seen, [1, total, 1])])
    result: Tensor | None = None
    start = 0
    for level, (height, width) in enumerate(spatial_shapes):
        image = _image(values, start, height, width, num_heads)
        grid = _grid(where, reference_points, offsets, level, (width, height), num_points)
        found = make_one(where, top.GridSampler(), [image, grid])
        share = part(shares, level * num_points, (level + 1) * num_points, axes=2)
        term = make_one(where, top.Mul(), [found, reshape(share, [num_heads, 1, queries, num_points])])
        result = term if result is None else make_one(where, top.Add(), [result, term])
        start += height * width
    assert result is not None
    summed = make_one(where, top.Reduce(axes=(3,), mode="ReduceSum", keepdims=False), [result])
    rows = permute(reshape(summed, [1, embed_dims, queries]), [0, 2, 1])
    return _linear(where, rows, output_proj_weight, output_proj_bias_ori, dtype, out_name)


def _image(values: Tensor, start: int, height: int, width: int, heads: int) -> Tensor:
    """Return the values of a map: `[heads, e / heads, rows, columns]`."""
    here = permute(part(values, start, start + height * width, axes=1), [0, 2, 1])
    return reshape(here, [heads, -1, height, width])


def _grid(where: str, points: Tensor, offsets: Tensor, level: int, size: tuple[int, int], count: int) -> Tensor:
    """Return sampling positions in a map from -1 to 1: `[heads, q, points, 2]`."""
    queries, heads = offsets.shape[:2]
    here = reshape(part(offsets, level, level + 1, axes=2), [queries, heads, count, 2])
    steps = make_one(where, top.Mul(), [here, constant(np.array([[[[2 / size[0], 2 / size[1]]]]]))])
    center = reshape(part(points, level, level + 1, axes=2), [queries, 1, 1, 2])
    doubled = shifted(where, make_one(where, top.MulConst(const_val=2.0), [center]), [-1.0], 0)
    return permute(make_one(where, top.Add(), [steps, doubled]), [1, 0, 2, 3])


def _linear(
    where: str, x: Tensor, weight: Tensor, bias: Tensor, dtype: str = "float32", name: str | None = None
) -> Tensor:
    return make_one(where, top.MatMul(), [x, weight, reshape(bias, [-1])], name, dtype=dtype)
