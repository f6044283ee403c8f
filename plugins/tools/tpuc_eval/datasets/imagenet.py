"""Images with one class each: a folder per class, or a label file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import CalibrationError, UsageError

from tpuc_eval.datasets.images import ImageFiles, images_in
from tpuc_eval.datasets.labels import LabelFile, read_labels
from tpuc_eval.protocols import DataRequest, DatasetType, LabelledSamples

WAYS = "Give a folder per class, or --label-file with lines 'FILE INDEX'."


@dataclass(frozen=True)
class ImageNet(DatasetType):
    """The form of the ImageNet validation set."""

    name = "imagenet"
    metric = "top-k"

    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabelledSamples:
        files = images_in(request.path)
        if not files:
            raise CalibrationError(f"{request.path}: no images in it. {WAYS}")
        labels, classes = _labels(request, files)
        known = [(file, label) for file, label in zip(files, labels, strict=True) if label is not None]
        if not known:
            raise CalibrationError(f"{request.path}: no image in it has a label in {request.label_file}. {WAYS}")
        if len(known) < len(files):
            remark(f"{len(files) - len(known)} of {len(files)} images have no label in {request.label_file}: left out")
        known = known[: request.count or None]
        return LabelledImages(
            tuple(file for file, _ in known), tuple(label + request.label_offset for _, label in known), tuple(classes)
        )


@dataclass(frozen=True)
class LabelledImages(ImageFiles):
    """Image files with a class index each."""

    labels: tuple[int, ...]
    classes: Sequence[str] = ()

    def truth(self, index: int) -> int:
        return self.labels[index]


def _labels(request: DataRequest, files: Sequence[Path]) -> tuple[list[int | None], list[str]]:
    """The class index of every file, None where nothing is said, and the names of classes."""
    if request.label_file is None:
        names = sorted({_class_folder(file, request.path) for file in files})
        return _by_folder(files, request.path, {name: index for index, name in enumerate(names)}), names
    labels = read_labels(request.label_file)
    if labels.by_file:
        return [_of_file(labels, file, request.path) for file in files], []
    if labels.indices is not None:
        return _in_order(labels, labels.indices, files), []
    indices = {line.split()[0]: index for index, line in enumerate(labels.plain)}
    indices |= {line: index for index, line in enumerate(labels.plain)}
    return _by_folder(files, request.path, indices), list(labels.plain)


def _by_folder(files: Sequence[Path], folder: Path, indices: Mapping[str, int]) -> list[int | None]:
    return [indices.get(_class_folder(file, folder)) for file in files]


def _class_folder(file: Path, folder: Path) -> str:
    """The folder below `folder` that a file lies in."""
    parts = file.relative_to(folder).parts
    if len(parts) < 2:
        raise CalibrationError(f"{file}: lies in no class folder, so its class is unknown. {WAYS}")
    return parts[0]


def _of_file(labels: LabelFile, file: Path, folder: Path) -> int | None:
    """By the path from the data set's folder, or by the name alone, with or without its ending."""
    relative = file.relative_to(folder).as_posix()
    return next((labels.by_file[key] for key in (relative, file.name, file.stem) if key in labels.by_file), None)


def _in_order(labels: LabelFile, indices: Sequence[int], files: Sequence[Path]) -> list[int | None]:
    if len(indices) != len(files):
        raise UsageError(
            f"{labels.path}: {len(indices)} labels for {len(files)} images. Give one per image, or lines 'FILE INDEX'."
        )
    return list(indices)
