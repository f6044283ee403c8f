"""Last layers of detectors: parameters become those of TOP ops; the vendor's evaluation of these gives the same."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Unsupported, print_module
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.caffe.files import Array, inputs, layer, read, values

PEER = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
PROPOSAL = (
    "proposal_param { feat_stride: 16 anchor_base_size: 16 rpn_obj_threshold: 0.8 rpn_nms_threshold: 0.5 "
    "rpn_nms_post_top_n: 40 net_input_h: 96 net_input_w: 128 }"
)
FRCN = "frcn_detection_param { class_num: 3 obj_threshold: 0.4 nms_threshold: 0.3 keep_topk: 9 }"
FACES = "retinaface_detection_param { nms_threshold: 0.4 confidence_threshold: 0.8 keep_topk: 5 }"
YOLO = (
    "yolo_detection_param { net_input_h: 64 net_input_w: 96 nms_threshold: 0.3 obj_threshold: 0.35 keep_topk: 30 "
    "class_num: 3 }"
)


def regions() -> dict[str, Array]:
    corners, extents = 60 * np.abs(values(2, 1, 24, 2)), 20 + 30 * np.abs(values(2, 1, 24, 2, seed=2))
    image = np.arange(2.0)[:, None, None, None] * np.ones((2, 1, 24, 1))
    boxes = np.concatenate([image, corners, corners + extents], -1).astype(np.float32)
    return {"d": 0.3 * values(48, 12), "s": np.abs(values(48, 3)), "r": boxes}


def faces() -> dict[str, Array]:
    """One likely face: how the vendor suppresses others is not what anybody wants (it drops every second one)."""
    found: dict[str, Array] = {}
    for stride, extent in ((32, 2), (16, 4), (8, 8)):
        found[f"c{stride}"] = np.zeros((1, 4, extent, extent), np.float32)
        found[f"b{stride}"] = 0.3 * values(1, 8, extent, extent)
        found[f"l{stride}"] = 0.3 * values(1, 20, extent, extent)
    found["c16"][0, 3, 1, 2] = 0.9
    return found


CASES: dict[str, tuple[str, dict[str, Array]]] = {
    "Proposal": (PROPOSAL, {"s": np.abs(values(2, 18, 6, 8)), "d": 0.5 * values(2, 36, 6, 8)}),
    "FrcnDetection": (FRCN, regions()),
    "YoloDetection": (YOLO, {name: 2 * values(2, 24, n, n) - 0.5 for name, n in (("b", 4), ("a", 2), ("c", 8))}),
    "RetinaFaceDetection": (FACES, faces()),
}


@each("type", CASES)
def test_results_have_as_many_rows_as_are_asked_for(type: str, tmp_path: Path) -> None:
    body, operands = CASES[type]
    module = read(inputs(**{n: a.shape for n, a in operands.items()}) + layer(type, body, " ".join(operands)), tmp_path)
    module.verify()
    (result,) = Interpreter(module).run(operands).values()
    rows = {"Proposal": (40, 5), "FrcnDetection": (9, 6), "YoloDetection": (30, 6), "RetinaFaceDetection": (5, 15)}
    assert result.shape[1:] == (1, *rows[type])
    assert result.any()


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("type", CASES)
def test_the_vendor_evaluates_the_same(type: str, oracle_dir: Path, tmp_path: Path) -> None:
    body, operands = CASES[type]
    module = read(inputs(**{n: a.shape for n, a in operands.items()}) + layer(type, body, " ".join(operands)), tmp_path)
    theirs = _vendor(print_module(module), operands, oracle_dir, tmp_path)
    ours = Interpreter(module).run(operands)["y"]
    # Pixels in float32, whose sums are taken in another order.
    np.testing.assert_allclose(ours, theirs.reshape(ours.shape), rtol=1e-5, atol=1e-4)


def _vendor(text: str, operands: Mapping[str, Array], tools: Path, folder: Path) -> Array:
    (folder / "net.mlir").write_text(text, encoding="utf-8")
    weights = next(word for word in text.split('"') if word.endswith(".npz"))
    np.savez(folder / weights)
    np.savez(folder / "in.npz", **operands)
    command = [PEER / "bin" / "python", tools / "run_model.py", "net.mlir", "in.npz", "out.npz"]
    # It may fail when it ends, after it has written the results.
    subprocess.run([*map(str, command)], cwd=folder, capture_output=True, timeout=200, check=False)
    with np.load(folder / "out.npz") as results:
        return results["y"]


@each(
    ("body", "version", "anchors"),
    [("", "yolov3", (10, 326)), ("spp_net: true", "yolov3_spp", (10, 326)), ("yolo_v4: true", "yolov4", (12, 401))],
)
def test_kinds_of_yolo(body: str, version: str, anchors: tuple[float, float], tmp_path: Path) -> None:
    maps = {name: (1, 24, n, n) for name, n in (("a", 2), ("b", 4), ("c", 8))}
    text = inputs(**maps) + layer("YoloDetection", YOLO.replace("class_num", f"{body} class_num"), "a b c")
    op = read(text, tmp_path).main.outputs[0].defining
    assert op is not None
    assert (op.op.version, op.op.anchors[0], op.op.anchors[-1]) == (version, *anchors)


@each(
    ("text", "sentence"),
    [
        (
            layer("Proposal", "proposal_param { net_input_h: 9 }", "a b"),
            "its net_input_w is missing, but must be positive",
        ),
        (
            layer("Proposal", PROPOSAL.replace("{", "{ ratio: 0.5 ratio: 1 ratio: 3 "), "a b"),
            "only anchors with the ratios 0.5, 1, 2 are supported, this layer states 0.5, 1, 3",
        ),
        (
            layer("Proposal", PROPOSAL.replace("{", "{ scale: 8 scale: 16 "), "a b"),
            "only anchors with the scales 8, 16, 32 are supported, this layer states 8, 16",
        ),
        (
            layer("Proposal", PROPOSAL.replace("{", "{ min_size: 16 "), "a b"),
            "min_size is not supported: all boxes above rpn_obj_threshold count",
        ),
        (layer("Proposal", PROPOSAL, "a"), "needs 2 or 3 bottoms, but has 1"),
        (layer("YoloDetection", YOLO, "a b"), "9 anchors do not fit 2 bottoms of 3 anchors each: state anchors"),
        (
            layer("YoloDetection", YOLO.replace("class_num", 'anchors: "1,x" class_num'), "a b"),
            "its anchors '1,x' are not comma-separated integers",
        ),
        (layer("FrcnDetection", FRCN.replace("class_num: 3", ""), "a b b"), "its class_num is missing"),
    ],
)
def test_parameters_that_do_not_fit(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=sentence):
        read(inputs(a=(1, 24, 2, 2), b=(1, 24, 4, 4)) + text, tmp_path)
