"""Arrays with labels in an npz file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tpuc.api import CalibrationError, UsageError
from tpuc.api.evaluation import Array, read_npz
from tpuc_driver.api.host import SampleInput, arranged, fingerprint, fit

from tpuc_eval.datasets.labels import IndexRange, index_range, read_labels
from tpuc_eval.protocols import DataRequest, DatasetType, LabeledSamples, Sample

PIXEL_CHANNELS = (1, 3, 4)
"""Channels of picture inputs: gray, color, color with alpha."""


@dataclass(frozen=True)
class Arrays(DatasetType):
    """`inputs` names the array of samples, `labels` that of class indices; the first axis of both is the sample. A
    network with several inputs reads each from the array of its name.

    Byte arrays with the shape of images are pixels, with channels first or last in the network's channel order: mean
    and scale are applied. All other arrays are used unchanged. `window` > 0: each sample gives one input per window of
    that many consecutive rows.
    """

    name = "arrays"
    metric = "top-k"
    inputs: str = "x"
    labels: str = "y"
    window: int = 0

    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabeledSamples:
        if request.path.is_dir():
            raise UsageError(f"{request.path}: is a folder. Give the npz file with the arrays as --dataset.")
        arrays = read_npz(request.path)
        labels = self._labels(arrays, request)
        others = {
            name: one for name, one in arrays.items() if name != self.labels and one.shape[:1] == labels.shape[:1]
        }
        inputs = self.inputs if self.inputs in arrays else next(iter(others), self.inputs)
        samples = self._array(arrays, inputs, request.path)
        if len(samples) == 0:
            raise CalibrationError(f"{request.path}: no samples in it: array {inputs!r} is {samples.shape}.")
        if labels.shape != samples.shape[:1]:
            raise CalibrationError(
                f"{request.path}: {samples.shape[0]} samples but labels of shape {labels.shape}. Give one label per "
                "sample."
            )
        if self.window < 0 or (self.window and (samples.ndim < 2 or samples.shape[1] < self.window)):
            raise UsageError(
                f"{request.path}: samples of shape {samples.shape[1:]} have no windows of {self.window} rows. "
                "Correct the option window."
            )
        count = request.count or None
        numbers = tuple(int(label) + request.label_offset for label in labels[:count])
        indices = index_range(request.path, map(int, labels), request.label_offset)
        is_named = inputs == self.inputs
        return LabeledArrays(request.path, samples[:count], numbers, indices, self.window, others, is_named)

    def _labels(self, arrays: Mapping[str, Array], request: DataRequest) -> Array:
        if request.label_file is not None and self.labels not in arrays:
            return np.array(read_labels(request.label_file).indices or [], np.int64)
        labels = self._array(arrays, self.labels, request.path)
        if labels.dtype.kind not in "iub":
            raise CalibrationError(f"{request.path}: labels {self.labels!r} are {labels.dtype}, not class indices.")
        return labels

    @staticmethod
    def _array(arrays: Mapping[str, Array], name: str, path: Path) -> Array:
        if name not in arrays or arrays[name].ndim < 1:
            raise CalibrationError(
                f"{path}: no array {name!r} with one entry per sample; there are {', '.join(arrays) or 'none'}. "
                "Name it: --dataset-type arrays{inputs=NAME,labels=NAME}."
            )
        return arrays[name]


@dataclass(frozen=True)
class LabeledArrays(LabeledSamples):
    """One array row and one class index per sample."""

    path: Path
    samples: Array
    labels: tuple[int, ...]
    indices: IndexRange
    window: int = 0
    others: Mapping[str, Array] = field(default_factory=dict[str, Array])
    is_named: bool = True
    """True if the user or the default names `samples`; otherwise that array is only counted."""

    def __len__(self) -> int:
        return len(self.samples)

    def name(self, index: int) -> str:
        return f"{self.path}[{index}]"

    def read(self, index: int, inputs: Sequence[SampleInput]) -> Sample:
        source, row = Path(self.name(index)), self.samples[index]
        if len(inputs) != 1 or not self.is_named:
            return self._by_name(index, inputs, source)
        parts = [row]
        if self.window:
            parts = [row[start : start + self.window] for start in range(len(row) - self.window + 1)]
        rows = tuple({inputs[0].name: _as_input(inputs[0], part, source, flat=self.window > 0)} for part in parts)
        return Sample(rows, given=tuple(parts))

    def _by_name(self, index: int, inputs: Sequence[SampleInput], source: Path) -> Sample:
        """Return a sample for each input from the array of its name."""
        missing = [one.name for one in inputs if one.name not in self.others]
        if missing:
            raise CalibrationError(
                f"{self.path}: no array {missing[0]!r} with one entry per sample for input {missing[0]!r}; there are "
                f"{', '.join(self.others) or 'none'}. Name each array as its input; with one input, name it by "
                "--dataset-type arrays{inputs=NAME}."
            )
        if self.window:
            raise UsageError(f"{self.path}: windows are of one input, the network has {len(inputs)}. Leave out window.")
        rows = {one.name: _as_input(one, self.others[one.name][index], source, flat=False) for one in inputs}
        return Sample((rows,), given=tuple(self.others[one.name][index] for one in inputs[:1]))

    def fingerprint(self, index: int) -> str:
        return fingerprint(self.samples[index])

    def truth(self, index: int) -> int:
        return self.labels[index]

    def refuse(self, classes: int) -> str:
        return self.indices.refuse(classes)

    def doubt(self, classes: int) -> str:
        return self.indices.doubt(classes)


def _as_input(one: SampleInput, row: Array, source: Path, *, flat: bool) -> Array:
    """Return one sample in the network's input shape; windows are flattened if the network has other dimensions."""
    pixels = _as_pixels(one, row, source)
    if pixels is not None:
        normalized = one.preprocess.normalize(pixels)
        row = normalized.transpose(2, 0, 1) if one.preprocess.layout == "nchw" else normalized
        return fit(one, row[None] if one.shape[0] == 1 else row, source)
    if flat and row.size == math.prod(one.shape[1:]):
        return fit(one, row.reshape(one.shape[1:]), source)
    return fit(one, arranged(one, row, source), source)


def _as_pixels(one: SampleInput, row: Array, source: Path) -> Array | None:
    """Return `[h, w, c]` bytes if the array is an image for this input, else None."""
    if row.dtype != np.uint8 or len(one.shape) != 4:
        return None
    layout = one.preprocess.layout
    channels, height, width = one.shape[1:] if layout == "nchw" else (one.shape[3], one.shape[1], one.shape[2])
    if channels not in PIXEL_CHANNELS:
        return None
    if row.shape == (height, width) and channels == 1:
        return row[:, :, None]
    last, first = row.shape == (height, width, channels), row.shape == (channels, height, width)
    if last and first and channels > 1 and one.layout.said is None:
        raise CalibrationError(
            f"{source}: pixels of shape {row.shape} fit with channels first and with channels last; choose with "
            "--input-layout nchw or --input-layout nhwc."
        )
    if last and not (first and one.layout.said == "nchw"):
        return row
    return row.transpose(1, 2, 0) if first else None
