"""Sample data: folders, lists, npz and images as inputs of a network."""

from __future__ import annotations

from tpuc.data.images import Preprocess
from tpuc.data.inputs import inputs_of
from tpuc.data.samples import SampleInput, SampleSource, open_samples

__all__ = ["Preprocess", "SampleInput", "SampleSource", "inputs_of", "open_samples"]
