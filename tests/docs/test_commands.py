"""Every `tpuc` command that README and the pages print runs as printed, page by page, on small files of those names."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tpuc_driver.cli import main

from benchmarks.yolov8 import TASKS, build
from tests.families import each
from tests.frontends.tflite.test_variables import streaming

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^$\n((?:^ {4,}.*\n)+)", re.MULTILINE)
ELSEWHERE = {
    "docs/tutorial.md": "tests/docs/test_code.py runs it with its own files",
    "docs/chips/milk-v-duo.md": "tests/docs/test_milk_v_duo.py runs it; the rest needs the board",
    "docs/formats/caffe.md": "tests/frontends/caffe runs such commands; files of Caffe networks are large to write",
    "docs/formats/torch.md": "needs torch: tests/frontends/torch runs it where that is installed",
}
"""Pages whose commands other tests run."""
PLUGINS = ("--method trimmed", "--planner separate", "--with checksum", "pow-to-mul")
"""Options of the example packages of the how-tos, whose own tests run them once they are installed."""


def node(op: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def save(path: Path, nodes: list[onnx.NodeProto], shape: tuple[object, ...], weights: dict[str, object]) -> None:
    """A network of one input `image` and one output, the result of the last node."""
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())


def classifier(path: Path, shape: tuple[Any, ...] = (1, 3, 32, 32), classes: int = 1000) -> None:
    random = np.random.default_rng(1)
    nodes = [
        node("Conv", "image filters", "maps", strides=[4, 4]),
        node("Relu", "maps", "positive"),
        node("GlobalAveragePool", "positive", "pooled"),
        node("Flatten", "pooled", "flat"),
        node("Gemm", "flat classes", "scores"),
        node("Softmax", "scores", "probabilities"),
    ]
    weights: dict[str, object] = {
        "filters": random.normal(size=(8, shape[1], 4, 4)).astype(np.float32),
        "classes": random.normal(size=(8, classes)).astype(np.float32),
    }
    save(path, nodes, shape, weights)


def detector(path: Path) -> None:
    """YOLOX for 32x32 pixels and 80 classes: cells of strides 8, 16 and 32, one of which has found something."""
    rows = np.zeros((1, 16 + 4 + 1, 85), np.float32)
    rows[0, 5, :8] = [0.5, 0.5, np.log(2), 0, 0.9, 0.1, 1.0, 0.1]
    nodes = [
        node("ReduceMean", "image", "mean", axes=[1, 2, 3], keepdims=0),
        node("Mul", "mean zero", "nothing"),
        node("Add", "rows nothing", "found"),
    ]
    save(path, nodes, (1, 3, 32, 32), {"rows": rows, "zero": np.zeros(1, np.float32)})


def pictures(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    random = np.random.default_rng(2)
    paths = [folder / f"{place:03}.jpg" for place in range(count)]
    for path in paths:
        coarse = random.integers(0, 256, (4, 4, 3), np.uint8)
        Image.fromarray(coarse).resize((32, 32), Image.Resampling.BILINEAR).save(path, quality=95)
    return paths


def labeled(folder: Path) -> None:
    """Pictures in a folder for each class, and a file that says the same."""
    for place, path in enumerate(pictures(folder, 120)):
        (folder / f"{place % 3}").mkdir(exist_ok=True)
        path.rename(folder / f"{place % 3}" / path.name)
    folder.with_name("val.txt").write_text("0 0\n1 1\n2 2\n")


def usual(folder: Path) -> None:
    """The files that most pages speak of."""
    classifier(folder / "net.onnx")
    (folder / "model.onnx").write_bytes((folder / "net.onnx").read_bytes())
    paths = pictures(folder / "images", 24)
    for name in ("cat.jpg", "street.jpg"):
        (folder / name).write_bytes(paths[0].read_bytes())
    labeled(folder / "val")
    (folder / "samples").mkdir()
    arrays = np.random.default_rng(3).normal(size=(20, 1, 3, 32, 32)).astype(np.float32)
    for name in ("samples.npz", "samples/samples.npz"):
        np.savez(folder / name, image=arrays)


def done(words: str) -> Callable[[Path], None]:
    """A command that was given before the page begins."""

    def run(_: Path) -> None:
        assert main(words.split()) == 0

    return run


def results(folder: Path) -> None:
    """Outputs of two programs."""
    for name in ("mine", "reference"):
        np.savez(folder / f"{name}.npz", y=np.arange(6, dtype=np.float32))


PRESET = "--chip bm1684x --preprocess imagenet-torch"
COMPILED = done(f"compile net.onnx {PRESET} -o net.bmodel")
TOP = done("transform --model-name net --model-def net.onnx --mlir net.mlir --preprocess imagenet-torch")


def annotated(folder: Path) -> None:
    """Pictures with the boxes of COCO."""
    paths = [path for path in sorted((folder / "val").rglob("*.jpg")) if path.name in ("000.jpg", "001.jpg")]
    images = [
        {"id": place, "file_name": path.relative_to(folder / "val").as_posix(), "width": 32, "height": 32}
        for place, path in enumerate(paths)
    ]
    boxes = [{"id": 1, "image_id": 0, "category_id": 1, "bbox": [4, 8, 16, 8], "area": 128, "iscrowd": 0}]
    content = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "person"}]}
    (folder / "instances.json").write_text(json.dumps(content))


def ultralytics(folder: Path) -> None:
    """Exports for small pictures, with few layers."""
    for name, task in zip(("yolov8n", "yolov8n-seg", "yolov8n-pose", "yolov8n-cls"), TASKS, strict=True):
        (folder / f"{name}.onnx").write_bytes(build(64, task, is_short=True).SerializeToString())
    (folder / "images").rename(folder / "coco")


PREPARED: dict[str, list[Callable[[Path], object]]] = {
    "docs/chips/c.md": [lambda folder: (folder / "wake.tflite").write_bytes(streaming("INT8"))],
    "docs/combine.md": [
        lambda folder: classifier(folder / "faces.onnx", classes=4),
        lambda folder: classifier(folder / "points.onnx", classes=5),
        done(f"compile faces.onnx {PRESET} -o faces.bmodel"),
        done(f"compile points.onnx {PRESET} -o points.bmodel"),
        lambda folder: classifier(folder / "net.onnx", ("batch", 3, "height", "width")),
    ],
    "docs/evaluate.md": [
        lambda folder: pictures(folder / "images" / "more", 150),
        done(f"compile net.onnx {PRESET} --quantize int8 --dataset images --work-dir . -o net.bmodel"),
        results,
    ],
    "docs/howto/write-a-calibrator-or-planner.md": [TOP],
    "docs/howto/write-a-proposer.md": [TOP],
    "docs/images.md": [lambda folder: classifier(folder / "denoise.onnx", (1, 4, 32, 32))],
    "docs/memory.md": [TOP],
    "docs/postprocess.md": [lambda folder: detector(folder / "yolox.onnx"), annotated],
    "docs/run.md": [
        COMPILED,
        lambda folder: detector(folder / "yolox.onnx"),
        done("compile yolox.onnx --chip cv181x --preprocess yolox --post yolox -o detector.cvimodel"),
    ],
    "docs/tpu-mlir.md": [TOP],
    "docs/tutorials/from-ultralytics.md": [ultralytics],
    "docs/tutorials/yolo-bm1684x.md": [ultralytics, annotated],
    "docs/tutorials/yolo-milk-v-duo.md": [ultralytics, annotated],
}


def commands(page: Path) -> Iterator[str]:
    """What the page's shell blocks and indented blocks have of `tpuc`, joined lines as one."""
    text = page.read_text("utf-8")
    for block in [*BLOCK.findall(text), *INDENTED.findall(text)]:
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("tpuc "):
                yield line.strip()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [
    name
    for page in PAGES
    if (name := page.relative_to(ROOT).as_posix()) not in ELSEWHERE
    and not name.startswith(("docs/decisions/", "docs/cli.md"))
    and any(commands(page))
]


QUICK_ELSEWHERE = {"check", "npz"}
"""Subcommands whose pages search or compile whole networks; tests/tools/check and tests/tools/npz run them."""


def quick_pages() -> set[str]:
    """README, and pages with few commands until every other subcommand of all pages is among them."""
    quick, known = {"README.md"}, QUICK_ELSEWHERE
    for name in sorted(NAMES, key=lambda name: (name not in quick, "tutorials" in name, len([*commands(ROOT / name)]))):
        given = {command.split()[1] for command in commands(ROOT / name)}
        if not given <= known:
            known = known | given
            quick.add(name)
    return quick


QUICK = quick_pages()


@pytest.mark.chip("bm1684x")
@each("page", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMES])
def test_the_commands_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    usual(tmp_path)
    for prepare in PREPARED.get(page, ()):
        prepare(tmp_path)
    for command in commands(ROOT / page):
        if any(option in command for option in PLUGINS):
            continue
        capsys.readouterr()
        code = main(shlex.split(command)[1:])
        assert code == 0, f"{command}\n{capsys.readouterr().err}"


def test_pages_that_are_run_elsewhere_print_commands() -> None:
    assert all(any(commands(ROOT / page)) for page in ELSEWHERE)


def test_extras_are_installed_from_the_checkout() -> None:
    """No package index has `tpuc` yet."""
    printed = {page.name for page in PAGES if "tpuc[" in page.read_text("utf-8") and "decisions" not in page.parts}
    assert not printed


def test_no_page_names_a_chip_that_is_not_there() -> None:
    named = [command for page in PAGES for command in commands(page) if "newchip" in command]
    assert not named
