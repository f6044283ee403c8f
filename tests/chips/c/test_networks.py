"""Trained networks in C on labeled samples: integers as the evaluation has them, pools as small as the bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tflite
from PIL import Image
from tpuc.api import Module, Uniform
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Boundary, Session

from tests.chips.c.programs import needs_compiler, needs_lowerings
from tests.families import each

pytestmark = [needs_lowerings, needs_compiler]
Array: TypeAlias = npt.NDArray[Any]
SAMPLES = 20
FLOATS = 1e-6
"""Of the largest value: functions of floats behind the integers differ by their last bits between libraries."""


def images(name: str, scale: float = 1.0) -> Callable[[Path], Array]:
    """Of an npz, with channels first."""

    def load(data: Path) -> Array:
        with np.load(data / name) as content:
            return content["x"][:SAMPLES].astype(np.float32).transpose(0, 3, 1, 2) * np.float32(scale)

    return load


def windows_of_sound(data: Path) -> Array:
    with np.load(data / "ad01_eval.npz") as content:
        return content["x"][:SAMPLES, :5].reshape(SAMPLES, -1).astype(np.float32)


def digits(data: Path) -> Array:
    """A batch of 64 for each sample."""
    with np.load(data / "mnist_eval.npz") as content:
        x = content["x"].astype(np.float32)[:, None] / 256
    return np.stack([x[first : first + 64] for first in range(SAMPLES)])


def portraits(data: Path) -> Array:
    files = sorted((data / "lfw").iterdir())[:SAMPLES]
    rows = [np.asarray(Image.open(path).convert("RGB").resize((320, 320)), np.float32) for path in files]
    return np.stack(rows).transpose(0, 3, 1, 2)[:, ::-1]


def pictures(side: int, count: int = SAMPLES) -> Callable[[Path], Array]:
    """Everyday pictures, from -1 to 1; of large networks few, which take seconds each in the evaluation."""

    def load(data: Path) -> Array:
        files = sorted((data / "imagenet_calib").glob("*.JPEG"))[:count]
        rows = [np.asarray(Image.open(path).convert("RGB").resize((side, side)), np.float32) for path in files]
        return np.stack(rows).transpose(0, 3, 1, 2) / np.float32(127.5) - np.float32(1)

    return load


@dataclass(frozen=True)
class Subject:
    """A network file, its samples, and whether its outputs are integers up to the last cast."""

    path: str
    samples: Callable[[Path], Array]
    exact: bool
    weights: str | None = None


TINY = "tflite/mlperf_tiny"
SUBJECTS = {
    "resnet8": Subject(f"{TINY}/ic01_resnet8_int8.tflite", images("ic01_eval.npz"), True),
    "kws": Subject(f"{TINY}/kws01_dscnn_int8.tflite", images("kws01_eval.npz"), True),
    "vww": Subject(f"{TINY}/vww01_mobilenet025_96_int8.tflite", images("vww01_eval.npz", 1 / 255), True),
    "ad01": Subject(f"{TINY}/ad01_autoencoder_int8.tflite", windows_of_sound, True),
    "mobilenet_v1": Subject("tflite/mobilenet_v1_0.25_128_quant.tflite", pictures(128), True),
    "mobilenet_v2": Subject("tflite/mobilenet_v2_1.0_224_quant.tflite", pictures(224, 5), True),
    "lenet": Subject("caffe/lenet_mnist/deploy.prototxt", digits, False, "caffe/lenet_mnist/lenet.caffemodel"),
    "yunet": Subject("onnx/yunet_n_320.onnx", portraits, False),
}


FLOAT_ENDS = Boundary(float_input=True, float_output=True)


def table_of(session: Session, module: Module, rows: Array, folder: Path) -> Any:
    """Ranges of the first samples, where the network states none."""
    if session.mode is None:
        return None
    (name,) = (operation.result.name for operation in module.main.operations if operation.op.name == "top.Input")
    np.savez(folder / "samples.npz", **{name: rows})
    options = {"tune_num": 0, "bias_num": 0}
    return session.calibrate(module, dataset=folder / "samples.npz", method="max", options=options)


@each("name", SUBJECTS)
def test_outputs_are_those_of_the_evaluation(name: str, model_data: Path, tmp_path: Path) -> None:
    subject = SUBJECTS[name]
    session = Session(chip="c", quantize=None if subject.exact else "int8")
    weights = None if subject.weights is None else model_data / subject.weights
    module = session.transform(model_data / subject.path, model_data=weights)
    x = np.ascontiguousarray(subject.samples(model_data / "data"))
    plan = session.build(module, table_of(session, module, x[:4], tmp_path), boundary=FLOAT_ENDS)
    assert plan.memory_plan is not None
    assert [pool.peak_bytes for pool in plan.memory_plan.pools] == [p.bound_bytes for p in plan.memory_plan.pools]
    loaded = session.chip.load(plan.data, name)
    evaluation = Interpreter(plan.module)
    for row in x:
        inputs = {loaded.inputs[0].name: row.reshape(loaded.inputs[0].shape)}
        wanted, got = evaluation.run(inputs), loaded.run(inputs)
        for output, array in wanted.items():
            bound = 0.0 if subject.exact else FLOATS * float(np.abs(array).max())
            assert np.abs(got[output] - array).max() <= bound, (name, output)


@each("name", [name for name, subject in SUBJECTS.items() if subject.exact])
def test_integers_of_a_file_stay_integers(name: str, model_data: Path) -> None:
    """Those of the file itself, as a reader of its own says; what they mean is what a network with float ends gives."""
    subject = SUBJECTS[name]
    graph = tflite.Model.GetRootAsModel((model_data / subject.path).read_bytes(), 0).Subgraphs(0)
    session = Session(chip="c")
    module = session.transform(model_data / subject.path)
    row = np.ascontiguousarray(subject.samples(model_data / "data"))[:1]
    loaded, floats = (
        session.chip.load(session.build(module, boundary=boundary).data, name) for boundary in (None, FLOAT_ENDS)
    )
    for info, number in ((loaded.inputs[0], graph.Inputs(0)), (loaded.outputs[0], graph.Outputs(0))):
        stated, element = graph.Tensors(number), info.element
        assert isinstance(element, Uniform)
        kind = {tflite.TensorType.INT8: "i8", tflite.TensorType.UINT8: "u8"}[stated.Type()]
        quantization = stated.Quantization()
        assert (f"{element.storage}", element.zero_point) == (kind, quantization.ZeroPoint(0))
        assert np.float32(element.scale) == np.float32(quantization.Scale(0))
    given, out = loaded.inputs[0].element, loaded.outputs[0].element
    assert isinstance(given, Uniform)
    assert isinstance(out, Uniform)
    dtype = np.dtype(np.uint8 if given.storage.is_unsigned else np.int8)
    limits = np.iinfo(dtype)
    stored = np.clip(np.rint(row / given.scale) + given.zero_point, limits.min, limits.max).astype(dtype)
    meant = ((stored.astype(np.float32) - given.zero_point) * np.float32(given.scale)).reshape(loaded.inputs[0].shape)
    (got,) = loaded.run({loaded.inputs[0].name: stored.reshape(loaded.inputs[0].shape)}).values()
    (wanted,) = floats.run({floats.inputs[0].name: meant}).values()
    assert got.dtype.kind in "iu"
    assert ((got.astype(np.float32) - out.zero_point) * np.float32(out.scale)).tolist() == wanted.tolist()
