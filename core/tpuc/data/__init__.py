"""Sample data: folders, lists, npz and what readers read as inputs of a network."""

from __future__ import annotations

from tpuc.data.inputs import inputs_of, preprocess_from, preprocess_of, quantiser
from tpuc.data.preprocess import Preprocess, Reader, centre_crop
from tpuc.data.samples import SampleInput, SampleReader, SampleSource, fit, has_reader, open_samples
from tpuc.data.stored import quantise

__all__ = [
    "Preprocess",
    "Reader",
    "SampleInput",
    "SampleReader",
    "SampleSource",
    "centre_crop",
    "fit",
    "has_reader",
    "inputs_of",
    "open_samples",
    "preprocess_from",
    "preprocess_of",
    "quantise",
    "quantiser",
]
