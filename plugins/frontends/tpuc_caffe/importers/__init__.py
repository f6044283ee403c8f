"""Importers of Caffe's layers, and of those of its well-known forks, into TOP; `TABLE` holds them all."""

from __future__ import annotations

from tpuc_caffe.importers import (
    activation,
    arrangement,
    boxes,
    convolution,
    detection,
    elementwise,
    normalisation,
    pooling,
    product,
    recurrent,
    resize,
    shape,
)
from tpuc_caffe.importers.common import TABLE

__all__ = [
    "TABLE",
    "activation",
    "arrangement",
    "boxes",
    "convolution",
    "detection",
    "elementwise",
    "normalisation",
    "pooling",
    "product",
    "recurrent",
    "resize",
    "shape",
]
