"""Calibration against ONNX Runtime: images per second of whole calibrations, side by side.

`python benchmarks/calibration.py --model-data DIR`: 100 images of ResNet-8 and 40 of mobilenet_v2, each method of ours
alone and with tuning and bias correction as `tpuc calibrate` does, in one thread; ONNX Runtime with its own default.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tpuc.data import Preprocess, inputs_of
from tpuc.session import Session
from tpuc.work import one_blas_thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.models import resnet8
from tests.models.datasets import calibration_set

METHODS = {"max": "MinMax", "kld": "Entropy", "percentile": "Percentile"}


class Reader:
    """Feeds samples to ONNX Runtime's calibrators."""

    def __init__(self, name: str, images: Any) -> None:
        self._rows = iter([{name: row} for row in images])

    def get_next(self) -> Any:
        return next(self._rows, None)

    def __iter__(self) -> Any:
        return self._rows


def theirs(model: Path, name: str, images: Any, method: str, work: Path) -> float:
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    start = perf_counter()
    calibrator = create_calibrator(
        str(model), augmented_model_path=str(work / "augmented.onnx"), calibrate_method=CalibrationMethod[method]
    )
    calibrator.collect_data(Reader(name, images))
    calibrator.compute_data()
    return perf_counter() - start


def ours(session: Session, module: Any, samples: Path, method: str, options: dict[str, Any]) -> float:
    start = perf_counter()
    with one_blas_thread():
        session.calibrate(module, dataset=samples, method=method, options=options)
    return perf_counter() - start


def measure(title: str, model: Path, images: Any, work: Path) -> None:
    session = Session()
    module = session.transform(model)
    (spec,) = inputs_of(module)
    images = images.reshape(-1, *spec.shape)
    samples = work / "samples.npz"
    np.savez(samples, **{spec.name: images})
    print(f"\n{title}: {len(images)} images")
    head = ("ours img/s", "with all img/s", "ort img/s", "ours / ort time", "all / ort time")
    print(f"{'method':12}" + "".join(f"{text:>18}" for text in head))
    for method, other in METHODS.items():
        plain = ours(session, module, samples, method, {"tune_num": 0, "bias_num": 0})
        everything = ours(session, module, samples, method, {})
        reference = theirs(model, spec.name, images, other, work)
        speeds = [len(images) / seconds for seconds in (plain, everything, reference)]
        figures = [f"{speed:.1f}" for speed in speeds]
        figures += [f"{plain / reference:.2f}", f"{everything / reference:.2f}"]
        print(f"{method:12}" + "".join(f"{figure:>18}" for figure in figures), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-data", type=Path, required=True)
    data: Path = parser.parse_args().model_data
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        small = work / "resnet8.onnx"
        small.write_bytes(resnet8.from_tflite(data / resnet8.SOURCE).SerializeToString())
        measure("ResNet-8", small, calibration_set("ic01", data), work)
        preprocess = Preprocess(mean=(127.5,) * 3, scale=(1 / 127.5,) * 3, pixel_format="rgb")
        files = sorted((data / "data" / "imagenet_calib").glob("*.JPEG"))
        images = np.concatenate([preprocess(file, (1, 3, 224, 224)) for file in files])
        measure("mobilenet_v2", data / "onnx" / "mobilenet_v2_1.0_224_dequant.onnx", images, work)
    print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
