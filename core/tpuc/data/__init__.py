"""Sample data: folders, lists, npz and images as inputs of a network."""

from __future__ import annotations

from tpuc.data.images import CHANNELS, SUFFIXES, Placement, Preprocess, image_size
from tpuc.data.inputs import inputs_of, preprocess_from, preprocess_of, quantiser
from tpuc.data.samples import SampleInput, SampleReader, SampleSource, fit, open_samples
from tpuc.data.stored import quantise

__all__ = [
    "CHANNELS",
    "SUFFIXES",
    "Placement",
    "Preprocess",
    "SampleInput",
    "SampleReader",
    "SampleSource",
    "fit",
    "image_size",
    "inputs_of",
    "open_samples",
    "preprocess_from",
    "preprocess_of",
    "quantise",
    "quantiser",
]
