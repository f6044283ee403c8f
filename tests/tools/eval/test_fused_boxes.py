"""Boxes in the file are those that the host chooses from the raw outputs of the same network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import NodeProto
from tpuc.errors import UsageError
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc.ir.fused_postprocess import fused_postprocess
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_eval.options import configured
from tpuc_eval.postprocess.ssd import Ssd
from tpuc_eval.protocols import Detections, Postprocess, Sample
from tpuc_images.placing import Placement

from tests.families import each
from tests.frontends.caffe.files import inputs, layer, read
from tests.frontends.caffe.test_detection import YOLO
from tests.frontends.onnx.networks import network, node

SIZE = (64, 32)
STRIDES = (8, 16, 32)
CLASSES = 3
IMAGE = {"image": np.random.default_rng(7).normal(0, 1, (1, 3, SIZE[1], SIZE[0])).astype(np.float32)}
SAMPLE = Sample(({},), Placement(SIZE, SIZE, (1.0, 1.0), (0.0, 0.0)))


class Heads:
    """Nodes and weights of a network whose maps are convolutions of the picture."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(5)
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, NDArray[Any]] = {}

    def map(self, name: str, channels: int, stride: int, spread: float = 1.0) -> str:
        """`[1, channels, h, w]`, values around zero."""
        self.weights[f"{name}_w"] = self.random.normal(0, spread / stride, (channels, 3, stride, stride)).astype("f4")
        self.nodes.append(node("Conv", f"image {name}_w", name, strides=[stride, stride]))
        return name

    def op(self, kind: str, operands: str, result: str, **attributes: Any) -> str:
        """Any node."""
        self.nodes.append(node(kind, operands, result, **attributes))
        return result

    def constant(self, name: str, values: Any) -> str:
        """A constant."""
        self.weights[name] = np.asarray(values)
        return name

    def rows(self, name: str, values: int, spread: float = 1.0) -> str:
        """`[1, cells, values]` of all strides."""
        maps = [self.map(f"{name}{stride}", values, stride, spread) for stride in STRIDES]
        flat = [self.op("Reshape", f"{one} {self.constant(one + '_s', [1, values, -1])}", one + "_r") for one in maps]
        whole = self.op("Concat", " ".join(flat), f"{name}_c", axis=2)
        return self.op("Transpose", whole, name, perm=[0, 2, 1])

    def save(self, path: Path, outputs: Sequence[str]) -> Path:
        """Write the network."""
        onnx.save(network(self.nodes, {"image": (1, 3, SIZE[1], SIZE[0])}, outputs, self.weights), path)
        return path


def yolox(heads: Heads) -> Sequence[str]:
    rows = heads.rows("raw", 5 + CLASSES)
    for part, start, end in (("box", 0, 4), ("sure", 4, 5 + CLASSES)):
        ends = [heads.constant(f"{part}{index}", np.array([number])) for index, number in enumerate((start, end, 2))]
        heads.op("Slice", f"{rows} {' '.join(ends)}", part)
    return [heads.op("Concat", f"box {heads.op('Sigmoid', 'sure', 'sures')}", "rows", axis=2)]


def yolox_pixels(heads: Heads) -> Sequence[str]:
    scale = np.array([64, 32, 20, 20, *[1] * (1 + CLASSES)], np.float32)
    shares = heads.op("Sigmoid", heads.rows("raw", 5 + CLASSES), "shares")
    return [heads.op("Mul", f"{shares} {heads.constant('scale', scale)}", "rows")]


def yolov8(heads: Heads) -> Sequence[str]:
    scale = np.array([64, 32, 20, 20, *[1] * CLASSES], np.float32)
    shares = heads.op("Sigmoid", heads.rows("raw", 4 + CLASSES), "shares")
    rows = heads.op("Mul", f"{shares} {heads.constant('scale', scale)}", "rows")
    return [heads.op("Transpose", rows, "columns", perm=[0, 2, 1])]


def yolov5_pixels(heads: Heads) -> Sequence[str]:
    scale = heads.constant("scale", np.array([64, 32, 20, 20, *[1] * (1 + CLASSES)], np.float32))
    parts = [heads.op("Sigmoid", heads.rows(f"raw{anchor}", 5 + CLASSES), f"shares{anchor}") for anchor in range(3)]
    return [heads.op("Mul", f"{heads.op('Concat', ' '.join(parts), 'three', axis=1)} {scale}", "rows")]


def yolox_grid(heads: Heads) -> Sequence[str]:
    """Decoded as by exporters that put the grid into the network."""
    cells = [np.indices((32 // s, 64 // s))[::-1].reshape(2, -1).T for s in STRIDES]
    sides = [np.full((len(one), 1), s) for one, s in zip(cells, STRIDES, strict=True)]
    (rows,) = yolox(heads)
    for part, start, end in (("xy", 0, 2), ("wh", 2, 4), ("rest", 4, 5 + CLASSES)):
        ends = [heads.constant(f"{part}{index}", np.array([number])) for index, number in enumerate((start, end, 2))]
        heads.op("Slice", f"{rows} {' '.join(ends)}", part)
    grid = heads.constant("grid", np.concatenate(cells)[None].astype(np.float32))
    side = heads.constant("side", np.concatenate(sides)[None].astype(np.float32))
    center = heads.op("Mul", f"{heads.op('Add', f'xy {grid}', 'moved')} {side}", "center")
    size = heads.op("Mul", f"{heads.op('Exp', 'wh', 'grown')} {side}", "extent")
    return [heads.op("Concat", f"{center} {size} rest", "pixels", axis=2)]


def maps(channels: int) -> Callable[[Heads], Sequence[str]]:
    """A map per stride, the coarsest first."""
    return lambda heads: [heads.map(f"map{stride}", channels, stride) for stride in reversed(STRIDES)]


def yunet(heads: Heads) -> Sequence[str]:
    outputs: list[str] = []
    for kind, values in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
        for stride in STRIDES:
            one = heads.map(f"{kind}{stride}m", values, stride)
            turned = heads.op("Transpose", one, one + "t", perm=[0, 2, 3, 1])
            shape = heads.constant(one + "s", [1, -1, values])
            flat = heads.op("Reshape", f"{turned} {shape}", one + "r")
            outputs.append(heads.op("Sigmoid", flat, one + "p") if values == 1 else flat)
    return outputs


def blazeface(heads: Heads) -> Sequence[str]:
    count = 2 * 32 + 6 * 8
    for name, values in (("scores", 1), ("regressors", 16)):
        parts: list[str] = []
        for stride, anchors in ((8, 2), (16, 6)):
            one = heads.map(f"{name}{stride}", anchors * values, stride, 1.0 if values == 1 else 8.0)
            turned = heads.op("Transpose", one, one + "t", perm=[0, 2, 3, 1])
            shape = heads.constant(one + "s", [1, -1, values])
            parts.append(heads.op("Reshape", f"{turned} {shape}", one + "r"))
        heads.op("Concat", " ".join(parts), f"{name}_{count}", axis=1)
    return [f"scores_{count}", heads.op("Abs", f"regressors_{count}", "sizes")]


def boxes(heads: Heads) -> Sequence[str]:
    low = heads.op("Sigmoid", heads.rows("low", 2), "start")
    size = heads.op("Sigmoid", heads.rows("size", 2), "extent")
    corners = heads.op("Concat", f"{low} {heads.op('Add', f'{low} {size}', 'end')}", "corners", axis=2)
    return [heads.op("Softmax", heads.rows("sure", 2 + CLASSES), "sures", axis=2), corners]


def fastestdet(heads: Heads) -> Sequence[str]:
    channels = np.arange(5 + CLASSES)[None, :, None, None]
    raw = heads.map("raw", 5 + CLASSES, 16)
    sure = heads.op("Sigmoid", raw, "sure")
    picked = heads.constant("picked", (channels == 0) | (channels > 4))
    return [heads.op("Where", f"{picked} {sure} {raw}", "map")]


def yolov10(heads: Heads) -> Sequence[str]:
    """Boxes, a score and a whole number of each cell."""
    shares = heads.op("Sigmoid", heads.rows("raw", 6), "shares")
    scale = heads.constant("scale", np.array([32, 16, 64, 32, 1, CLASSES], np.float32))
    scaled = heads.op("Mul", f"{shares} {scale}", "scaled")
    ends = [heads.constant(f"end{index}", np.array([number])) for index, number in enumerate((0, 20, 1))]
    chosen = heads.op("Slice", f"{scaled} {' '.join(ends)}", "chosen")
    whole = heads.constant("whole", np.arange(6)[None, None] == 5)
    return [heads.op("Where", f"{whole} {heads.op('Floor', chosen, 'classes')} {chosen}", "rows")]


def retinaface(heads: Heads) -> Sequence[str]:
    outputs: list[str] = []
    for name, values in (("bbox", 4), ("class", 2), ("points", 10)):
        parts: list[str] = []
        for stride in STRIDES:
            one = heads.map(f"{name}{stride}", 2 * values, stride)
            turned = heads.op("Transpose", one, one + "t", perm=[0, 2, 3, 1])
            parts.append(heads.op("Reshape", f"{turned} {heads.constant(one + 's', [1, -1, values])}", one + "r"))
        outputs.append(heads.op("Concat", " ".join(parts), name, axis=1))
    return [outputs[0], heads.op("Softmax", outputs[1], "sure", axis=2), outputs[2]]


def centernet(heads: Heads) -> Sequence[str]:
    heat, size, offset = (heads.map(name, values, 4) for name, values in (("h", CLASSES), ("s", 2), ("o", 2)))
    return [heads.op("Sigmoid", heat, "heat"), heads.op("Exp", size, "sizes"), heads.op("Sigmoid", offset, "offsets")]


def nanodet(heads: Heads) -> Sequence[str]:
    sure = heads.op("Sigmoid", heads.rows("sure", CLASSES), "sures")
    return [heads.op("Concat", f"{sure} {heads.rows('bins', 32)}", "rows", axis=2)]


HEADS: dict[str, Callable[[Heads], Sequence[str]]] = {
    "yolox": yolox,
    "yolox{decoded}": yolox_pixels,
    "yolox{score=0.2}": yolox_grid,
    "yolov3": maps(3 * (5 + CLASSES)),
    "yolov5": maps(3 * (5 + CLASSES)),
    "yolov5{keep=10}": yolov5_pixels,
    "yolov8": yolov8,
    "yolov8{score=0.2}": maps(64 + CLASSES),
    "yunet": yunet,
    "blazeface": blazeface,
    "boxes": boxes,
    "fastestdet": fastestdet,
    "yolov10{score=0.4}": yolov10,
    "retinaface": retinaface,
    "centernet": centernet,
    "nanodet{strides=[8,16,32]}": nanodet,
}


def write_heads(post: str, folder: Path) -> Path:
    """A network whose outputs are of a kind."""
    heads = Heads()
    return heads.save(folder / "net.onnx", HEADS[post](heads))


def write_table(module: Module, path: Path) -> Path:
    """The ranges of all values of a network for the picture."""
    limits = {
        name: float(np.abs(values).max()) or 1.0 for name, values in Interpreter(module).run(IMAGE, "all").items()
    }
    path.write_text("".join(f"{name} {limit} {-limit} {limit}\n" for name, limit in limits.items()), "utf-8")
    return path


def host(module: Module) -> Postprocess:
    """What does on the host what is in a module."""
    fused = fused_postprocess(module)
    assert fused is not None
    return configured(Registry(), "tpuc.postprocess", fused.made_by)


def reader(module: Module) -> Postprocess:
    """What reads the rows of a module."""
    fused = fused_postprocess(module)
    assert fused is not None
    return configured(Registry(), "tpuc.postprocess", fused.read_by)


def worst(wanted: Detections, found: Detections) -> tuple[float, float]:
    """The largest differences of scores, and of boxes as shares of their larger side, between pairs of one class. A
    pair is each wanted box, the best first, and the nearest of those that are left.
    """
    assert sorted(found.classes) == sorted(wanted.classes)
    sides = np.maximum(wanted.boxes[:, 2:] - wanted.boxes[:, :2], 1).max(axis=1)
    left = np.ones(len(found.scores), bool)
    differences: list[tuple[float, float]] = []
    for index in np.argsort(-wanted.scores, kind="stable"):
        apart = np.abs(found.boxes - wanted.boxes[index]).max(axis=1) / sides[index]
        score = np.abs(found.scores - wanted.scores[index])
        cost = np.where(left & (found.classes == wanted.classes[index]), apart + score, np.inf)
        nearest = int(cost.argmin())
        left[nearest] = False
        differences.append((float(score[nearest]), float(apart[nearest])))
    scores, boxes = zip(*differences, strict=True)
    return max(scores), max(boxes)


@each("post", HEADS)
def test_boxes_in_the_network_are_those_of_the_host(post: str, tmp_path: Path) -> None:
    path, session = write_heads(post, tmp_path), Session()
    raw, module = session.transform(path), session.transform(path, post=post)
    wanted = host(module)(Interpreter(raw).run(IMAGE), SAMPLE)
    assert len(wanted.scores) > 5
    score, box = worst(wanted, reader(module)(Interpreter(module).run(IMAGE), SAMPLE))
    # the host computes in float64
    assert score < 1e-6
    assert box < 1e-5


# Floats of 8 bits round a score once as a product, and more often behind tables of sigmoids; a side that is the
# exponential of a rounded logarithm up to 8 is as uncertain as that.
@each(
    ("chip", "mode", "post", "scores", "boxes"),
    [
        pytest.param("bm1684x", "f32", "yolov8", 1e-6, 1e-5, marks=pytest.mark.chip("bm1684x")),
        pytest.param("bm1684x", "f16", "yolov8{score=0.2}", 1e-6, 1e-5, marks=pytest.mark.chip("bm1684x")),
        pytest.param("cv181x", "bf16", "yolox", 2**-8, 1e-5, marks=pytest.mark.chip("cv181x")),
        pytest.param("cv183x", "bf16", "yolov5", 2**-7, 2**-5, marks=pytest.mark.chip("cv183x")),
        pytest.param("bm1684x", "int8", "yunet", 1e-6, 1e-5, marks=pytest.mark.chip("bm1684x")),
        pytest.param("cv182x", "int8", "yunet", 2**-8, 1e-5, marks=pytest.mark.chip("cv182x")),
    ],
)
def test_boxes_in_the_file_are_those_of_the_host(
    chip: str, mode: str, post: str, scores: float, boxes: float, tmp_path: Path
) -> None:
    path, session = write_heads(post, tmp_path), Session(chip=chip, quantize=mode)
    raw, module = session.transform(path), session.transform(path, post=post)
    table = write_table(raw, tmp_path / "table") if mode == "int8" else None
    loaded = [session.chip.load(session.build(one, table).data) for one in (raw, module)]
    wanted = host(module)(loaded[0].run(IMAGE), SAMPLE)
    found = reader(module)(loaded[1].run(IMAGE), SAMPLE)
    score, box = worst(wanted, found)
    assert score <= scores
    assert box <= boxes
    assert [call.function for call in loaded[1].host_calls][-1] in ("detectionoutput", "ssd_detection_output")


def test_single_shot_boxes_have_the_priors_of_the_network(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    shapes = {"l": (1, 192), "s": (1, 96), "i": (1, 3, 64, 64)}
    given = {name: random.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    priors = "prior_box_param { min_size: 16 aspect_ratio: 2 flip: true variance: 0.1 }"
    pool = "pooling_param { pool: MAX kernel_size: 16 stride: 16 }"
    text = inputs(**shapes) + layer("Pooling", pool, "i", "f") + layer("PriorBox", priors, "f i", "p", "boxes")
    text += layer("Softmax", "", "s", "sure", "sure")
    module = read(text + layer("TanH", "", "l", "offsets", "offsets"), tmp_path)
    session, fused = Session(), module.clone()
    definition = session.registry.get("tpuc.passes", "append-postprocess")
    session.manager(session.context()).run(fused, ["fold-constants", definition(post="ssd{score=0.015}")], "optimize")
    wanted = host(fused)(Interpreter(module).run(given), SAMPLE)
    score, box = worst(wanted, reader(fused)(Interpreter(fused).run(given), SAMPLE))
    assert score < 1e-6
    assert box < 1e-5
    assert len(wanted.scores) > 5


def test_whether_boxes_are_decoded_is_seen_by_the_ops(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain, decoded = (
        fused_postprocess(Session().transform(path, post=post))
        for post, path in (
            ("yolox", write_heads("yolox", tmp_path / "plain")),
            ("yolox{score=0.2}", write_heads("yolox{score=0.2}", tmp_path)),
        )
    )
    assert plain is not None
    assert decoded is not None
    assert (plain.made_by, decoded.made_by) == ("yolox", "yolox{score=0.2,decoded=true}")


def test_offsets_are_no_corners(tmp_path: Path) -> None:
    heads = Heads()
    heads.save(tmp_path / "net.onnx", [heads.rows("boxes", 4), heads.rows("scores", 2)])
    with pytest.raises(UsageError) as error:
        Session().transform(tmp_path / "net.onnx", post="boxes")
    assert str(error.value) == (
        "--post boxes: boxes 1x42x4, scores 1x42x2 come directly from convolutions, so they are offsets from prior "
        "boxes; write ssd{priors=FILE.npy}."
    )


SINGLE_SHOT = (
    "detection_output_param { num_classes: 3 code_type: CENTER_SIZE keep_top_k: 9 confidence_threshold: 0.34 "
    "nms_param { nms_threshold: 0.45 top_k: 50 } }"
)


def write_single_shot(folder: Path) -> Path:
    """A network of Caffe with a layer of detections: a picture, two convolutions, boxes."""
    kernel = "kernel_size: 8 stride: 8 bias_term: false weight_filler { type: 'gaussian' std: 0.1 }"
    priors = "prior_box_param { min_size: 16 aspect_ratio: 2 flip: true variance: 0.1 }"
    order = "permute_param { order: 0 order: 2 order: 3 order: 1 }"
    text = inputs(image=(1, 3, 32, 64))
    for name, values in (("l", 4), ("s", 3)):
        text += layer("Convolution", f"convolution_param {{ num_output: {3 * values} {kernel} }}", "image", f"{name}m")
        text += layer("Permute", order, f"{name}m", f"{name}p") + layer("Flatten", "", f"{name}p", f"{name}f")
    text += layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }", "sf", "sr")
    text += layer("Softmax", "softmax_param { axis: 2 }", "sr", "ss") + layer("Flatten", "", "ss", "sure")
    text += layer("PriorBox", priors, "lm image", "p") + layer("DetectionOutput", SINGLE_SHOT, "lf sure p", "found")
    (folder / "net.prototxt").write_text(text, "utf-8")
    return folder / "net.prototxt"


@each(
    ("chip", "mode"),
    [
        pytest.param("bm1684x", "int8", marks=pytest.mark.chip("bm1684x")),
        pytest.param("cv181x", "bf16", marks=pytest.mark.chip("cv181x")),
    ],
)
@each("post", ["ssd", "auto"])
def test_a_network_with_a_layer_of_detections_needs_no_other_option(
    chip: str, mode: str, post: str, tmp_path: Path
) -> None:
    session, path = Session(chip=chip, quantize=mode), write_single_shot(tmp_path)
    module = session.transform(path, post=post, random_weights=True)
    raw = session.transform(path, random_weights=True, output_names=["lf", "sure"])
    table = write_table(raw, tmp_path / "table") if mode == "int8" else None
    loaded = [session.chip.load(session.build(one, table).data) for one in (raw, module)]
    found = module.main.outputs[0].defining
    priors = found and module.constant(found.operands[2])
    assert priors is not None
    np.save(tmp_path / "priors.npy", priors[0, 0].reshape(-1, 4))
    decoded = Ssd(priors=str(tmp_path / "priors.npy"), variances=(0.1,) * 4, score=0.34, iou=0.45, keep=9)
    score, box = worst(decoded(loaded[0].run(IMAGE), SAMPLE), reader(module)(loaded[1].run(IMAGE), SAMPLE))
    assert score < 2**-8
    assert box < 1e-5
    assert fused_postprocess(module).read_by == "detection-rows"


@pytest.mark.chip("cv181x")
def test_layers_of_caffe_that_find_boxes_are_left_to_the_processor(tmp_path: Path) -> None:
    text = inputs(image=(1, 3, 64, 64))
    kernel = "bias_term: false weight_filler { type: 'gaussian' std: 0.1 }"
    for name, stride in (("c", 8), ("b", 16), ("a", 32)):
        sizes = f"num_output: 24 kernel_size: {stride} stride: {stride}"
        text += layer("Convolution", f"convolution_param {{ {sizes} {kernel} }}", "image", name)
    (tmp_path / "net.prototxt").write_text(text + layer("YoloDetection", YOLO, "b a c"), "utf-8")
    session = Session(chip="cv181x", quantize="bf16")
    module = session.transform(tmp_path / "net.prototxt", post="auto", random_weights=True)
    fused = fused_postprocess(module)
    assert fused is not None
    assert (fused.made_by, fused.read_by) == ("yolo-rows", "yolo-rows")
    loaded = session.chip.load(session.build(module).data)
    assert [call.function for call in loaded.host_calls] == ["yolo_detection"]
