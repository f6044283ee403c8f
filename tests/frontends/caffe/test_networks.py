"""Trained networks give the outputs that another engine gave, and published architectures can be read."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import ImportOptions
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_caffe.frontend import FRONTEND
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.caffe.files import Array
from tests.models.measures import center_crop, load_rgb

TRAINED = (
    "lenet_mnist",
    "mtcnn_det1",
    "mtcnn_det2",
    "mtcnn_det3",
    "squeezenet_v1.0_deepcompressed",
    "ultraface_slim_320",
)
# Trainable parameters as published for these architectures.
ARCHITECTURES = {
    "bvlc_alexnet": 60_965_224,
    "bvlc_caffenet": 60_965_224,
    "bvlc_googlenet": 6_998_552,
    "cifar10_quick": 145_578,
    "mobilenet_v1": 4_231_976,
    # As published, and an expansion from 32 to 32 channels with its normalization in the first block of this version.
    "mobilenet_v2": 3_504_872 + 32 * 32 + 2 * 32,
}


@each("name", TRAINED)
def test_outputs_of_trained_networks(name: str, model_data: Path) -> None:
    folder = model_data / "caffe" / name
    (text,), (weights,) = folder.glob("*.prototxt"), folder.glob("*.caffemodel")
    with np.load(model_data / "ref" / "caffe" / f"{name}.npz") as stored:
        reference = dict(stored)
    names = [[str(one) for one in reference[f"{end}_names"]] for end in ("in", "out")]
    shapes = [reference[f"in{index}"].shape[1:] for index in range(len(names[0]))]
    interpreter = Interpreter(Session().transform(text, model_data=weights, input_shapes=shapes))
    for sample in range(len(reference["in0"])):
        results = interpreter.run({one: reference[f"in{index}"][sample] for index, one in enumerate(names[0])})
        for index, one in enumerate(names[1]):
            got, wanted = (
                array.astype(np.float64).reshape(-1) for array in (results[one], reference[f"out{index}"][sample])
            )
            cosine = got @ wanted / np.sqrt((got @ got) * (wanted @ wanted))
            assert cosine >= 0.99999, one  # float32 sums in another order


@each("name", ARCHITECTURES)
def test_architectures_with_random_weights(name: str, model_data: Path) -> None:
    path = model_data / "caffe_arch" / f"{name}.prototxt"
    module = FRONTEND.read(path, ImportOptions(name, random_weights=True), Registry())
    module.verify()
    kernels = [o for o in module.walk() if o.op.name in ("top.Conv", "top.MatMul", "top.Scale")]
    count = sum(module.weights[v.name].size for o in kernels for v in o.operands[1:] if v.name in module.weights)
    assert count == ARCHITECTURES[name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "floor"), [("lenet_mnist", 198), ("squeezenet_v1.0_deepcompressed", 39)])
def test_int8_keeps_the_right_answers(name: str, floor: int, model_data: Path, tmp_path: Path) -> None:
    """Of 200 digits and of 60 images; the floors are what the vendor's own compiler reaches."""
    folder, data = model_data / "caffe" / name, model_data / "data"
    (text,), (weights,) = folder.glob("*.prototxt"), folder.glob("*.caffemodel")
    calibration, samples, labels = _digits(data) if name == "lenet_mnist" else _images(data)
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(text, model_data=weights, batch=1)
    np.savez(tmp_path / "samples.npz", data=np.concatenate(calibration))
    final = session.build(module, session.calibrate(module, dataset=tmp_path / "samples.npz")).module
    interpreter = Interpreter(final)
    outputs = [interpreter.run({"data": x})[interpreter.output_names[0]] for x in samples]
    assert sum(int(y.argmax()) == label for y, label in zip(outputs, labels, strict=True)) >= floor


def _digits(data: Path) -> tuple[list[Array], list[Array], list[int]]:
    with np.load(data / "mnist_calib.npz") as calibration, np.load(data / "mnist_eval.npz") as samples:
        made = [
            [(x.astype(np.float32) / 256).reshape(1, 1, 28, 28) for x in stored]
            for stored in (calibration["x"][:50], samples["x"])
        ]
        return made[0], made[1], samples["y"].tolist()


def _images(data: Path) -> tuple[list[Array], list[Array], list[int]]:
    def prepared(path: Path) -> Array:
        pixels = center_crop(load_rgb(path), 227)[..., ::-1].astype(np.float32) - np.float32([104, 117, 123])
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])

    with (data / "imagenet_eval" / "labels.tsv").open(encoding="utf-8") as stream:
        labels = {row["file"]: int(row["index"]) for row in csv.DictReader(stream, delimiter="\t")}
    calibration = sorted((data / "imagenet_calib").glob("*.JP*G")) or sorted((data / "imagenet_calib").glob("*.jp*g"))
    samples = [data / "imagenet_eval" / name for name in sorted(labels)]
    return [prepared(p) for p in calibration[:20]], [prepared(p) for p in samples], [labels[p.name] for p in samples]
