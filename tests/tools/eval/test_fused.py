"""Post-processing behind the network: the file gives rows, and `tpuc run` and `tpuc eval` know how to read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from tpuc.errors import UsageError
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc.ir.fused_postprocess import fused_postprocess
from tpuc_driver.cli import main
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.onnx.networks import network, node
from tests.tools.eval.test_answers import said

LEVELS = np.array([3, 1, 4, 0, 5, 2, 1.5], np.float32)


def write_classifier(path: Path, images: int) -> Path:
    """Seven classes whose scores are so many times the mean of a picture's grays."""
    nodes = [node("GlobalAveragePool", "image", "mean"), node("Flatten", "mean", "f"), node("Gemm", "f w b", "scores")]
    weights = {"w": LEVELS[None], "b": 0 * LEVELS}
    onnx.save(network(nodes, {"image": (images, 1, 4, 4)}, ["scores"], weights), path)
    return path


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """Of two pictures at once."""
    return write_classifier(tmp_path / "net.onnx", 2)


def rows(module: Module, x: np.ndarray) -> np.ndarray:
    """What the module gives."""
    (found,) = Interpreter(module).run({"image": x}).values()
    return found


def test_the_best_classes_are_rows_of_the_file(classifier: Path, tmp_path: Path) -> None:
    session = Session()
    module = session.transform(classifier, post="classes{keep=3}")
    x = np.stack([np.full((1, 4, 4), 2.0), np.full((1, 4, 4), -1.0)]).astype(np.float32)
    found = rows(module, x)
    assert found.shape == (2, 1, 3, 7)
    assert found[0, 0].tolist() == [[0, 4, 10, 0, 0, 1, 1], [0, 2, 8, 0, 0, 1, 1], [0, 0, 6, 0, 0, 1, 1]]
    assert found[1, 0].tolist() == [[1, 3, 0, 0, 0, 1, 1], [1, 1, -1, 0, 0, 1, 1], [1, 6, -1.5, 0, 0, 1, 1]]
    session.save(module, tmp_path / "net.mlir")
    again = session.load(tmp_path / "net.mlir")
    assert np.array_equal(rows(again, x), found)
    fused = fused_postprocess(again)
    assert fused is not None
    assert (fused.made_by, fused.read_by) == ("classes{keep=3}", "class-rows{classes=7}")


@pytest.mark.parametrize(
    ("chip", "mode"),
    [
        pytest.param("bm1684x", "f32", marks=pytest.mark.chip("bm1684x")),
        pytest.param("bm1684x", "int8", marks=pytest.mark.chip("bm1684x")),
        pytest.param("cv181x", "bf16", marks=pytest.mark.chip("cv181x")),
        pytest.param("cv183x", "int8", marks=pytest.mark.chip("cv183x")),
    ],
)
def test_rows_of_the_chip_are_the_best_of_its_raw_scores(
    chip: str, mode: str, classifier: Path, tmp_path: Path
) -> None:
    x = np.random.default_rng(1).normal(0, 3, (2, 1, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", image=x)
    (tmp_path / "table").write_text("image 6 -6 6\nmean 3 -3 3\nf 3 -3 3\nscores 15 -15 15\n", "utf-8")
    session = Session(chip=chip, quantize=mode)
    table = tmp_path / "table" if mode == "int8" else None
    data = [session.build(session.transform(classifier, post=post), table).data for post in (None, "classes")]
    (raw,), (found,) = ({**session.chip.load(one).run({"image": x})}.values() for one in data)
    raw = raw.reshape(2, 7)
    order = np.argsort(-raw, axis=1, kind="stable")[:, :5]
    # the runtime of CV18xx gives them class by class
    best_first = np.argsort(-found[:, 0, :, 2], axis=1, kind="stable")
    rows = np.take_along_axis(found[:, 0], best_first[..., None], 1)
    assert np.array_equal(rows[..., 0], np.array([[0] * 5, [1] * 5]))
    assert np.array_equal(rows[..., 1], order)
    assert np.array_equal(rows[..., 2], np.take_along_axis(raw, order, 1))


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.new("L", (4, 4), 10).save(tmp_path / "gray.png")
    return tmp_path / "gray.png"


@pytest.mark.chip("cv181x")
def test_nobody_names_what_is_in_the_file(picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network, target = write_classifier(tmp_path / "net.onnx", 1), tmp_path / "net.cvimodel"
    plain = said(capsys, network, picture, "--preprocess=none")
    options = ("--preprocess", "none", "--chip", "cv181x", "--post", "classes", "-o", target)
    assert main(["compile", str(network), *map(str, options)]) == 0
    assert said(capsys, target, picture) == plain[:5]
    labels = tmp_path / "labels.txt"
    labels.write_text("gray.png 4\n", "utf-8")
    assert main(["eval", str(target), "--dataset", str(tmp_path), "--label-file", str(labels)]) == 0
    assert "top-1" in (told := capsys.readouterr().out)
    assert "1.0000" in told


@pytest.mark.parametrize(
    ("post", "sentence"),
    [
        ("boxed", "no postprocess named 'boxed'"),
        ("reconstruction-error", "--post reconstruction-error: this post-processing cannot be appended to a network"),
        ("classes{keep=8}", "--post classes: output 'scores' is 2x7 and 8 classes are to be kept; it needs one"),
        (
            "classes{output=y}",
            "--post classes: the network has 1 outputs; write classes{output=NAME} with",
        ),
        (
            "yolo",
            "yolov5, yolov8, yolov8-obb, yolov8-pose, yolov8-seg, yolox fits the outputs (scores 2x7)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(post: str, sentence: str, classifier: Path) -> None:
    with pytest.raises(UsageError) as error:
        Session().transform(classifier, post=post)
    assert sentence in str(error.value)


def test_classes_are_what_fits_a_vector(classifier: Path) -> None:
    fused = fused_postprocess(Session().transform(classifier, post="auto"))
    assert fused is not None
    assert fused.made_by == "classes"


def test_a_second_post_processing_is_refused(classifier: Path) -> None:
    session = Session()
    module = session.transform(classifier, post="classes")
    context = session.context()
    definition = session.registry.get("tpuc.passes", "append-postprocess")
    with pytest.raises(UsageError, match="net: 'classes' is already in the network; leave out --post yolox"):
        session.manager(context).run(module, [definition(post="yolox")], "lower")


def write_segmenter(path: Path) -> Path:
    """Three classes: bright, dark, and neither, whose score is between."""
    weights = {"w": np.array([0, 1, -1], np.float32).reshape(3, 1, 1, 1), "b": np.array([0.75, 0, 0], np.float32)}
    onnx.save(network([node("Conv", "image w b", "scores")], {"image": (1, 1, 4, 4)}, ["scores"], weights), path)
    return path


GRAYS = np.array([[-2, -1, 0, 1], [2, 3, 0.5, -0.5], [4, -4, 0, 0], [0.7, 0.8, -0.7, -0.8]], np.float32)[None, None]
SEGMENTS = [[2, 2, 0, 1], [1, 1, 0, 0], [1, 2, 0, 0], [0, 1, 0, 2]]


@each(
    ("chip", "mode"),
    [
        pytest.param("bm1684x", "f16", marks=pytest.mark.chip("bm1684x")),
        pytest.param("cv181x", "bf16", marks=pytest.mark.chip("cv181x")),
    ],
)
def test_the_class_of_every_pixel(chip: str, mode: str, tmp_path: Path) -> None:
    session = Session(chip=chip, quantize=mode)
    module = session.transform(write_segmenter(tmp_path / "net.onnx"), post="segmentation")
    fused = fused_postprocess(module)
    assert fused is not None
    assert fused.read_by == "class-map{classes=3}"
    loaded = session.chip.load(session.build(module).data)
    (found,) = loaded.run({"image": GRAYS}).values()
    assert found.reshape(4, 4).tolist() == SEGMENTS
    assert not loaded.host_calls


def test_a_map_of_classes_is_told_as_one_of_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, inside, image = write_segmenter(tmp_path / "net.onnx"), tmp_path / "net.mlir", tmp_path / "image.png"
    Image.fromarray(np.arange(0, 160, 10, dtype=np.uint8).reshape(4, 4)).save(image)
    options = ("--mean", "70", "--scale", "0.1", "--pixel-format", "gray")
    words = ("--model-name", "net", "--model-def", str(path), "--post", "segmentation", "--mlir", str(inside))
    assert main(["transform", *words, *options]) == 0
    lines = said(capsys, inside, image)
    assert lines == said(capsys, path, image, *options)
    assert [line.split()[:2] for line in lines] == [["50.0%", "1"], ["43.8%", "2"], ["6.2%", "0"]]


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv181x", "cv183x")])
def test_classes_of_a_network_that_gives_integers(chip: str, tmp_path: Path) -> None:
    """Scores have steps of a half."""
    weights = {"half": np.array(0.5, np.float32), "zero": np.array(0, np.int8)}
    nodes = [node("QuantizeLinear", "x half zero", "q"), node("DequantizeLinear", "q half zero", "d")]
    nodes += [node("Relu", "d", "r"), node("QuantizeLinear", "r half zero", "scores")]
    onnx.save(network(nodes, {"x": (1, 6)}, ["scores"], weights), tmp_path / "net.onnx")
    session = Session(chip=chip)
    module = session.transform(tmp_path / "net.onnx", post="classes{keep=3}")
    x = np.array([[1.1, -3, 2.2, 0.4, 7, 1.6]], np.float32)
    loaded = session.chip.load(session.build(module).data)
    (info,) = loaded.inputs
    given = np.rint(2 * x).astype(np.int8) if info.size_bytes == x.size else x
    for found in (Interpreter(module).run({"x": x}), loaded.run({"x": given.reshape(info.shape)})):
        (rows_found,) = found.values()
        rows = rows_found.reshape(3, 7)[:, 1:3].tolist()
        assert sorted(rows, key=lambda row: -row[1]) == [[4, 7], [2, 2], [5, 1.5]]
