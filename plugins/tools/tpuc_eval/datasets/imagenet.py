"""Images with one class each: a folder per class, or a label file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import CalibrationError, UsageError

from tpuc_eval.datasets.folders import FolderClasses, Numbering, by_names_file, by_own_names
from tpuc_eval.datasets.images import ImageFiles, images_in
from tpuc_eval.datasets.labels import IndexRange, LabelFile, index_range, read_labels
from tpuc_eval.protocols import DataRequest, DatasetType, LabeledSamples

WAYS = "Give a folder per class, or --label-file with lines 'FILE INDEX'."


@dataclass(frozen=True)
class ImageNet(DatasetType):
    """The format of the ImageNet validation set."""

    name = "imagenet"
    metric = "top-k"

    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabeledSamples:
        files = images_in(request.path)
        if not files:
            raise CalibrationError(f"{request.path}: contains no images. {WAYS}")
        labels = None if request.label_file is None else read_labels(request.label_file)
        if labels is not None and (labels.by_file or labels.indices is not None):
            return _of_list(request, files, labels, remark)
        folders = _class_folders(request.path, files)
        if labels is None:
            classes = by_own_names(request.path, folders, request.label_offset, remark)
        else:
            offset = request.label_offset
            classes = by_names_file(request.path, folders, labels.path, labels.plain, offset, remark)
        found = [classes.indices.get(_class_folder(file, request.path)) for file in files]
        return _labeled(request, files, found, classes)


@dataclass(frozen=True)
class LabeledImages(ImageFiles):
    """Image files with one class index each."""

    labels: tuple[int, ...]
    numbering: Numbering | IndexRange
    classes: Sequence[str] = ()

    def truth(self, index: int) -> int:
        return self.labels[index]

    def refuse(self, classes: int) -> str:
        return self.numbering.refuse(classes)

    def doubt(self, classes: int) -> str:
        return self.numbering.doubt(classes)


def _labeled(
    request: DataRequest, files: Sequence[Path], labels: Sequence[int | None], classes: FolderClasses
) -> LabeledImages:
    """Return the images that have a class index."""
    known = [(file, label) for file, label in zip(files, labels, strict=True) if label is not None]
    known = known[: request.count or None]
    return LabeledImages(
        tuple(file for file, _ in known),
        tuple(label + request.label_offset for _, label in known),
        classes.numbering,
        tuple(classes.names),
    )


def _of_list(
    request: DataRequest, files: Sequence[Path], labels: LabelFile, remark: Callable[[str], None]
) -> LabeledImages:
    """Return images with the class indices listed in a file."""
    if labels.by_file:
        found = [_of_file(labels, file, request.path) for file in files]
    else:
        found = _in_order(labels, labels.indices or [], files)
    missing = found.count(None)
    if missing == len(files):
        raise CalibrationError(f"{request.path}: none of its images has a label in {request.label_file}. {WAYS}")
    if missing:
        remark(f"{missing} of {len(files)} images have no label in {request.label_file} and are skipped")
    indices = index_range(labels.path, labels.by_file.values() or labels.indices or [], request.label_offset)
    return _labeled(request, files, found, FolderClasses({}, [], indices))


def _class_folders(path: Path, files: Sequence[Path]) -> list[str]:
    """Return class folders by name, including empty ones, which count in the class order."""
    own = {folder.name for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(".")}
    return sorted(own | {_class_folder(file, path) for file in files})


def _class_folder(file: Path, folder: Path) -> str:
    """Return the folder below `folder` that contains a file."""
    parts = file.relative_to(folder).parts
    if len(parts) < 2:
        raise CalibrationError(f"{file}: not in a class folder, so its class is unknown. {WAYS}")
    return parts[0]


def _of_file(labels: LabelFile, file: Path, folder: Path) -> int | None:
    """Look an image up by its path in the data set, by its file name with or without suffix, or by its folder."""
    relative = file.relative_to(folder)
    keys = (relative.as_posix(), file.name, file.stem, relative.parts[0])
    return next((labels.by_file[key] for key in keys if key in labels.by_file), None)


def _in_order(labels: LabelFile, indices: Sequence[int], files: Sequence[Path]) -> list[int | None]:
    if len(indices) != len(files):
        raise UsageError(
            f"{labels.path}: {len(indices)} labels for {len(files)} images. Give one per image, or lines 'FILE INDEX'."
        )
    return list(indices)
