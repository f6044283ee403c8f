"""Whole detectors of Caffe, MobileNet-SSD and YOLOv3, with weights that are drawn.

Each layer is evaluated on a picture as it is added. Statistics of a `BatchNorm` are those of its own operand, and
channels of a head are scaled to a stated spread, so that scores differ from place to place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tpuc_ops.convolution import convolve
from tpuc_ops.functions import sigmoid
from tpuc_ops.window import Window

from tests.frontends.caffe.files import Array, caffemodel, inputs, layer

PERMUTE = "permute_param { order: 0 order: 2 order: 3 order: 1 }"
LIKELY = 40
"""Candidates of the picture that a detector's threshold lets through, before suppression."""
CLASSES = 21
"""Of MobileNet-SSD: background, and those of Pascal VOC."""
PRIORS: Mapping[str, tuple[int, int]] = {
    "conv11": (60, 0),
    "conv13": (105, 150),
    "conv14_2": (150, 195),
    "conv15_2": (195, 240),
    "conv16_2": (240, 285),
    "conv17_2": (285, 300),
}
"""Sides of the smallest and the largest prior of each map, in pixels; 0 where there is none of the second kind."""
YOLO_MAPS = {"map32": 1024, "map16": 512, "map8": 256}
"""YOLOv3's outputs, and channels of the convolution before them."""
OBJECTS = 80
INNER_SHARE, HEAD_SHARE = 3.0, 0.1
"""Of the variance of all channels, which comes to that of each: else rounding grows from layer to layer, as channels
that hardly change from place to place would be scaled up.
"""
VARIANCES = "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2"


@dataclass(frozen=True)
class Detector:
    """Files of a network, and the threshold of scores that lets `LIKELY` candidates of the picture through."""

    prototxt: Path
    caffemodel: Path
    threshold: float


class Growing:
    """A prototxt, its weights, and the blobs that they give for a picture."""

    def __init__(self, picture: Array, seed: int) -> None:
        self.text = inputs(data=picture.shape)
        self.weights: dict[str, Sequence[Array]] = {}
        self.blobs = {"data": picture}
        self._random = np.random.default_rng(seed)

    def conv(
        self, bottom: str, top: str, channels: int, kernel: int = 1, stride: int = 1, group: int = 1, bias: bool = False
    ) -> Array:
        """A convolution, padded by half its kernel, and its filter; `bias`: the layer states one, still to be given."""
        x, pad = self.blobs[bottom], kernel // 2
        shape = (channels, x.shape[1] // group, kernel, kernel)
        filters = self._random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32)
        window = Window.of((kernel, kernel), (stride, stride), (pad,) * 4, (1, 1), most=2)
        self.blobs[top] = convolve(x, filters, window, group)
        self.weights[top] = [filters]
        body = f"num_output: {channels} kernel_size: {kernel} stride: {stride} pad: {pad} group: {group}"
        body += f" bias_term: {str(bias).lower()}"
        self.text += layer("Convolution", f"convolution_param {{ {body} }}", bottom, top, top)
        return filters

    def block(
        self,
        bottom: str,
        top: str,
        channels: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        group: int = 1,
        slope: float = 0.0,
    ) -> str:
        """Convolution, BatchNorm, Scale, and a ReLU that keeps `slope` of what is below zero."""
        self.conv(bottom, top, channels, kernel, stride, group)
        x = self.blobs[top]
        mean, variance = x.mean((0, 2, 3)), _variance(x, INNER_SHARE)
        gain = self._random.uniform(0.7, 1.3, channels).astype(np.float32)
        shift = self._random.normal(0, 0.3, channels).astype(np.float32)
        self.weights[f"{top}/bn"] = [mean, variance, np.ones(1, np.float32)]
        self.weights[f"{top}/scale"] = [gain, shift]
        self.text += layer("BatchNorm", "", top, top, f"{top}/bn")
        self.text += layer("Scale", "scale_param { bias_term: true }", top, top, f"{top}/scale")
        self.text += layer("ReLU", f"relu_param {{ negative_slope: {slope} }}", top, top, f"{top}/relu")
        scaled = (x - _column(mean)) / np.sqrt(_column(variance) + np.float32(1e-5)) * _column(gain) + _column(shift)
        self.blobs[top] = np.where(scaled > 0, scaled, np.float32(slope) * scaled)
        return top

    def head(self, bottom: str, top: str, spreads: Array, middles: Array) -> str:
        """A convolution of one pixel whose channels have these means and deviations."""
        filters = self.conv(bottom, top, len(spreads), bias=True)
        raw = self.blobs[top]
        factor = spreads.astype(np.float32) / np.sqrt(_variance(raw, HEAD_SHARE))
        bias = middles.astype(np.float32) - factor * raw.mean((0, 2, 3))
        self.weights[top] = [filters * factor[:, None, None, None], bias]
        self.blobs[top] = raw * _column(factor) + _column(bias)
        return top

    def op(self, kind: str, body: str, bottoms: str, top: str, compute: Callable[..., Array]) -> str:
        """A layer without weights."""
        self.text += layer(kind, body, bottoms, top, top)
        self.blobs[top] = compute(*(self.blobs[name] for name in bottoms.split()))
        return top

    def save(self, folder: Path, name: str, threshold: float) -> Detector:
        """Write both files."""
        prototxt, data = folder / f"{name}.prototxt", folder / f"{name}.caffemodel"
        prototxt.write_text(self.text, "utf-8")
        data.write_bytes(caffemodel(self.weights))
        return Detector(prototxt, data, threshold)


def mobilenet_ssd(picture: Array, folder: Path) -> Detector:
    """MobileNet-SSD for a picture `[1, 3, 300, 300]`, with DetectionOutput behind `mbox_loc` and `mbox_conf`."""
    net = Growing(picture, 1)
    last = net.block("data", "conv0", 32, 3, 2)
    outputs = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
    for index, (channels, stride) in enumerate(outputs, 1):
        before = net.blobs[last].shape[1]
        last = net.block(last, f"conv{index}/dw", before, 3, stride, group=before)
        last = net.block(last, f"conv{index}", channels)
    for index, (inner, channels) in enumerate(((256, 512), (128, 256), (128, 256), (64, 128)), 14):
        last = net.block(net.block(last, f"conv{index}_1", inner), f"conv{index}_2", channels, 3, 2)
    for name, sides in PRIORS.items():
        _single_shot_head(net, name, *sides)
    for part, axis in (("loc", 1), ("conf_flat", 1), ("priorbox", 2)):
        bottoms = " ".join(f"{name}_mbox_{part}" for name in PRIORS)
        net.op("Concat", f"concat_param {{ axis: {axis} }}", bottoms, f"mbox_{part}", _joined(axis))
    shape = "reshape_param { shape { dim: 0 dim: -1 dim: 21 } }"
    net.op("Reshape", shape, "mbox_conf_flat", "mbox_conf_rows", _rows)
    net.op("Softmax", "softmax_param { axis: 2 }", "mbox_conf_rows", "mbox_conf_shares", _softmax)
    shares = net.blobs[net.op("Flatten", "", "mbox_conf_shares", "mbox_conf", _flat)]
    threshold = _threshold(shares.reshape(-1, CLASSES)[:, 1:])
    body = (
        f"num_classes: {CLASSES} share_location: true background_label_id: 0 code_type: CENTER_SIZE keep_top_k: 100 "
        f"confidence_threshold: {threshold} nms_param {{ nms_threshold: 0.45 top_k: 100 }}"
    )
    bottoms = "mbox_loc mbox_conf mbox_priorbox"
    net.text += layer("DetectionOutput", f"detection_output_param {{ {body} }}", bottoms, "detection_out", "found")
    return net.save(folder, "mobilenet_ssd", threshold)


def _single_shot_head(net: Growing, name: str, least: int, most: int) -> None:
    """Offsets, logits and priors of one map: three boxes, or six where there is a largest side."""
    boxes = 6 if most else 3
    middles = np.zeros(CLASSES)
    middles[0] = 4
    heads = {"loc": (np.ones(4), np.zeros(4)), "conf": (np.full(CLASSES, 2.0), middles)}
    for part, (spreads, center) in heads.items():
        raw = net.head(name, f"{name}_{part}_raw", np.tile(spreads, boxes), np.tile(center, boxes))
        turned = net.op("Permute", PERMUTE, raw, f"{name}_{part}_turned", _channels_last)
        result = f"{name}_mbox_{part}" + ("_flat" if part == "conf" else "")
        net.op("Flatten", "", turned, result, _flat)
    sizes = (
        f"min_size: {least} max_size: {most} aspect_ratio: 2 aspect_ratio: 3"
        if most
        else (f"min_size: {least} aspect_ratio: 2")
    )
    body = f"prior_box_param {{ {sizes} flip: true {VARIANCES} }}"
    net.op("PriorBox", body, f"{name} data", f"{name}_mbox_priorbox", _without_value)


def yolov3(picture: Array, folder: Path) -> Detector:
    """YOLOv3 with Darknet-53 for a picture `[1, 3, h, w]`, whose outputs are the maps of the strides 32, 16, 8."""
    net = Growing(picture, 2)
    last = _leaky(net, "data", "stem", 32, 3)
    taps: list[str] = []
    for stage, (channels, blocks) in enumerate(((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))):
        last = _leaky(net, last, f"down{stage}", channels, 3, 2)
        for index in range(blocks):
            inner = _leaky(net, last, f"s{stage}b{index}a", channels // 2)
            inner = _leaky(net, inner, f"s{stage}b{index}b", channels, 3)
            last = net.op("Eltwise", "eltwise_param { operation: SUM }", f"{last} {inner}", f"s{stage}b{index}", np.add)
        taps.append(last)
    for level, (name, channels) in enumerate(YOLO_MAPS.items()):
        if level:
            narrow = _leaky(net, last, f"{name}/narrow", channels // 2)
            grown = net.op("Upsample", "upsample_param { scale: 2 }", narrow, f"{name}/grown", _doubled)
            last = net.op("Concat", "", f"{grown} {taps[-1 - level]}", f"{name}/joined", _joined(1))
        for index in range(5):
            last = _leaky(net, last, f"{name}/c{index}", channels * (1 + index % 2) // 2, 1 + 2 * (index % 2))
        spreads = np.tile([1, 1, 0.3, 0.3, 2, *[2] * OBJECTS], 3)
        middles = np.tile([0, 0, 0, 0, -4, *[-2] * OBJECTS], 3)
        net.head(_leaky(net, last, f"{name}/wide", channels, 3), name, spreads, middles)
    rows = [net.blobs[name].reshape(3, 5 + OBJECTS, -1) for name in YOLO_MAPS]
    shares = [sigmoid(one[:, 4:5]) * sigmoid(one[:, 5:]) for one in rows]
    return net.save(folder, "yolov3", _threshold(np.concatenate([one.reshape(-1) for one in shares])))


def _leaky(net: Growing, bottom: str, top: str, channels: int, kernel: int = 1, stride: int = 1) -> str:
    return net.block(bottom, top, channels, kernel, stride, slope=0.1)


def _variance(x: Array, share: float) -> Array:
    """Of each channel, and a share of that of all values."""
    return x.var((0, 2, 3)) + np.float32(share) * x.var()


def _column(x: Array) -> Array:
    return x[:, None, None]


def _joined(axis: int) -> Callable[..., Array]:
    return lambda *parts: np.concatenate(parts, axis)


def _channels_last(x: Array) -> Array:
    return x.transpose(0, 2, 3, 1)


def _flat(x: Array) -> Array:
    return x.reshape(len(x), -1)


def _rows(x: Array) -> Array:
    return x.reshape(len(x), -1, CLASSES)


def _doubled(x: Array) -> Array:
    return x.repeat(2, 2).repeat(2, 3)


def _without_value(*_: Array) -> Array:
    """Of constants that nothing here reads."""
    return np.zeros((1, 2, 0), np.float32)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _threshold(scores: Array) -> float:
    """Between the candidates that pass and the others."""
    best = -np.sort(-scores.reshape(-1))[LIKELY - 1 : LIKELY + 1]
    return round(float(best.mean()), 5)
