"""Layers that give elements another shape, order or place, and those about boxes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from tests.families import each
from tests.frontends.caffe import reference
from tests.frontends.caffe.files import Array, layer, run_layer, values
from tests.frontends.caffe.test_layers import X, check


@each(
    ("body", "shape"),
    [
        ("shape { dim: 0 dim: -1 }", (2, 210)),
        ("shape { dim: 0 dim: 3 dim: 2 dim: 35 }", (2, 3, 2, 35)),
        ("axis: 1 shape { dim: -1 }", (2, 210)),
        ("axis: -3 num_axes: 1 shape { dim: 1 dim: 7 }", (2, 6, 1, 7, 5)),
        ("axis: 1 num_axes: 0 shape { dim: 1 }", (2, 1, 6, 7, 5)),
    ],
)
def test_reshape(body: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    check(layer("Reshape", f"reshape_param {{ {body} }}"), tmp_path, X.reshape(shape))


def test_flatten_and_permute(tmp_path: Path) -> None:
    check(layer("Flatten"), tmp_path, X.reshape(2, 210))
    check(layer("Flatten", "flatten_param { axis: 2 end_axis: -1 }"), tmp_path, X.reshape(2, 6, 35))
    body = "permute_param { order: 0 order: 2 order: 3 order: 1 }"
    check(layer("Permute", body), tmp_path, X.transpose(0, 2, 3, 1))
    check(layer("Permute", "permute_param { order: 2 }"), tmp_path, X.transpose(2, 0, 1, 3))


def test_concat_slice_and_split(tmp_path: Path) -> None:
    other = values(2, 3, 7, 5)
    check(layer("Concat", bottoms="x o"), tmp_path, np.concatenate([X, other], 1), x=X, o=other)
    rows = values(2, 6, 1, 5)
    body = "concat_param { axis: -2 }"
    check(layer("Concat", body, "x o"), tmp_path, np.concatenate([X, rows], 2), x=X, o=rows)
    parts = {"a": X[:, :2], "b": X[:, 2:4], "c": X[:, 4:]}
    check(layer("Slice", tops="a b c"), tmp_path, parts)
    points = layer("Slice", "slice_param { axis: 2 slice_point: 1 slice_point: 5 }", tops="a b c")
    check(points, tmp_path, {"a": X[:, :, :1], "b": X[:, :, 1:5], "c": X[:, :, 5:]})
    check(layer("Split", tops="a b"), tmp_path, {"a": X, "b": X})


def test_crop(tmp_path: Path) -> None:
    like = values(2, 9, 4, 3)
    check(layer("Crop", "crop_param { offset: 1 offset: 2 }", "x r"), tmp_path, X[:, :, 1:5, 2:5], x=X, r=like)
    narrow = values(2, 6, 7, 3)
    check(layer("Crop", "crop_param { axis: 3 offset: 1 }", "x r"), tmp_path, X[..., 1:4], x=X, r=narrow)


def test_reverse_tile_and_padding(tmp_path: Path) -> None:
    check(layer("Reverse", "reverse_param { axis: 2 }"), tmp_path, X[:, :, ::-1])
    check(layer("Tile", "tile_param { axis: 1 tiles: 3 }"), tmp_path, np.tile(X, (1, 3, 1, 1)))
    body = "padding_param { pad_t: 1 pad_b: 2 pad_l: 3 pad_r: 0 }"
    check(layer("Padding", body), tmp_path, np.pad(X, ((0, 0), (0, 0), (1, 2), (3, 0))))


def test_shuffle_channel(tmp_path: Path) -> None:
    wanted = X[:, [0, 3, 1, 4, 2, 5]]
    check(layer("ShuffleChannel", "shuffle_channel_param { group: 2 }"), tmp_path, wanted)


def test_reorg(tmp_path: Path) -> None:
    x = values(2, 8, 4, 6)
    check(layer("Reorg", "reorg_param { stride: 2 }"), tmp_path, reference.reorg(x, 2), x=x)


@each("said", ["scale: 2", "scale: 1 stride: 2"])
def test_upsample(said: str, tmp_path: Path) -> None:
    check(layer("Upsample", f"upsample_param {{ {said} }}"), tmp_path, X.repeat(2, 2).repeat(2, 3))


@each(
    ("said", "size"),
    [("height: 10 width: 9", (10, 9)), ("zoom_factor: 2", (13, 9)), ("shrink_factor: 2", (4, 3)), ("", (7, 5))],
)
def test_interp(said: str, size: tuple[int, int], tmp_path: Path) -> None:
    check(layer("Interp", f"interp_param {{ {said} }}"), tmp_path, bilinear(X, size))


def test_interp_cuts_off_first(tmp_path: Path) -> None:
    body = "interp_param { height: 4 width: 4 pad_beg: -1 pad_end: -1 }"
    check(layer("Interp", body), tmp_path, bilinear(X[:, :, 1:-1, 1:-1], (4, 4)))


def bilinear(x: Array, size: tuple[int, int]) -> Array:
    result = np.zeros((*x.shape[:2], *size))
    for i in range(size[0]):
        for j in range(size[1]):
            y, z = (k * (e - 1) / max(s - 1, 1) for k, e, s in zip((i, j), x.shape[2:], size, strict=True))
            top, left = int(y), int(z)
            bottom, right = min(top + 1, x.shape[2] - 1), min(left + 1, x.shape[3] - 1)
            upper = x[:, :, top, left] * (1 - z + left) + x[:, :, top, right] * (z - left)
            lower = x[:, :, bottom, left] * (1 - z + left) + x[:, :, bottom, right] * (z - left)
            result[:, :, i, j] = upper * (1 - y + top) + lower * (y - top)
    return result


def test_dummy_data(tmp_path: Path) -> None:
    body = 'dummy_data_param { shape { dim: 2 dim: 6 dim: 7 dim: 5 } data_filler { type: "constant" value: 3 } }'
    text = layer("DummyData", body, "", "d", "dummy") + layer("Eltwise", bottoms="x d")
    check(text, tmp_path, X + 3)


def test_prior_box(tmp_path: Path) -> None:
    feature, image = values(1, 3, 2, 3), values(1, 3, 60, 90)
    body = (
        "prior_box_param { min_size: 10.9 max_size: 40 aspect_ratio: 2 aspect_ratio: 1 flip: true clip: true "
        "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 }"
    )
    # Sizes are cut to whole pixels; a ratio of 1 is there already.
    root = math.sqrt(2)
    sizes = [(10, 10), (20, 20), (10 * root, 10 / root), (10 / root, 10 * root)]
    boxes = [
        ((j + 0.5) * 30 + sx * w / 2) / 90 if axis == 0 else ((i + 0.5) * 30 + sx * h / 2) / 60
        for i in range(2)
        for j in range(3)
        for w, h in sizes
        for sx, axis in ((-1, 0), (-1, 1), (1, 0), (1, 1))
    ]
    wanted = np.array([np.clip(boxes, 0, 1), [0.1, 0.1, 0.2, 0.2] * 24])[None]
    results = run_layer(layer("PriorBox", body, "f i"), tmp_path, {"f": feature, "i": image})
    np.testing.assert_allclose(results["y"], wanted, rtol=1e-6, atol=1e-6)


def test_detection_output(tmp_path: Path) -> None:
    boxes = np.array([[0.1, 0.1, 0.3, 0.3], [0.12, 0.1, 0.32, 0.3], [0.6, 0.6, 0.8, 0.9]])
    priors = np.stack([boxes.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], 3)])[None].astype(np.float32)
    offsets = np.zeros((1, 12), np.float32)
    offsets[0, 8:] = [1, 0, 0, 5 * math.log(2)]  # the third moves by a tenth of its width and doubles its height
    scores = np.array([[0.1, 0.9, 0.2, 0.8, 0.4, 0.6]], np.float32)
    body = (
        "detection_output_param { num_classes: 2 code_type: CENTER_SIZE keep_top_k: 4 confidence_threshold: 0.5 "
        "nms_param { nms_threshold: 0.45 top_k: 10 } }"
    )
    results = run_layer(layer("DetectionOutput", body, "l s p"), tmp_path, {"l": offsets, "s": scores, "p": priors})
    wanted = np.zeros((1, 1, 4, 7))
    wanted[0, 0, 0] = [0, 1, 0.9, 0.1, 0.1, 0.3, 0.3]
    wanted[0, 0, 1] = [0, 1, 0.6, 0.62, 0.45, 0.82, 1.05]
    np.testing.assert_allclose(results["y"], wanted, atol=1e-6)


def test_roi_pooling(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    regions = np.array([[0, 0, 0, 7, 7], [0, 4, 2, 7, 5]], np.float32)
    body = "roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 1 }"
    results = run_layer(layer("ROIPooling", body, "x r"), tmp_path, {"x": x, "r": regions})
    wanted = np.array([[[[27, 31], [59, 63]]], [[[29, 31], [45, 47]]]])
    np.testing.assert_array_equal(results["y"], wanted)
