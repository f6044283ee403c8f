"""Folders named after classes: by a file of names, by synsets, by numbers, by their order; anything else is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from tpuc_driver.cli import main
from tpuc_eval.datasets.labels import IndexRange

from tests.families import each
from tests.frontends.onnx.networks import network, node

STEP = 20
"""Gray levels between the classes of a network."""


def grays(path: Path, classes: int) -> Path:
    """A network whose class `i` are pictures of gray `20 i`: the largest score `2 g m - g g` has the nearest gray."""
    levels = np.arange(classes, dtype=np.float32) * STEP
    nodes = [
        node("GlobalAveragePool", "image", "mean"),
        node("Flatten", "mean", "flat"),
        node("Gemm", "flat w b", "scores"),
    ]
    weights = {"w": 2 * levels[None], "b": -levels * levels}
    model = network(nodes, {"image": (1, 1, 4, 4)}, ["scores"], weights)
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, (1, classes)))
    onnx.save(model, path)
    return path


def pictures(folder: Path, classes: Mapping[str, int]) -> Path:
    """One picture per folder, of the gray of a class."""
    for name, index in classes.items():
        (folder / name).mkdir(parents=True)
        Image.new("L", (4, 4), index * STEP).save(folder / name / "picture.png")
    return folder


def names_file(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def accuracy(capture: pytest.CaptureFixture[str], *arguments: Path | str) -> tuple[float, str]:
    """The share of right first classes, and the remarks."""
    capture.readouterr()
    assert main(["eval", "--preprocess=none", *map(str, arguments), "--json"]) == 0
    out, err = capture.readouterr()
    return json.loads(out)["models"][0]["figures"]["top-1"], err


def refusal(capture: pytest.CaptureFixture[str], *arguments: Path | str) -> str:
    """The one line that is said instead of figures."""
    capture.readouterr()
    assert main(["eval", "--preprocess=none", *map(str, arguments)]) in (1, 2)
    out, err = capture.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


def test_as_many_folders_as_classes_count_in_sorted_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 3)
    data = pictures(tmp_path / "data", {"cat": 0, "dog": 1, "emu": 2})
    assert accuracy(capsys, net, "--dataset", data)[0] == 1.0


def test_a_folder_without_pictures_counts_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 3)
    data = pictures(tmp_path / "data", {"cat": 0, "emu": 2})
    (data / "dog").mkdir()
    (data / ".thumbnails").mkdir()
    assert accuracy(capsys, net, "--dataset", data)[0] == 1.0


def test_fewer_folders_than_classes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 10)
    data = pictures(tmp_path / "data", {"dog": 4, "emu": 7})
    assert refusal(capsys, net, "--dataset", data) == (
        f"tpuc: {net}: {data}: 2 folders of classes, but the network has 10 classes, so folders cannot be assigned to "
        "classes; give --label-file FILE with the names of the network's classes, one per line in the order of its "
        "outputs."
    )


def test_the_background_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 4)
    data = pictures(tmp_path / "data", {"cat": 1, "dog": 2, "emu": 3})
    assert "3 folders of classes, but the network has 4" in refusal(capsys, net, "--dataset", data)
    assert accuracy(capsys, net, "--dataset", data, "--label-offset=1")[0] == 1.0


def test_folders_are_found_by_the_names_of_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 6)
    names = names_file(tmp_path / "names.txt", ["zebra", "polar bear", "cat", "dog", "emu", "Fox"])
    data = pictures(tmp_path / "data", {"cat": 2, "polar_bear": 1, "fox": 5})
    found, remarks = accuracy(capsys, net, "--dataset", data, "--label-file", names)
    assert (found, remarks) == (1.0, "")


@each("spelled", ["n01443537", "goldfish", "carassius_auratus"])
def test_folders_are_found_by_synsets_and_what_follows(
    spelled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = grays(tmp_path / "net.onnx", 3)
    lines = ["n01440764 tench, Tinca tinca", "n01443537 goldfish, Carassius auratus", "n01484850 great white shark"]
    names = names_file(tmp_path / "names.txt", lines)
    data = pictures(tmp_path / "data", {spelled: 1, "n01484850": 2})
    assert accuracy(capsys, net, "--dataset", data, "--label-file", names)[0] == 1.0


def test_folders_with_an_index_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 9)
    labels = names_file(tmp_path / "labels.txt", ["dog 7", "cat 3"])
    data = pictures(tmp_path / "data", {"cat": 3, "dog": 7})
    assert accuracy(capsys, net, "--dataset", data, "--label-file", labels)[0] == 1.0


def test_folders_that_no_class_is_named_like(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 3)
    names = names_file(tmp_path / "names.txt", ["cat", "dog", "emu"])
    data = pictures(tmp_path / "data", {"dog": 1, "yak": 0})
    found, remarks = accuracy(capsys, net, "--dataset", data, "--label-file", names)
    assert found == 1.0
    assert f"{data}: no class in {names} is named 'yak'; the images there are skipped" in remarks
    names = names_file(tmp_path / "names.txt", ["ant", "bee", "cow"])
    assert refusal(capsys, net, "--dataset", data, "--label-file", names) == (
        f"tpuc: {data}: none of its folders ('dog', 'yak') has the name of a class in {names}. Rename the folders "
        "after the classes, or give their names with --label-file."
    )


def test_a_name_of_two_classes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 3)
    names = names_file(tmp_path / "names.txt", ["crane", "dog", "crane"])
    data = pictures(tmp_path / "data", {"crane": 2})
    assert "folder 'crane' is the name of several classes (0 and 2)" in refusal(
        capsys, net, "--dataset", data, "--label-file", names
    )


def test_names_of_another_network_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 4)
    names = names_file(tmp_path / "names.txt", ["cat", "dog", "emu"])
    data = pictures(tmp_path / "data", {"cat": 1, "dog": 2})
    said = refusal(capsys, net, "--dataset", data, "--label-file", names)
    assert f"{names}: 3 names, but the network has 4 classes" in said
    assert accuracy(capsys, net, "--dataset", data, "--label-file", names, "--label-offset=1")[0] == 1.0


def test_folders_named_by_numbers_are_class_indices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 12)
    data = pictures(tmp_path / "data", {"2": 2, "10": 10, "007": 7})
    found, remarks = accuracy(capsys, net, "--dataset", data)
    assert found == 1.0
    assert f"{data}: folder names are numbers and are used as class indices" in remarks
    from_one = pictures(tmp_path / "from-one", {"1": 0, "12": 11})
    assert main(["eval", "--preprocess=none", str(net), "--dataset", str(from_one)]) == 2
    assert (
        f"{from_one}: its largest class index is 12, but the network has 12 classes, counted from 0; add "
        "--label-offset -1."
    ) in capsys.readouterr().err
    assert accuracy(capsys, net, "--dataset", from_one, "--label-offset=-1")[0] == 1.0


LISTED = {"a": 2, "b": 7, "c": 11}
"""Which class each picture of a list is, counted from 0."""


def listed(path: Path, first: int) -> Path:
    """The list of their classes, the first of which has the index `first`."""
    return names_file(path, [f"{name} {number + first}" for name, number in LISTED.items()])


def test_a_list_that_counts_from_1_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 12)
    data, labels = pictures(tmp_path / "data", LISTED), listed(tmp_path / "ones.txt", 1)
    arguments = [net, "--dataset", data, "--label-file", labels]
    expected = (
        f"tpuc: {net}: {labels}: its largest class index is 12, but the network has 12 classes, counted from 0; add "
        "--label-offset -1."
    )
    assert refusal(capsys, *arguments) == expected
    assert refusal(capsys, *arguments, "--count=1") == expected
    assert accuracy(capsys, *arguments, "--label-offset=-1") == (1.0, "")
    zeros = listed(tmp_path / "zeros.txt", 0)
    assert accuracy(capsys, net, "--dataset", data, "--label-file", zeros) == (1.0, "")


def test_a_list_that_may_count_from_1_is_remarked_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 12)
    data = pictures(tmp_path / "data", {"a": 1, "b": 7})
    labels = names_file(tmp_path / "labels.txt", ["a 1", "b 7"])
    found, remarks = accuracy(capsys, net, "--dataset", data, "--label-file", labels)
    assert found == 1.0
    assert remarks.count(str(labels)) == 1
    assert (
        f"{labels}: its smallest class index is 1; if it counts the 12 classes from 1, add --label-offset -1"
    ) in remarks


def test_a_network_with_one_class_more_than_imagenet_is_remarked_on() -> None:
    said = "the network has 1001 classes, and ImageNet has 1000: if class 0 is the background, add --label-offset 1"
    assert IndexRange(Path("val"), 0, 999, 0).doubt(1001) == said
    assert IndexRange(Path("val"), 7, 8, 0).doubt(1001) == said
    assert IndexRange(Path("val"), 0, 999, 1).doubt(1001) == ""
    assert IndexRange(Path("val"), 0, 999, 0).doubt(1000) == ""
    assert IndexRange(Path("val"), 0, 1000, 0).doubt(1001) == ""


def test_classes_behind_a_background_count_from_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = grays(tmp_path / "net.onnx", 12)
    data = pictures(tmp_path / "data", {"a": 1, "b": 11})
    labels = names_file(tmp_path / "labels.txt", ["a 1", "b 11"])
    assert accuracy(capsys, net, "--dataset", data, "--label-file", labels) == (1.0, "")
