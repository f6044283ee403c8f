"""Labeled data as people keep them, and what they are told when something is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tpuc.api import TpucError
from tpuc.api.boundary import Preprocess
from tpuc_driver.api.host import SampleInput
from tpuc_eval.datasets.arrays import Arrays
from tpuc_eval.datasets.coco import Coco
from tpuc_eval.datasets.imagenet import ImageNet
from tpuc_eval.datasets.voc import Voc
from tpuc_eval.datasets.wider import Wider
from tpuc_eval.datasets.yolo import Yolo
from tpuc_eval.protocols import DataRequest, LabeledSamples, Objects

from tests.families import each

RGB = SampleInput("image", (1, 3, 4, 6), preprocess=Preprocess(pixel_format="rgb", mean=(1.0,), scale=(0.5,)))


class Heard(list[str]):
    """Remarks, as a function."""

    def __call__(self, text: str) -> None:
        self.append(text)


def image(path: Path, color: tuple[int, int, int] = (10, 20, 30), size: tuple[int, int] = (6, 4)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


def truths(samples: LabeledSamples) -> dict[str, Any]:
    return {Path(samples.name(index)).name: samples.truth(index) for index in range(len(samples))}


# Images with classes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes with two images and one."""
    for name in ("n01/b.png", "n01/a.png", "n02/c.png"):
        image(tmp_path / "val" / name)
    return tmp_path / "val"


def test_a_folder_per_class(folder: Path) -> None:
    samples = ImageNet().open(DataRequest(folder), Heard())
    assert truths(samples) == {"a.png": 0, "b.png": 0, "c.png": 1}
    assert list(samples.classes) == ["n01", "n02"]
    assert truths(ImageNet().open(DataRequest(folder, count=2, label_offset=1), Heard())) == {"a.png": 1, "b.png": 1}
    sample = samples.read(0, [RGB])
    assert sample.placement is not None
    assert (sample.placement.image, sample.placement.input) == ((6, 4), (6, 4))
    wanted = np.array([4.5, 9.5, 14.5], np.float32).reshape(1, 3, 1, 1)  # (pixel - 1) / 2
    np.testing.assert_array_equal(sample.rows[0]["image"], np.broadcast_to(wanted, (1, 3, 4, 6)))


@each(
    ("text", "wanted"),
    [
        ("b.png 7\nn02/c.png 9\na.png 8\n", {"a.png": 8, "b.png": 7, "c.png": 9}),
        ("file\tindex\tname\na.png\t1\tred fox\nb\t2\towl\nc.png\t3\tcat\n", {"a.png": 1, "b.png": 2, "c.png": 3}),
        ("# three\na.png,4\nb.png,5\n\nc.png,6\n", {"a.png": 4, "b.png": 5, "c.png": 6}),
        ("5\n6\n7\n", {"a.png": 5, "b.png": 6, "c.png": 7}),
        ("n03 fish\nn02 cat\nn01 dog\n", {"a.png": 2, "b.png": 2, "c.png": 1}),
    ],
    ids=["files", "headings", "commas", "in order", "classes"],
)
def test_label_files(folder: Path, tmp_path: Path, text: str, wanted: dict[str, int]) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text(text, "utf-8")
    assert truths(ImageNet().open(DataRequest(folder, labels), Heard())) == wanted


def test_images_without_label_are_counted(folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("a.png 1\n", "utf-8")
    heard = Heard()
    assert truths(ImageNet().open(DataRequest(folder, labels), heard)) == {"a.png": 1}
    assert heard == [f"2 of 3 images have no label in {labels} and are skipped"]


@each(
    ("text", "sentence"),
    [
        ("x.png 1\n", "none of its images has a label in .*labels.txt. Give a folder per class"),
        ("1\n2\n", "2 labels for 3 images. Give one per image, or lines 'FILE INDEX'"),
        ("a.png 1\nb.png\n", "line 'b.png' has no class index, but other lines do"),
    ],
)
def test_label_files_that_do_not_fit(folder: Path, tmp_path: Path, text: str, sentence: str) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text(text, "utf-8")
    with pytest.raises(TpucError, match=sentence):
        ImageNet().open(DataRequest(folder, labels), Heard())


def test_folders_that_hold_no_classes(tmp_path: Path) -> None:
    with pytest.raises(TpucError, match=r"contains no images\. Give a folder per class"):
        ImageNet().open(DataRequest(tmp_path), Heard())
    with pytest.raises(TpucError, match=r"not a folder\. Give --dataset a folder of images"):
        ImageNet().open(DataRequest(image(tmp_path / "a.png")), Heard())
    with pytest.raises(TpucError, match=r"a\.png: not in a class folder, so its class is unknown"):
        ImageNet().open(DataRequest(tmp_path), Heard())


def test_a_network_with_two_images_as_inputs_is_refused(folder: Path) -> None:
    samples = ImageNet().open(DataRequest(folder), Heard())
    with pytest.raises(TpucError, match="2 inputs of the network take images"):
        samples.read(0, [RGB, SampleInput("other", (1, 3, 4, 6))])
    with pytest.raises(TpucError, match="the data set has no values for input 'mask'"):
        samples.read(0, [RGB, SampleInput("mask", (1, 5))])


def test_the_size_of_the_image_is_an_input_of_two_values(tmp_path: Path) -> None:
    image(tmp_path / "x" / "a.png", size=(12, 8))
    sample = ImageNet().open(DataRequest(tmp_path), Heard()).read(0, [RGB, SampleInput("size", (1, 2))])
    np.testing.assert_array_equal(sample.rows[0]["size"], [[8, 12]])


# Arrays


def write(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_pixels_in_arrays_are_normalized_and_turned(tmp_path: Path) -> None:
    pixels = np.arange(2 * 4 * 6 * 3, dtype=np.uint8).reshape(2, 4, 6, 3)
    data = write(tmp_path / "d.npz", x=pixels, y=np.array([3, 1], np.uint8))
    samples = Arrays().open(DataRequest(data, label_offset=1), Heard())
    assert [samples.truth(0), samples.truth(1)] == [4, 2]
    wanted = ((pixels[1].astype(np.float32) - 1) / 2).transpose(2, 0, 1)[None]
    np.testing.assert_array_equal(samples.read(1, [RGB]).rows[0]["image"], wanted)
    first = write(tmp_path / "chw.npz", x=pixels.transpose(0, 3, 1, 2), y=np.zeros(2, np.int64))
    np.testing.assert_array_equal(Arrays().open(DataRequest(first), Heard()).read(1, [RGB]).rows[0]["image"], wanted)


def test_gray_pixels_need_no_axis_for_channels(tmp_path: Path) -> None:
    pixels = np.arange(20, dtype=np.uint8).reshape(1, 4, 5)
    data = write(tmp_path / "d.npz", x=pixels, y=[0])
    gray = SampleInput("g", (1, 1, 4, 5), preprocess=Preprocess(pixel_format="gray", scale=(2.0,)))
    sample = Arrays().open(DataRequest(data), Heard()).read(0, [gray])
    np.testing.assert_array_equal(sample.rows[0]["g"][0], 2.0 * pixels)


def test_floats_are_taken_as_they_are(tmp_path: Path) -> None:
    values = np.linspace(-1, 1, 72, dtype=np.float32).reshape(1, 3, 4, 6)
    data = write(tmp_path / "d.npz", pictures=values, kinds=[2])
    samples = Arrays(inputs="pictures", labels="kinds").open(DataRequest(data), Heard())
    np.testing.assert_array_equal(samples.read(0, [RGB]).rows[0]["image"], values)


def test_windows_of_rows(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.float32).reshape(1, 6, 4)
    data = write(tmp_path / "d.npz", x=values, y=[1])
    sample = Arrays(window=5).open(DataRequest(data), Heard()).read(0, [SampleInput("w", (1, 20))])
    got = [row["w"] for row in sample.rows]
    assert len(got) == len(sample.given) == 2
    np.testing.assert_array_equal(got[0], np.arange(20)[None])
    np.testing.assert_array_equal(got[1], np.arange(4, 24)[None])


def test_networks_of_several_inputs_find_arrays_by_name(tmp_path: Path) -> None:
    """Token numbers, a mask and a scalar of each sample."""
    arrays = {"ids": np.arange(12).reshape(3, 4), "mask": np.ones((3, 4), bool), "rate": np.array([8, 16, 8])}
    data = tmp_path / "text.npz"
    np.savez(data, **arrays, y=np.array([0, 1, 0]))
    found = Arrays().open(DataRequest(data), Heard())
    inputs = [SampleInput("rate", (), dtype="int64"), SampleInput("ids", (1, 4)), SampleInput("mask", (1, 4))]
    (row,) = found.read(1, inputs).rows
    assert {name: array.tolist() for name, array in row.items()} == {
        "ids": [[4, 5, 6, 7]],
        "mask": [[1, 1, 1, 1]],
        "rate": 16,
    }
    with pytest.raises(TpucError, match="no array 'types' with one entry per sample for input 'types'; there"):
        found.read(0, [*inputs, SampleInput("types", (1, 4))])
    with pytest.raises(TpucError, match="windows are of one input, the network has 3"):
        Arrays(window=2).open(DataRequest(data), Heard()).read(0, inputs)


@each(
    ("arrays", "sentence"),
    [
        (
            {"x": np.zeros((2, 3))},
            r"no array 'y' with one entry per sample; there are x. Name it: --dataset-type arrays",
        ),
        ({"x": np.zeros((0, 3)), "y": np.zeros(0, np.int64)}, r"no samples in it: array 'x' is \(0, 3\)"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(3, np.int64)}, r"2 samples but labels of shape \(3,\)"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(2)}, "labels 'y' are float64, not class indices"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TpucError, match=sentence):
        Arrays().open(DataRequest(write(tmp_path / "d.npz", **arrays)), Heard())


def test_arrays_of_another_shape_than_the_input(tmp_path: Path) -> None:
    data = write(tmp_path / "d.npz", x=np.zeros((1, 7)), y=[0])
    with pytest.raises(TpucError, match=r"d.npz\[0\]: a sample of shape \(7,\) does not fit input 'image'"):
        Arrays().open(DataRequest(data), Heard()).read(0, [RGB])
    with pytest.raises(TpucError, match="have no windows of 9 rows"):
        Arrays(window=9).open(DataRequest(data), Heard())
    with pytest.raises(TpucError, match=r"is a folder\. Give the npz file"):
        Arrays().open(DataRequest(tmp_path), Heard())
    (tmp_path / "bad.npz").write_bytes(b"PK not really")
    with pytest.raises(TpucError, match=r"bad\.npz: not a readable npz"):
        Arrays().open(DataRequest(tmp_path / "bad.npz"), Heard())


# Images with objects


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """Three images, two of them annotated, categories with ids 7 and 3."""
    for name in ("b.jpg", "a.jpg", "c.jpg"):
        image(tmp_path / "images" / name)
    boxes = [
        {"id": 1, "image_id": 20, "category_id": 7, "bbox": [1, 2, 3, 4], "area": 9.5, "iscrowd": 1},
        {"id": 2, "image_id": 20, "category_id": 3, "bbox": [0, 0, 2, 2]},
    ]
    content = {
        "images": [
            {"id": 20, "file_name": "b.jpg"},
            {"id": 10, "file_name": "a.jpg"},
            {"id": 30, "file_name": "d.jpg"},
        ],
        "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
        "annotations": boxes,
    }
    (tmp_path / "instances.json").write_text(json.dumps(content), "utf-8")
    return tmp_path


def test_objects_of_annotated_images(scene: Path) -> None:
    heard = Heard()
    samples = Coco().open(DataRequest(scene / "images", annotation=scene / "instances.json"), heard)
    assert [Path(samples.name(index)).name for index in range(len(samples))] == ["a.jpg", "b.jpg"]
    assert list(samples.classes) == ["cat", "dog"]
    none, some = samples.truth(0), samples.truth(1)
    assert isinstance(none, Objects)
    assert none.boxes.shape == (0, 4)
    np.testing.assert_array_equal(some.boxes, [[1, 2, 4, 6], [0, 0, 2, 2]])
    np.testing.assert_array_equal(some.classes, [1, 0])  # by their ids, 3 before 7
    np.testing.assert_array_equal(some.areas, [9.5, 4])
    np.testing.assert_array_equal(some.crowd, [True, False])
    assert heard == [
        f"1 of 3 images are not listed in {scene / 'instances.json'} and are skipped",
        f"1 of 3 listed images are not in {scene / 'images'} and are skipped",
    ]


def test_classes_of_networks_that_count_otherwise(scene: Path) -> None:
    request = DataRequest(scene / "images", annotation=scene / "instances.json")
    np.testing.assert_array_equal(Coco(ids=True).open(request, Heard()).truth(1).classes, [7, 3])
    names = scene / "names.txt"
    names.write_text("cow\ndog\ncat\n", "utf-8")
    named = DataRequest(scene / "images", names, scene / "instances.json", label_offset=1)
    samples = Coco().open(named, Heard())
    np.testing.assert_array_equal(samples.truth(1).classes, [2, 3])
    assert list(samples.classes) == ["", "cow", "dog", "cat"]
    names.write_text("cow\ndog\n", "utf-8")
    with pytest.raises(TpucError, match=r"names\.txt: no class is named 'cat', as in .*instances\.json\."):
        Coco().open(named, Heard())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a COCO annotation file"),
        ('{"images": [], "categories": [], "annotations": [{}]}', r"not a COCO annotation file \(KeyError: 'bbox'\)"),
        (
            '{"images": [], "categories": []}',
            "none of its images is listed in .*instances.json. Give the listed images",
        ),
    ],
)
def test_annotations_that_are_none(scene: Path, text: str, sentence: str) -> None:
    (scene / "instances.json").write_text(text, "utf-8")
    with pytest.raises(TpucError, match=sentence):
        Coco().open(DataRequest(scene / "images", annotation=scene / "instances.json"), Heard())


def test_coco_data_without_annotations(scene: Path) -> None:
    with pytest.raises(TpucError, match=r"needs annotations; add --annotation FILE\.json"):
        Coco().open(DataRequest(scene / "images"), Heard())


# Pascal VOC, WIDER FACE, YOLO

VOC_OBJECT = """<object><name>{}</name><difficult>{}</difficult>
<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"""


def voc(path: Path, *rows: tuple[Any, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "".join(VOC_OBJECT.format(*row) for row in rows)
    path.write_text(f"<annotation><filename>x</filename>{body}</annotation>", "utf-8")


def test_pascal_voc_as_published(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        image(tmp_path / "JPEGImages" / f"{name}.jpg", size=(20, 10))
    voc(tmp_path / "Annotations" / "a.xml", ("dog", 0, 1, 1, 10, 5), ("person", 1, 11, 6, 20, 10))
    voc(tmp_path / "Annotations" / "b.xml")
    heard = Heard()
    samples = Voc().open(DataRequest(tmp_path), heard)
    assert [Path(samples.name(index)).name for index in range(len(samples))] == ["a.jpg", "b.jpg"]
    assert heard == [f"1 of 3 images have no annotations in {tmp_path} and are skipped"]
    first = samples.truth(0)
    np.testing.assert_array_equal(first.boxes, [[0, 0, 10, 5], [10, 5, 20, 10]])  # pixels 1 to 10 and 1 to 5
    np.testing.assert_array_equal(first.classes, [11, 14])  # dog and person of the twenty
    np.testing.assert_array_equal((first.areas, first.crowd), [[50, 50], [False, True]])
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "val.txt").write_text("b\n", "utf-8")
    assert len(Voc(split="val").open(DataRequest(tmp_path), Heard())) == 1


def test_pascal_voc_with_other_classes(tmp_path: Path) -> None:
    image(tmp_path / "a.png")
    voc(tmp_path / "a.xml", ("mask", 0, 1, 1, 2, 2), ("bare", 0, 1, 1, 3, 3))
    samples = Voc().open(DataRequest(tmp_path, label_offset=1), Heard())
    assert (list(samples.classes), samples.truth(0).classes.tolist()) == (["", "bare", "mask"], [2, 1])
    names = tmp_path / "names.txt"
    names.write_text("mask\n", "utf-8")
    with pytest.raises(TpucError, match=r"names\.txt: no class is named 'bare', as in"):
        Voc().open(DataRequest(tmp_path, names), Heard())


@each(
    ("text", "sentence"),
    [
        ("<annotation><object>", r"a\.xml: not a Pascal VOC annotation \(no element found"),
        ("<annotation><object><name>x</name></object></annotation>", "an object without bndbox/xmin"),
    ],
)
def test_pascal_voc_that_is_none(tmp_path: Path, text: str, sentence: str) -> None:
    image(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(text, "utf-8")
    with pytest.raises(TpucError, match=sentence):
        Voc().open(DataRequest(tmp_path), Heard())


WIDER_LIST = """0--Parade/a.jpg
2
1 2 3 4 0 0 0 0 0 0
5 1 2 3 2 0 0 1 0 0
1--Hand/b.jpg
0
0 0 0 0 0 0 0 0 0 0
2--Far/c.jpg
1
0 0 2 2
"""


def test_wider_lists(tmp_path: Path) -> None:
    for name in ("0--Parade/a.jpg", "1--Hand/b.jpg", "2--Far/c.jpg"):
        image(tmp_path / "images" / name)
    listed = tmp_path / "list.txt"
    listed.write_text(WIDER_LIST, "utf-8")
    samples = Wider(least=3).open(DataRequest(tmp_path / "images", annotation=listed), Heard())
    found = [samples.truth(index) for index in range(len(samples))]
    np.testing.assert_array_equal(found[0].boxes, [[1, 2, 4, 6], [5, 1, 7, 4]])
    np.testing.assert_array_equal(found[0].crowd, [False, True])  # the second is marked invalid
    assert [len(one.boxes) for one in found] == [2, 0, 1]
    np.testing.assert_array_equal(found[2].crowd, [True])  # 2 pixels high
    assert list(samples.classes) == ["face"]


@each("text", ["a.jpg\n", "a.jpg\nx\n", "a.jpg\n2\n1 2 3 4\n", "a.jpg\n1\n1 2 3\n"])
def test_lists_that_are_none_of_wider(tmp_path: Path, text: str) -> None:
    image(tmp_path / "images" / "a.jpg")
    (tmp_path / "list.txt").write_text(text, "utf-8")
    with pytest.raises(TpucError, match="not a WIDER FACE list"):
        Wider().open(DataRequest(tmp_path / "images", annotation=tmp_path / "list.txt"), Heard())
    with pytest.raises(TpucError, match=r"needs a list of boxes; add --annotation FILE\.txt"):
        Wider().open(DataRequest(tmp_path / "images"), Heard())


@pytest.mark.parametrize("place", ["beside", "labels", "given"])
def test_yolo_files_of_fractions(tmp_path: Path, place: str) -> None:
    file = image(tmp_path / "images" / "val" / "a.png", size=(20, 10))
    image(tmp_path / "images" / "val" / "b.png")
    folder = {"beside": file.parent, "labels": tmp_path / "labels" / "val", "given": tmp_path / "txt"}[place]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.txt").write_text("3 0.5 0.5 0.5 0.4\n", "utf-8")
    heard = Heard()
    request = DataRequest(file.parent, annotation=folder if place == "given" else None)
    samples = Yolo().open(request, heard)
    assert len(samples) == 1
    assert heard[0].startswith("1 of 2 images have no annotations in")
    np.testing.assert_allclose(samples.truth(0).boxes, [[5, 3, 15, 7]], rtol=1e-12)  # rounds in the last place
    assert samples.truth(0).classes.tolist() == [3]
    (folder / "a.txt").write_text("3 0.5 0.5 0.5\n", "utf-8")
    with pytest.raises(TpucError, match=r"line '3 0\.5 0\.5 0\.5' is not CLASS X Y WIDTH HEIGHT"):
        Yolo().open(request, Heard())


def test_labels_that_are_no_text(folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_bytes(b"a.png \xff")
    with pytest.raises(TpucError) as caught:
        ImageNet().open(DataRequest(folder, labels), Heard())
    assert str(caught.value) == f"{labels}: is not a text file. Give --label-file lines 'FILE INDEX' or class names."
    labels.write_text("# nothing yet\n", "utf-8")
    with pytest.raises(TpucError, match=r"labels\.txt: empty file\. --label-file needs lines 'FILE INDEX'"):
        ImageNet().open(DataRequest(folder, labels), Heard())
