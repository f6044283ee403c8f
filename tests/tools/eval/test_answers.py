"""What `tpuc run` says of pictures: classes with their names, and boxes, also drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from tpuc.ir.preprocess import preprocess_from
from tpuc.registry import Registry
from tpuc_driver.api.answers import Asked, RunSample
from tpuc_driver.cli import main
from tpuc_driver.data import SampleInput, labels_named, open_samples

from tests.frontends.onnx.networks import network, node
from tests.tools.eval.angles import PRESET, Angles

LEVELS = 100 * np.arange(6, dtype=np.float32)


def said(capture: pytest.CaptureFixture[str], *arguments: Path | str, code: int = 0) -> list[str]:
    """The lines that `tpuc run` writes, of errors where there is one."""
    capture.readouterr()
    assert main(["run", *map(str, arguments)]) == code
    out, err = capture.readouterr()
    return (err if code else out).splitlines()


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """Six classes whose scores are 0, 1, 2, 3, 4 and 5 times the picture's gray."""
    nodes = [node("GlobalAveragePool", "image", "mean"), node("Flatten", "mean", "f"), node("Gemm", "f w b", "scores")]
    weights = {"w": LEVELS[None] / 100, "b": 0 * LEVELS}
    onnx.save(network(nodes, {"image": (1, 1, 4, 4)}, ["scores"], weights), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def gray(tmp_path: Path) -> Path:
    Image.new("L", (4, 4), 10).save(tmp_path / "gray.png")
    return tmp_path / "gray.png"


def test_the_best_five_classes_of_a_picture(
    classifier: Path, gray: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("ant\nbee\ncat\ndog\nelk\nfox\n", "utf-8")
    lines = said(capsys, classifier, gray, "--preprocess=none", "--labels", names)
    assert lines == ["50  5  fox", "40  4  elk", "30  3  dog", "20  2  cat", "10  1  bee"]
    names.write_text("ant\nbee\ncat\ndog\nelk\n", "utf-8")
    assert said(capsys, classifier, gray, "--preprocess=none", "--labels", names)[0] == "50  5  elk"  # 0: background
    assert said(capsys, classifier, gray, "--preprocess=none")[0] == "50  5  class 5"


def test_several_pictures_have_a_heading_each(
    classifier: Path, gray: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("L", (4, 4), 20).save(tmp_path / "light.png")
    lines = said(capsys, classifier, gray, tmp_path / "light.png", "--preprocess=none")
    assert (lines[0], lines[6:8]) == (f"{gray}:", [f"{tmp_path / 'light.png'}:", "100  5  class 5"])
    (tmp_path / "net.onnx").rename(tmp_path.parent / "net.onnx")
    assert said(capsys, tmp_path.parent / "net.onnx", tmp_path, "--preprocess=none") == lines


def test_names_of_another_network_are_refused(classifier: Path, gray: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = said(capsys, classifier, gray, "--preprocess=none", "--labels=coco", code=2)
    assert line == (
        "tpuc: --labels coco has 80 names, but the network has 6 classes; give one name per line, in the order of its "
        "outputs."
    )
    (line,) = said(capsys, classifier, gray, "--preprocess=none", "--labels=cocoa", code=2)
    assert line == "tpuc: --labels cocoa: neither a file nor a built-in list; built-in lists: coco, imagenet."


def test_nothing_is_drawn_of_classes_and_of_figures(
    classifier: Path, gray: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--draw", tmp_path / "out.png", "-o", tmp_path / "out.npz")
    (line,) = said(capsys, classifier, gray, "--preprocess=none", *out, code=2)
    assert line == "tpuc: --draw: a class describes the whole image, so there is nothing to draw; leave it out."
    (line,) = said(capsys, classifier, gray, "--preprocess=none", *out, "--summary", code=2)
    assert line == "tpuc: --summary and --dump-all-tensors show values only; leave out --draw and --postprocess."
    assert not list(tmp_path.glob("out.*"))


def test_a_compiled_file_has_its_own_names(
    classifier: Path, gray: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "names.txt").write_text("ant\nbee\ncat\ndog\nelk\n", "utf-8")  # one less: class 0 is the background
    made = (
        "--chip=bm1684x",
        "--preprocess=none",
        "--labels",
        str(tmp_path / "names.txt"),
        "-o",
        str(tmp_path / "n.bmodel"),
    )
    assert main(["compile", str(classifier), *made]) == 0
    assert said(capsys, tmp_path / "n.bmodel", gray) == [
        "50  5  elk",
        "40  4  dog",
        "30  3  cat",
        "20  2  bee",
        "10  1  ant",
    ]
    np.savez(tmp_path / "gray.npz", np.full((1, 1, 4, 4), 10, np.float32))
    assert said(capsys, tmp_path / "n.bmodel", tmp_path / "gray.npz")[0] == "50  5  elk"
    (tmp_path / "others.txt").write_text("a\nb\nc\nd\ne\nf\n", "utf-8")
    assert said(capsys, tmp_path / "n.bmodel", gray, "--labels", tmp_path / "others.txt")[0] == "50  5  f"


def test_names_for_another_network_are_refused_before_it_is_compiled(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", str(classifier), "--chip=bm1684x", "--labels=coco", "-o", str(tmp_path / "n.bmodel")]) == 2
    assert "--labels coco has 80 names, but the network has 6 classes" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_packaged_names() -> None:
    assert [labels_named("imagenet").of(index, 1000) for index in (0, 207, 999)] == [
        "tench",
        "golden retriever",
        "toilet tissue",
    ]
    assert [labels_named("coco").of(index, 80) for index in (0, 15, 79)] == ["person", "cat", "toothbrush"]


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """YOLOX for 32x32 pixels: the cells of strides 8, 16 and 32 are constant, and one of them has found class 1."""
    rows = np.zeros((1, 16 + 4 + 1, 7), np.float32)
    rows[0, 5] = [0.5, 0.5, np.log(2), 0, 0.9, 0.1, 1.0]  # the cell at x 8, y 8 of stride 8: 16 wide, 8 high
    nodes = [
        node("ReduceMean", "image", "mean", axes=[1, 2, 3], keepdims=0),
        node("Mul", "mean zero", "nothing"),
        node("Add", "rows nothing", "found"),
    ]
    weights = {"rows": rows, "zero": np.zeros(1, np.float32)}
    onnx.save(network(nodes, {"image": (1, 3, 32, 32)}, ["found"], weights), tmp_path / "yolox.onnx")
    return tmp_path / "yolox.onnx"


def test_boxes_in_pixels_of_the_picture_are_told_and_drawn(
    detector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (64, 64), (9, 9, 9)).save(tmp_path / "scene.png")
    lines = said(
        capsys, detector, tmp_path / "scene.png", "--preprocess=yolox", "--labels=coco", "--draw", tmp_path / "out.png"
    )
    assert lines == ["0.900  8.0 16.0 40.0 32.0  bicycle"]  # twice as large as in the input: around (12, 12), 16 x 8
    with Image.open(tmp_path / "out.png") as drawn:
        assert (drawn.size, drawn.getpixel((40, 24)), drawn.getpixel((30, 24))) == ((64, 64), (60, 180, 75), (9, 9, 9))


def mapping(folder: Path, head: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> Path:
    """A network that takes 8 x 8 pixels of gray."""
    onnx.save(network(head, {"image": (1, 1, 8, 8)}, ["map"], weights), folder / "map.onnx")
    return folder / "map.onnx"


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """16 x 8 pixels, whose right half is light: in an input of 8 x 8 they fill the rows 2 to 5."""
    image = Image.new("L", (16, 8), 20)
    image.paste(220, (8, 0, 16, 8))
    image.save(tmp_path / "halves.png")
    return tmp_path / "halves.png"


LETTERBOX = ("--preprocess=none", "--keep-aspect-ratio")


def test_classes_of_pixels_by_their_share(halves: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # class 1 where gray is above 100, else class 0; class 2 nowhere
    weights = {"w": np.array([0, 1, -1], np.float32).reshape(3, 1, 1, 1), "b": np.array([100, 0, -100], np.float32)}
    model = mapping(tmp_path, [node("Conv", "image w b", "map")], weights)
    lines = said(capsys, model, halves, *LETTERBOX, "--draw", tmp_path / "out.png")
    assert lines == [" 50.0%  0  class 0", " 50.0%  1  class 1"]
    with Image.open(tmp_path / "out.png") as drawn:
        assert (drawn.size, drawn.getpixel((2, 4))) == ((16, 8), (20, 20, 20))
        assert drawn.getpixel((13, 4)) == (124, 196, 133)  # 220 and three fifths of the way to 60, 180, 75


def test_a_map_of_one_value_says_where_it_is_strongest(
    halves: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = mapping(tmp_path, [node("Mul", "image w", "map")], {"w": np.array([0.5], np.float32)})
    (line,) = said(capsys, model, halves, *LETTERBOX, "--draw", tmp_path / "out.png")
    assert line == "10 to 110, strongest at 8 0, 50.0% above the middle"
    with Image.open(tmp_path / "out.png") as drawn:
        assert (drawn.getpixel((2, 4)), drawn.getpixel((13, 4))) == ((20, 20, 20), (241, 117, 88))


def test_every_frame_of_a_folder_is_drawn(halves: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = mapping(tmp_path, [node("Mul", "image w", "map")], {"w": np.array([0.5], np.float32)})
    frames = tmp_path / "frames"
    (frames / "later").mkdir(parents=True)
    for name, light in (("1.png", 220), ("2.png", 120), ("later/2.png", 70)):
        frame = Image.open(halves)
        frame.paste(light, (8, 0, 16, 8))
        frame.save(frames / name)
    lines = said(capsys, model, frames, *LETTERBOX, "--draw", tmp_path / "out.png")
    assert lines[::2] == [f"{frames / name}:" for name in ("1.png", "2.png", "later/2.png")]
    assert [line.split(",")[0] for line in lines[1::2]] == ["10 to 110", "10 to 60", "10 to 35"]
    reds = {"out-1.png": 241, "out-2-2.png": 201, "out-3-2.png": 181}  # three fifths of the way to 255
    assert {path.name for path in tmp_path.glob("out*")} == set(reds)
    for name, red in reds.items():
        with Image.open(tmp_path / name) as drawn:
            assert drawn.getpixel((13, 4))[0] == red  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]  # RGB


def test_pictures_are_called_so(halves: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = said(capsys, tmp_path / "halves.png", halves, "--draw", tmp_path / "out.pic", code=2)
    assert line == f"tpuc: --draw {tmp_path / 'out.pic'}: not the name of an image file; use out.png."


def test_what_the_input_does_not_show_is_left_aside(
    halves: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = mapping(tmp_path, [node("Mul", "image w", "map")], {"w": np.array([0.5], np.float32)})
    cut = ("--preprocess=none", "--keep-aspect-ratio", "--keep-ratio-mode=short_side_scale")
    (line,) = said(capsys, model, halves, *cut)
    assert line == "10 to 110, strongest at 8 0, 50.0% above the middle"


def test_other_outputs_are_listed(detector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 32, 32), np.float32))
    (line,) = said(capsys, detector, tmp_path / "x.npy")
    assert line.startswith(
        "found  1x21x7  float32  [0, 1]  largest 1 at 0,5,6, 0.9 at 0,5,4, 0.693147 at 0,5,2, 0.5 at"
    )
    (line,) = said(capsys, detector, tmp_path / "x.npy", "--draw", tmp_path / "o.png", code=2)
    assert line.endswith("no known post-processing fits its outputs; leave out --postprocess and --draw.")


def test_an_answer_and_a_preset_of_another_package(tmp_path: Path) -> None:
    inputs = [SampleInput("x", (1, 1, 4, 4), preprocess=preprocess_from(PRESET.said, (1, 1, 4, 4)))]
    Image.new("L", (8, 8), 255).save(tmp_path / "white.png")
    (sample,) = open_samples(inputs, tmp_path)
    np.testing.assert_array_equal(sample["x"], np.ones((1, 1, 4, 4), np.float32))
    angle = {"angle": np.array([[0.5]])}
    asked = Asked(Registry())
    assert Angles().lines(RunSample("white", (), None, inputs, angle, angle), asked) == ["turned by 90 degrees"]
    assert Angles().lines(RunSample("white", (), None, inputs, {}, {}), asked) is None
