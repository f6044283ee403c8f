"""The rows of the accuracy table: networks with data, what counts as right, and what the vendor's compiler reaches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import CALIBRATION_TABLE
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc.ir import Module
from tpuc.schedule import PassManager
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session

from tests.models.mean_precision import mean_average_precision
from tests.models.measures import TASKS, Outputs, Task, center_crop, image_files, image_labels, load_rgb, nchw

Array = NDArray[Any]
Score = Callable[[Sequence[Outputs], Path], float]


@dataclass(frozen=True)
class Vendor:
    """What the vendor's compiler reaches in int8: `score` as the row counts, SQNR in dB before the final Softmax and of
    the worst output, samples on which the answer is that of the float network (0: not known).
    """

    score: float
    output_db: float
    logits_db: float = math.nan
    agree: int = 0


@dataclass(frozen=True)
class Row:
    """`model`: a file, or a folder with a Caffe network. `answer` is what float and int8 have to agree on; `score`
    replaces the count of right answers. `batch`: samples that run at once.
    """

    model: str
    calibration: Callable[[Path], list[Array]]
    samples: Callable[[Path], list[Array]]
    right: Callable[[Path], Callable[[Outputs, int], bool]] | None
    answer: Callable[[Outputs], object] | None
    vendor: Mapping[str, Vendor]
    score: Score | None = None
    batch: int = 1


@dataclass
class Measured:
    """Score of float and int8, agreement, and pooled signal to noise per tensor in dB."""

    score_float: float
    score: float
    agree: int
    samples: int
    output_db: dict[str, float] = field(default_factory=dict[str, float])
    logits_db: float = math.nan


def _npz(name: str, part: str, scale: float = 1.0) -> Callable[[Path], list[Array]]:
    def read(data: Path) -> list[Array]:
        with np.load(data / f"{name}_{part}.npz") as arrays:
            x = arrays["x"]
        x = x[..., None] if x.ndim == 3 else x
        return list(np.ascontiguousarray(x.transpose(0, 3, 1, 2)[:, None], np.float32) * np.float32(scale))

    return read


_WINDOWS = 196
"""Of a clip."""


def _windows(part: str) -> Callable[[Path], list[Array]]:
    """Five frames of 128 bins in a row, from every place of a clip where they are there."""

    def read(data: Path) -> list[Array]:
        with np.load(data / f"ad01_{part}.npz") as arrays:
            clips = arrays["x"]
        return [clip[start : start + 5].reshape(1, 640) for clip in clips for start in range(_WINDOWS)]

    return read


def clip_errors(outputs: Sequence[Outputs], data: Path) -> Array:
    """How badly each clip of the anomaly data is rebuilt: its score."""
    errors = [float(((one[0] - w) ** 2).mean()) for one, w in zip(outputs, _windows("eval")(data), strict=True)]
    return np.array(errors).reshape(-1, _WINDOWS).mean(axis=1)


def _anomaly_auc(outputs: Sequence[Outputs], data: Path) -> float:
    with np.load(data / "ad01_eval.npz") as arrays:
        labels = arrays["y"]
    scores = clip_errors(outputs, data)
    bad, good = scores[labels == 1][:, None], scores[labels == 0][None]
    return float(((bad > good) + 0.5 * (bad == good)).mean())


def _top(outputs: Outputs) -> object:
    return int(np.argmax(outputs[0]))


def _labeled(name: str) -> Callable[[Path], Callable[[Outputs, int], bool]]:
    def open_labels(data: Path) -> Callable[[Outputs, int], bool]:
        with np.load(data / f"{name}_eval.npz") as arrays:
            return _right_of(arrays["y"].tolist())

    return open_labels


def _right_of(labels: Sequence[int]) -> Callable[[Outputs, int], bool]:
    return lambda outputs, index: _top(outputs) == labels[index]


def _array_row(model: str, name: str, vendor: Mapping[str, Vendor], scale: float = 1.0) -> Row:
    return Row(model, _npz(name, "calib", scale), _npz(name, "eval", scale), _labeled(name), _top, vendor)


def _task_row(name: str, vendor: Mapping[str, Vendor], score: Score | None = None) -> Row:
    task: Task = TASKS[name]

    def open_labels(data: Path) -> Callable[[Outputs, int], bool]:
        labels = task.labels(data)
        return lambda outputs, index: bool(task.right(outputs, labels[index]))

    def finds(outputs: Outputs) -> object:
        return bool(task.right(outputs, 1))

    answer = _top if name.startswith("mobilenet") else finds
    right = None if score is not None else open_labels
    return Row(
        f"onnx/{task.file}", task.calibration, task.samples, right, None if score is not None else answer, vendor, score
    )


_MEANS = np.array([104, 117, 123], np.float32).reshape(1, 3, 1, 1)
"""Of blue, green and red."""


def _imagenet(part: str) -> Callable[[Path], list[Array]]:
    def read(data: Path) -> list[Array]:
        files = image_files(data / f"imagenet_{part}")
        return [nchw(center_crop(load_rgb(path), 227), bgr=True) - _MEANS for path in files]

    return read


def _tiny(file: str) -> str:
    return f"tflite/mlperf_tiny/{file}_float32.tflite"


ROWS: Mapping[str, Row] = {
    "mnist": _array_row(
        "onnx/mnist.onnx", "mnist", {"bm1684x": Vendor(198, 35.1, agree=200), "cv183x": Vendor(198, 34.3)}
    ),
    "ic01": _array_row(
        _tiny("ic01_resnet8"),
        "ic01",
        {"bm1684x": Vendor(162, 26.4, 31.4, 194), "cv183x": Vendor(164, 23.2, 28.3)},
    ),
    "kws01": _array_row(
        _tiny("kws01_dscnn"), "kws01", {"bm1684x": Vendor(176, 22.8, 24.5, 199), "cv183x": Vendor(177, 21.5, 24.1)}
    ),
    "vww01": _array_row(
        _tiny("vww01_mobilenet025_96"),
        "vww01",
        {"bm1684x": Vendor(170, 31.3, 25.3, 198), "cv183x": Vendor(170, 27.8, 22.1)},
        1 / 255,
    ),
    "ad01": Row(
        _tiny("ad01_autoencoder"),
        _windows("calib"),
        _windows("eval"),
        None,
        None,
        {"bm1684x": Vendor(0.9000, 31.9), "cv183x": Vendor(0.9050, 31.7)},
        _anomaly_auc,
        _WINDOWS,
    ),
    "mobilenet_v1": _task_row("mobilenet_v1", {"bm1684x": Vendor(38, 10.5, 14.6, 49), "cv183x": Vendor(37, 9.2, 12.7)}),
    "mobilenet_v2": _task_row(
        "mobilenet_v2", {"bm1684x": Vendor(55, 22.2, 15.9, 60), "cv183x": Vendor(55, 20.4, 14.4)}
    ),
    "blazeface": _task_row("blazeface", {"bm1684x": Vendor(39, 24.6, agree=39), "cv183x": Vendor(39, 22.3, agree=39)}),
    "ultraface": _task_row("ultraface", {"bm1684x": Vendor(38, 35.3, 19.2, 38), "cv183x": Vendor(37, 35.0, 19.1, 37)}),
    "yunet": _task_row("yunet", {"bm1684x": Vendor(39, 3.2, agree=39), "cv183x": Vendor(39, 3.2, agree=39)}),
    "yolox": _task_row(
        "yolox",
        {"bm1684x": Vendor(0.337, 7.3), "cv183x": Vendor(0.306, 7.2)},
        lambda outputs, data: mean_average_precision([one[0] for one in outputs], data / "coco", 416),
    ),
    "squeezenet": Row(
        "caffe/squeezenet_v1.0_deepcompressed",
        _imagenet("calib"),
        _imagenet("eval"),
        lambda data: _right_of(image_labels(data / "imagenet_eval")),
        _top,
        {"bm1684x": Vendor(39, 25.3, agree=54), "cv183x": Vendor(39, 20.4)},
    ),
    "lenet": _array_row(
        "caffe/lenet_mnist",
        "mnist",
        {"bm1684x": Vendor(198, 50.1, 37.8, 200), "cv183x": Vendor(198, 49.9, 37.3)},
        1 / 256,
    ),
}


def load(row: Row, model_data: Path, batch: int = 1) -> Module:
    """The optimized TOP module of a row."""
    path, weights = model_data / row.model, None
    if path.is_dir():
        (weights,), (path,) = path.glob("*.caffemodel"), path.glob("*.prototxt")
    return Session().transform(path, model_data=weights, batch=batch)


def calibrate(
    row: Row,
    module: Module,
    model_data: Path,
    work: Path,
    method: str = "kld",
    options: Mapping[str, Any] | None = None,
) -> Any:
    """The calibration table of a row."""
    (spec,) = inputs_of(module)
    samples = work / "samples.npz"
    arrays: dict[str, Any] = {spec.name: np.stack(row.calibration(model_data / "data"))}
    np.savez(samples, **arrays)
    return Session().calibrate(module, dataset=samples, method=method, options=options)


def lower(module: Module, chip: str, table: Any, mode: str | None = "int8") -> Module:
    """The module for a chip, before memory is planned; without a mode as its network says."""
    session = Session(chip=chip, quantize=mode)
    lowered = module.clone()
    manager = PassManager(session.context({CALIBRATION_TABLE: table}, session.mode_for(lowered)))
    for stage in (*(("calibrate",) if (mode or "").startswith("int8") else ()), "lower", "tpu-optimize"):
        manager.run_pipeline(stage, lowered)
    return lowered


def logits_of(module: Module) -> str:
    """What the final Softmax takes, if there is one."""
    return next((o.operands[0].name for o in module.main.operations if o.op.name == "top.Softmax"), "")


def run(module: Module, names: Sequence[str], samples: Sequence[Array]) -> list[dict[str, Array]]:
    """Real values of the outputs and of `names` for every sample, on the host (simulators give the same integers).

    As many samples at once as the module takes; a sample has one of everything.
    """
    host, types = Interpreter(module), types_of(module)
    results: list[dict[str, Array]] = []
    ((name, type_),) = host.inputs.items()
    batch = type_.dims[0]
    for start in range(0, len(samples), batch):
        x = np.concatenate([one.reshape(1, *type_.dims[1:]) for one in samples[start : start + batch]])
        values = host.run({name: x}, names)
        real = {key: real_values(array, types[key]) for key, array in values.items()}
        if batch == 1:
            results.append(real)
        else:
            results += [{key: array[index : index + 1] for key, array in real.items()} for index in range(batch)]
    return results


def measure(row: Row, module: Module, exact: Sequence[Mapping[str, Array]], lowered: Module, data: Path) -> Measured:
    """Both networks' results on the samples of a row; `exact` are those of the float one."""
    logits = logits_of(module)
    kept = [logits] if logits else []
    got = run(lowered, kept, row.samples(data))
    names = [Interpreter(one).output_names for one in (module, lowered)]
    pairs = [*zip(*names, strict=True), *((name, name) for name in kept)]
    power = {name: [0.0, 0.0] for name, _ in pairs}
    for wanted, one in zip(exact, got, strict=True):
        for name, other in pairs:
            reference = wanted[name].astype(np.float64)
            error = one[other].reshape(reference.shape) - reference
            power[name][0] += float((reference**2).sum())
            power[name][1] += float((error**2).sum())
    sqnr = {name: 10 * math.log10(signal / noise) if noise else math.inf for name, (signal, noise) in power.items()}
    outputs = [[[one[name] for name in mine] for one in run] for run, mine in zip((exact, got), names, strict=True)]
    if row.score is not None:
        scores = [row.score(one, data) for one in outputs]
    else:
        assert row.right is not None
        right = row.right(data)
        scores = [float(sum(right(one, index) for index, one in enumerate(run))) for run in outputs]
    agree = 0
    if row.answer is not None:
        agree = sum(row.answer(a) == row.answer(b) for a, b in zip(*outputs, strict=True))
    result = Measured(scores[0], scores[1], agree, len(got))
    result.logits_db = sqnr.pop(logits) if logits and logits not in names[0] else math.nan
    result.output_db = sqnr
    return result
