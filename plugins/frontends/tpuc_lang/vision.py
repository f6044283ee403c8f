"""Images: resizing, color conversion, regions, and preprocessing."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc_ops import top

from tpuc_lang.arrangement import slice as part
from tpuc_lang.arrangement import upsample
from tpuc_lang.graph import FLOATS, LangError, Tensor, floats_only, make_one
from tpuc_lang.stored import AWAY, parameters, quantized, rounded, saturated, scaled, shifted

COORD_MODES = ("align_corners", "pytorch_half_pixel", "half_pixel", "asymmetric")
PLANES = {0: ("u", "v"), 1: ("v", "u")}
"""YUV420 formats with two color planes, in this order."""
PAIRS = {2: ("u", "v"), 3: ("v", "u")}
"""YUV420 formats with one plane of interleaved colors."""
RGB, BGR = 4, 5
RED, BLUE = 0.299, 0.114
"""Weights of red and blue in luma, by ITU-R BT.601."""
RANGES = {"_601_limited": (16.0, 219.0, 224.0), "_601_full": (0.0, 255.0, 255.0)}
"""Black level, and the ranges of luma and chroma."""
ROUNDINGS = {"HalfAwayFromZero": AWAY, "HalfToEven": "half_to_even"}
WITH_BATCH, WITH_OTHERS = 5, 7


def interpolate(
    input: Tensor,  # noqa: A002  # the interface's name
    scale_h: float,
    scale_w: float,
    method: str = "nearest",
    coord_mode: str = "pytorch_half_pixel",
    out_name: str | None = None,
) -> Tensor:
    """Resample rows and columns by factors, by method nearest or linear; integers by nearest only."""
    where = "interpolate"
    if not (scale_h > 0 and scale_w > 0):
        raise LangError(f"{where}: the scales are {scale_h:g} and {scale_w:g}; they must be above 0.")
    if len(input.shape) < 2:
        raise LangError(f"{where}: {list(input.shape)} has no rows and columns; give two dimensions or more.")
    size = (int(input.shape[-2] * scale_h), int(input.shape[-1] * scale_w))
    return _resized(where, input, size, (scale_h, scale_w), method, coord_mode, out_name)


def interpolate_v2(
    input: Tensor,  # noqa: A002  # the interface's name
    roi: Tensor | None = None,
    sizes: Tensor | None = None,
    scale: Sequence[float] | None = None,
    method: str = "nearest",
    coord_mode: str = "pytorch_half_pixel",
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    nearest_mode: str = "round_prefer_floor",
    out_name: str | None = None,
) -> Tensor:
    """As `interpolate`, or to the last two of constant `sizes`; other options of ONNX's Resize have a single legal
    value.
    """
    where = "interpolate_v2"
    fixed = (
        ("roi", roi, None),
        ("antialias", antialias, 0),
        ("axes", axes, None),
        ("cubic_coeff_a", cubic_coeff_a, -0.75),
        ("exclude_outside", exclude_outside, 0),
        ("extrapolation_value", extrapolation_value, 0.0),
        ("keep_aspect_ratio_policy", keep_aspect_ratio_policy, "stretch"),
        ("nearest_mode", nearest_mode, "round_prefer_floor"),
    )
    for label, given, only in fixed:
        if given != only:
            raise LangError(f"{where}: {label} is {given}, and only {only} is supported; leave it out.")
    if sizes is None:
        if scale is None or len(scale) != 2:
            raise LangError(f"{where}: neither sizes nor two scales are given; give either.")
        return interpolate(input, scale[0], scale[1], method, coord_mode, out_name)
    if sizes.data is None or not sizes.is_const:
        raise LangError(f"{where}: sizes must be constant; give tensor '{sizes.name}' data.")
    height, width = (int(one) for one in sizes.data.reshape(-1)[-2:])
    return _resized(where, input, (height, width), None, method, coord_mode, out_name)


def _resized(
    where: str,
    x: Tensor,
    size: tuple[int, int],
    scale: tuple[float, float] | None,
    method: str,
    coord_mode: str,
    out_name: str | None,
) -> Tensor:
    if method not in ("nearest", "linear") or coord_mode not in COORD_MODES:
        raise LangError(f"{where}: method {method} with coord_mode {coord_mode} is not known.")
    if min(size) < 1:
        raise LangError(f"{where}: the result of {list(x.shape)} would be empty; choose larger scales.")
    dtype = x.dtype if method == "nearest" else floats_only(where, x)
    meaning = x.quantization
    rows, columns = (-1.0, -1.0) if scale is None else scale
    op = top.Interp(mode=method, coord_mode=coord_mode, scale_h=float(rows), scale_w=float(columns))
    if len(x.shape) == 4:
        shapes = [(*x.shape[:2], *size)]
        return make_one(where, op, [x, None], out_name, dtype=dtype, quantization=meaning, shapes=shapes)
    images = make_one(where, top.Reshape(shape=(1, -1, *x.shape[-2:])), [x])
    result = make_one(where, op, [images, None], shapes=[(*images.shape[:2], *size)])
    shape = top.Reshape(shape=(*x.shape[:-2], *size))
    return make_one(where, shape, [result], out_name, dtype=dtype, quantization=meaning)


def yuv2rgb(
    inputs: Tensor,
    src_format: int,
    dst_format: int,
    ImageOutFormatAttr: str,  # noqa: N803  # the interface's name
    formula_mode: str,
    round_mode: str,
    out_name: str | None = None,
) -> Tensor:
    """Convert `[n, h * 3 / 2, w]` of YUV420 bytes to `[n, 3, h, w]` bytes, by ITU-R BT.601.

    `src_format`: 0 and 1 have planes of U and V, or V and U; 2 and 3 interleave both. `dst_format`: 4 is RGB, 5 is BGR.
    """
    where = "yuv2rgb"
    if src_format not in (*PLANES, *PAIRS) or dst_format not in (RGB, BGR):
        raise LangError(f"{where}: formats {src_format} and {dst_format} are not known; use 0 to 3 and 4 or 5.")
    if ImageOutFormatAttr != "UINT8" or formula_mode not in RANGES or round_mode not in ROUNDINGS:
        raise LangError(
            f"{where}: {ImageOutFormatAttr}, {formula_mode} and {round_mode} are not known together; use UINT8, one of "
            f"{', '.join(RANGES)} and one of {', '.join(ROUNDINGS)}."
        )
    if len(inputs.shape) != 3 or inputs.shape[1] % 3 or inputs.shape[1] // 3 % 2 or inputs.shape[2] % 2:
        raise LangError(f"{where}: the input is {list(inputs.shape)}; give [n, h * 3 / 2, w] of even h and w.")
    black, height, width = RANGES[formula_mode]
    y, u, v = _colors(where, inputs, src_format)
    light = scaled(where, shifted(where, y, [-black], 0), [255 / height], 0)
    blue, red = (scaled(where, shifted(where, one, [-128.0], 0), [255 / width], 0) for one in (u, v))
    green = 1 - RED - BLUE
    planes = [
        _plus(where, light, scaled(where, red, [2 * (1 - RED)], 0)),
        _plus(
            where,
            light,
            scaled(where, blue, [-2 * (1 - BLUE) * BLUE / green], 0),
            scaled(where, red, [-2 * (1 - RED) * RED / green], 0),
        ),
        _plus(where, light, scaled(where, blue, [2 * (1 - BLUE)], 0)),
    ]
    joined = make_one(where, top.Concat(axis=1), planes if dst_format == RGB else planes[::-1])
    return saturated(where, rounded(where, joined, ROUNDINGS[round_mode]), "uint8", out_name)


def _colors(where: str, x: Tensor, layout: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return Y, U, and V of every pixel: `[n, 1, h, w]`."""
    count, rows, width = x.shape
    height = rows * 2 // 3
    y = make_one(where, top.Reshape(shape=(count, 1, height, width)), [part(x, 0, height, axes=1)])
    rest = part(x, height, rows, axes=1)
    half = (height // 2, width // 2)
    if layout in PLANES:
        names, both = PLANES[layout], make_one(where, top.Reshape(shape=(count, 2, *half)), [rest])
        planes = [part(both, index, index + 1, axes=1) for index in range(2)]
    else:
        names, both = PAIRS[layout], make_one(where, top.Reshape(shape=(count, 1, half[0], width)), [rest])
        planes = [part(both, index, width, 2, 3) for index in range(2)]
    found = dict(zip(names, (upsample(plane, 2) for plane in planes), strict=True))
    return y, found["u"], found["v"]


def _plus(where: str, *terms: Tensor) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = make_one(where, top.Add(), [total, term])
    return total


def mean_std_scale(
    input: Tensor,  # noqa: A002  # the interface's name
    std: Sequence[float],
    mean: Sequence[float],
    scale: Sequence[float] | None = None,
    zero_points: Sequence[int] | None = None,
    out_name: str | None = None,
    odtype: str = "float16",
    round_mode: str = AWAY,
) -> Tensor:
    """Return ``(x - mean) / std`` per channel, for floats or bytes; as int8 with the last of `scale` and
    `zero_points`.
    """
    where = "mean_std_scale"
    channels = input.shape[1] if len(input.shape) in (4, 5) else 0
    if not len(std) == len(mean) == channels:
        raise LangError(
            f"{where}: {list(input.shape)} with {len(mean)} means and {len(std)} deviations; give 4 or 5 dimensions "
            "and one number for each channel."
        )
    if min(std) <= 0:
        raise LangError(f"{where}: deviations are above 0, these are {list(std)}.")
    centered = shifted(where, input, [-one for one in mean], 1)
    if odtype in FLOATS:
        factors = [1 / one for one in std]
        result = make_one(where, top.MulConst(const_val=1.0), [scaled(where, centered, factors, 1)], out_name)
        result.dtype = odtype
        return result
    if odtype != "int8" or not scale:
        raise LangError(f"{where}: odtype is {odtype}; use float16, float32, or int8 with a scale.")
    value = scaled(where, centered, [1 / one for one in std], 1)
    meaning = parameters(where, float(scale[-1]), int(zero_points[-1]) if zero_points else 0)
    return quantized(where, value, meaning, odtype, out_name, round_mode)


def roiExtractor(  # noqa: N802  # the interface's name
    rois: Tensor,
    target_lvls: Tensor,
    feats: Sequence[Tensor],
    PH: int,  # noqa: N803
    PW: int,  # noqa: N803
    sampling_ratio: int,
    list_spatial_scale: int | Sequence[int],
    mode: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Pool each region from the map of its level, in `PH` by `PW` cells of averaged samples.

    `rois` are `[n, 5]`: image, left, top, right, bottom; or `[n, 7]`, whose columns 2 to 5 are the edges of regions in
    the first image. The scale of a map is one over its number in `list_spatial_scale`. All modes give the same numbers.
    """
    where = "roiExtractor"
    factors = [list_spatial_scale] * len(feats) if isinstance(list_spatial_scale, int) else list(list_spatial_scale)
    if len(factors) < len(feats) or not feats:
        raise LangError(f"{where}: there are {len(feats)} maps and {len(factors)} scales; give one for each.")
    if mode not in (None, "DynNormal", "DynFuse"):
        raise LangError(f"{where}: mode '{mode}' is not known; use DynNormal or DynFuse.")
    if len(rois.shape) != 2 or rois.shape[1] not in (WITH_BATCH, WITH_OTHERS):
        raise LangError(f"{where}: rois are {list(rois.shape)}; give [n, 5] or [n, 7].")
    regions, count = rois, rois.shape[0]
    if rois.shape[1] == WITH_OTHERS:
        edges = part(rois, 2, 6, axes=1)
        regions = make_one(where, top.Pad(paddings=(0, 1, 0, 0)), [edges])
    levels = make_one(where, top.Reshape(shape=(count, 1, 1, 1)), [target_lvls])
    result: Tensor | None = None
    for level, (feature, factor) in enumerate(zip(feats, factors, strict=False)):
        op = top.RoiAlign(
            output_height=PH,
            output_width=PW,
            sampling_ratio=sampling_ratio,
            spatial_scale=1 / factor,
            align_corners=False,
        )
        found = make_one(where, op, [feature, regions])
        here = make_one(where, top.CompareConst(mode="Equal", const_val=float(level)), [levels])
        other = make_one(where, top.MulConst(const_val=0.0), [found]) if result is None else result
        result = make_one(where, top.Where(), [here, found, other])
    assert result is not None
    result.dtype = floats_only(where, rois)
    if out_name is not None:
        result.rename(out_name)
    return result
