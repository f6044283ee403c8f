"""Small networks with random weights, built like the well-known ones that people compile."""

from __future__ import annotations

from tests.models.zoo.classifiers import CLASSIFIERS
from tests.models.zoo.detectors import DETECTORS
from tests.models.zoo.sequences import SEQUENCES

NETWORKS = {**CLASSIFIERS, **DETECTORS, **SEQUENCES}
"""By name: a function that makes the ONNX model."""

__all__ = ["NETWORKS"]
