"""Small networks with random weights, built like the well-known ones that people compile."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
from tpuc.api import Op
from tpuc_driver.session import Session

from tests.models.zoo.classifiers import CLASSIFIERS
from tests.models.zoo.detectors import DETECTORS
from tests.models.zoo.extents import EXTENTS
from tests.models.zoo.sequences import SEQUENCES

NETWORKS = {**CLASSIFIERS, **DETECTORS, **SEQUENCES, **EXTENTS}
"""By name: a function that makes the ONNX model."""


def ops_of_networks() -> list[Op]:
    """The TOP ops that the networks consist of."""
    ops: list[Op] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make in NETWORKS.items():
            path = Path(folder) / f"{name}.onnx"
            onnx.save(make(), path)
            ops += [operation.op for operation in Session().transform(path).main.operations]
    return ops


__all__ = ["NETWORKS", "ops_of_networks"]
