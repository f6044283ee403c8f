"""Trained networks give the outputs that another engine gave, and published architectures can be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import ImportOptions
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.session import Session
from tpuc_caffe.frontend import FRONTEND

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
    "bvlc_googlenet": 6_998_552,
    "cifar10_quick": 145_578,
    "mobilenet_v1": 4_231_976,
}


@pytest.mark.parametrize("name", TRAINED)
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


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_with_random_weights(name: str, model_data: Path) -> None:
    path = model_data / "caffe_arch" / f"{name}.prototxt"
    module = FRONTEND.read(path, ImportOptions(name, random_weights=True), Registry())
    module.verify()
    kernels = [o for o in module.walk() if o.op.name in ("top.Conv", "top.MatMul", "top.Scale")]
    count = sum(module.weights[v.name].size for o in kernels for v in o.operands[1:] if v.name in module.weights)
    assert count == ARCHITECTURES[name]
