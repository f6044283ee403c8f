"""Sample sources: folders and lists of .npy, .npz and what readers read, as named arrays in the network's input shapes.

How many samples an array holds, dimensions of size 1 aside:
- exactly the input's shape: one sample;
- `[s, *input shape]`, or `[s, ...]` followed by the input's shape without its batch: `s` samples.
Arrays may lie otherwise than the input, as `ArrayLayout` says.
A sample without batch fills every place of the batch of a network with a larger one.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.errors import CalibrationError
from tpuc.ir.dtypes import shown
from tpuc.ir.types import DYNAMIC
from tpuc.names import nearest
from tpuc.npy import read_header
from tpuc.npz import ARCHIVE_ERRORS, array_name, open_entry
from tpuc.registry import Registry

from tpuc_driver.data.alternatives import Alternative
from tpuc_driver.data.description import check_described
from tpuc_driver.data.preprocess import Reader
from tpuc_driver.data.rows import ArrayRows
from tpuc_driver.data.sample_input import Array, SampleInput, Shape
from tpuc_driver.data.sets import SampleSet, interleaved, sets_of

Sample = dict[str, Array]

READERS = "tpuc.readers"
ANY_SHAPE: Shape = (DYNAMIC - 1,)
"""The shape of inputs with any number of dimensions."""
ARRAYS = frozenset({".npy", ".npz"})
"""Suffixes of array files."""
VIDEOS = frozenset({".avi", ".mkv", ".mov", ".mp4", ".webm"})
"""Suffixes of video files, which users may take for samples."""


@dataclass(frozen=True)
class SamplePart:
    """The origin of one input of a sample: a file, the array in it (npz) and its row."""

    file: Path
    array: str = ""
    row: int | None = None


@dataclass(frozen=True)
class SampleSource:
    """All samples in a fixed order, read on demand; some rows per input are cached."""

    inputs: tuple[SampleInput, ...]
    samples: tuple[tuple[SamplePart, ...], ...]
    registry: Registry = field(default_factory=Registry, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        reader = SampleReader(self)
        for index in range(len(self)):
            yield reader.read(index)

    def __getstate__(self) -> dict[str, Any]:
        """Make paths absolute for another process with another working folder."""
        files = {part.file: part.file.resolve() for parts in self.samples for part in parts}
        found = tuple(tuple(replace(part, file=files[part.file]) for part in parts) for parts in self.samples)
        return {**self.__dict__, "samples": found}

    def rows(self) -> list[list[tuple[str, str, int]]]:
        """The origin of each sample, per input: file, array in it and row (-1: the whole array)."""
        return [
            [(str(part.file.resolve()), part.array, -1 if part.row is None else part.row) for part in parts]
            for parts in self.samples
        ]

    def files(self) -> list[tuple[Path, ...]]:
        """The files of each sample, without duplicates."""
        return [tuple(dict.fromkeys(part.file for part in parts)) for parts in self.samples]

    @staticmethod
    def of_rows(inputs: Sequence[SampleInput], rows: Sequence[Sequence[tuple[str, str, int]]]) -> SampleSource:
        """The samples described by `rows`; raises ValueError for files that cannot exist."""
        if any("\0" in file for sample in rows for file, *_ in sample):
            raise ValueError("the name of a sample's file has a null byte")
        parts = [
            tuple(SamplePart(Path(file), array, None if row < 0 else row) for file, array, row in sample)
            for sample in rows
        ]
        return SampleSource(tuple(inputs), tuple(parts))


class SampleReader:
    """Reads samples one by one in any order, on demand; caches some rows of every input."""

    def __init__(self, source: SampleSource) -> None:
        self._source = source
        self._kept: dict[str, tuple[SamplePart, ArrayRows]] = {}

    def read(self, index: int) -> Sample:
        """One sample; raises CalibrationError when it cannot be read or does not fit."""
        pairs = zip(self._source.inputs, self._source.samples[index], strict=True)
        return {one.name: self._read_part(one, part) for one, part in pairs}

    def find(self, index: int) -> Sample:
        """One sample; without inputs when it cannot be read or does not fit."""
        try:
            return self.read(index)
        except CalibrationError:
            return {}

    def find_under(self, index: int, way: Alternative) -> Sample:
        """A sample of one input under another preset: arrays are converted, pictures are read again, so that they are
        also placed as the preset describes. Without the input when it cannot be read.
        """
        (one,), (part,) = self._source.inputs, self._source.samples[index]
        if way.preprocess is None or not one.is_described or not has_reader(self._source.registry, part.file):
            return {name: way.of(x) for name, x in self.find(index).items()}
        try:
            return {one.name: self._read_part(replace(one, preprocess=way.preprocess), part)}
        except CalibrationError:
            return {}

    def _read_part(self, one: SampleInput, part: SamplePart) -> Array:
        registry = self._source.registry
        if has_reader(registry, part.file):
            reader: Reader = registry.get(READERS, _suffix(part.file))
            return fit(one, reader.read(part.file, one.preprocess, one.shape), part.file)
        try:
            row = self.stored(one, part)
        except ARCHIVE_ERRORS as error:
            raise _unreadable(part.file, error) from error
        return fit(one, arranged(one, row, part.file), part.file)

    def stored(self, one: SampleInput, part: SamplePart) -> Array:
        """An array as stored in its file."""
        before = self._kept.get(one.name)
        if before is None or (before[0].file, before[0].array) != (part.file, part.array):
            self._kept[one.name] = (part, ArrayRows(part.file, part.array))
        rows = self._kept[one.name][1]
        return rows.whole() if part.row is None else rows[part.row]

    def files(self, index: int) -> str:
        """The name of a sample in messages."""
        parts = self._source.samples[index]
        names = (f"{part.file}" + ("" if part.row is None else f"[{part.row}]") for part in parts)
        return ", ".join(dict.fromkeys(names))


def has_reader(registry: Registry, file: Path) -> bool:
    """True if a package reads such files. Imports nothing."""
    return registry.has(READERS, _suffix(file))


def is_picture(registry: Registry, file: Path) -> bool:
    """True if a file becomes an input through preprocessing."""
    if not has_reader(registry, file):
        return False
    reader: Reader = registry.get(READERS, _suffix(file))
    return reader.reads_pictures


def _suffix(file: Path) -> str:
    return file.suffix.lower().removeprefix(".")


def open_samples(
    inputs: Sequence[SampleInput],
    dataset: Path | Sequence[SampleSet] | None = None,
    data_list: Path | None = None,
    input_num: int = 0,
    registry: Registry | None = None,
) -> SampleSource:
    """The first `input_num` samples (0: all) of a folder or one file, by path, or of a list of files, in its order.

    Of several data sets these are the first of each, spread evenly, repeated by weight. Files other than arrays are
    read by the readers that `registry` knows, else by the installed ones.
    """
    registry = Registry() if registry is None else registry
    sets = sets_of(dataset)
    if len(sets) > 1 or any(one.weight > 1 for one in sets):
        sources = [open_samples(inputs, one.path, data_list, input_num, registry) for one in sets]
        merged = interleaved([one.samples for one in sources], [one.weight for one in sets])
        return SampleSource(tuple(inputs), merged, registry)
    folder = sets[0].path if sets else None
    if (folder is None) == (data_list is None):
        raise CalibrationError("samples: give a folder with --dataset, or a list of files with --data-list.")
    if input_num < 0:
        raise CalibrationError(f"samples: --input-num {input_num} is negative. Use 0 for all samples.")
    if folder is not None:
        source, lines = folder, [[file] for file in _files_of(folder, registry)]
    else:
        assert data_list is not None
        source, lines = data_list, _lines_of(data_list)
    samples: list[tuple[SamplePart, ...]] = []
    for files in lines:
        if input_num and len(samples) >= input_num:
            break
        samples += _samples_of(inputs, files, registry)
    if not samples:
        kinds = "images, .npy or .npz files"
        raise CalibrationError(f"{source}: contains no samples. Samples are {kinds}; 100 to 200 are usually enough.")
    return SampleSource(tuple(inputs), tuple(samples[: input_num or None]), registry)


def _files_of(folder: Path, registry: Registry) -> list[Path]:
    """Sample files in the folder and below, ordered by relative path; a single file is itself."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise CalibrationError(f"{folder}: no such file or folder. Give the samples with --dataset.")
    wanted = {*ARRAYS, *(f".{suffix}" for suffix in registry.names(READERS))}
    files = [file for file in folder.rglob("*") if file.suffix.lower() in wanted and file.is_file()]
    return sorted(files, key=lambda file: file.relative_to(folder).as_posix())


def _lines_of(data_list: Path) -> list[list[Path]]:
    """Files line by line; relative paths count from the list's folder, else from the working folder."""
    try:
        lines = data_list.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise CalibrationError(
            f"{data_list}: {reason}. --data-list takes a text file with one sample per line."
        ) from error
    result: list[list[Path]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        names = [name.strip() for name in line.split(",")]
        if not all(names):
            raise CalibrationError(
                f"{data_list}:{number}: an empty file name in {line!r}. Separate the files by one comma."
            )
        result.append([_locate(name, data_list, number) for name in names])
    return result


def _locate(name: str, data_list: Path, number: int) -> Path:
    for candidate in (data_list.parent / name, Path(name)):
        if candidate.is_file():
            return candidate
    raise CalibrationError(
        f"{data_list}:{number}: no file {name!r} beside the list or in the working folder. Correct the path."
    )


def _samples_of(inputs: Sequence[SampleInput], files: list[Path], registry: Registry) -> list[tuple[SamplePart, ...]]:
    """The samples of one line: one file with every input, or one file per input."""
    together = len(files) == 1
    if len(files) != len(inputs) and not (together and files[0].suffix.lower() == ".npz"):
        raise CalibrationError(
            f"{files[0]}: {len(files)} file(s) for {len(inputs)} inputs ({', '.join(i.name for i in inputs)})."
            " Give one .npz with all of them, or one file per input, separated by commas in --data-list."
        )
    columns = [_parts_of(one, files[0] if together else files[i], registry) for i, one in enumerate(inputs)]
    if together:
        _check_own_arrays(inputs, columns)
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        found = ", ".join(f"{one.name} {count}" for one, count in zip(inputs, counts, strict=True))
        raise CalibrationError(
            f"{files[0]}: its inputs have different numbers of samples: {found}. Give the same number for each."
        )
    return list(zip(*columns, strict=True))


def _check_own_arrays(inputs: Sequence[SampleInput], columns: Sequence[Sequence[SamplePart]]) -> None:
    """Raise CalibrationError for an array that stands for two inputs because it fits both."""
    taken: dict[str, str] = {}
    for one, (part, *_) in zip(inputs, columns, strict=True):
        if part.array in taken:
            raise CalibrationError(
                f"{part.file}: array {part.array!r} fits both {taken[part.array]!r} and {one.name!r}. Give one array "
                "for each input, named like it."
            )
        taken[part.array] = one.name


def _parts_of(one: SampleInput, file: Path, registry: Registry) -> list[SamplePart]:
    """The samples of one input in one file, from the file's header alone."""
    if has_reader(registry, file):
        check_described(file, one.name, one.is_described or not is_picture(registry, file), registry)
        return [SamplePart(file)]
    suffix = file.suffix.lower()
    if suffix in VIDEOS:
        raise CalibrationError(
            f"{file}: a video cannot be a sample. Extract its frames with `ffmpeg -i {file.name} frames/%05d.png`, and "
            "give their folder."
        )
    if suffix not in ARRAYS:
        raise CalibrationError(f"{file}: samples are images, .npy or .npz files. Convert it.")
    shapes = array_shapes(file)
    name = _array_for(one, shapes, file) if suffix == ".npz" else ""
    count = count_in(one, shapes[name], file, f"array {name!r} of shape" if name else "shape")
    rows = [None] if count == 0 else range(count)
    return [SamplePart(file, name, row) for row in rows]


def rows_in(one: SampleInput, array: Array, source: Path) -> list[Array]:
    """The samples of one input in an array in memory, called `source` in errors."""
    count = count_in(one, array.shape, source, "shape")
    return [fit(one, arranged(one, row, source), source) for row in ([array] if count == 0 else array)]


def count_in(one: SampleInput, shape: Shape, source: Path, what: str) -> int:
    """Samples along the leading axis of an array, 0 when it is a single sample; raises CalibrationError for other
    shapes.
    """
    if _is_open(one.shape):
        if not _fits_open(shape, one.shape):
            raise CalibrationError(
                f"{source}: {what} {shape} does not fit input {one.name!r} {shown(one.shape)}; ? stands for any extent."
            )
        return 0
    count, _ = one.layout.pick(one.shape, one.name, partial(_sample_count, shape), source)
    if count is None:
        raise CalibrationError(
            f"{source}: {what} {shape} does not fit input {one.name!r} {one.layout.shown(one.shape)}. Give arrays of "
            "this shape, or of this shape without batch and with a leading axis of samples."
            + one.layout.hint(one.shape, partial(_sample_count, shape))
        )
    return count


def _array_for(one: SampleInput, shapes: Mapping[str, Shape], file: Path) -> str:
    """The array named like the input, else the only one that fits it."""
    if one.name in shapes:
        return one.name
    shapes_that_fit = [shape for shape in (one.shape, one.layout.other_shape(one.shape)) if shape is not None]
    fitting = [
        name
        for name, shape in shapes.items()
        if any(_sample_count(shape, wanted) is not None or _fits_open(shape, wanted) for wanted in shapes_that_fit)
    ]
    if len(fitting) == 1:
        return fitting[0]
    near = nearest(one.name, fitting if len(fitting) > 1 else list(shapes))
    listed = ", ".join(f"{name} {shapes[name]}" for name in near) or "nothing"
    listed += f" and {len(shapes) - len(near)} more" if len(near) < len(shapes) else ""
    raise CalibrationError(
        f"{file}: no array named {one.name!r}, and {len(fitting)} arrays fit its shape {one.shape};"
        f" the file holds {listed}. Name the array like the input."
    )


def _sample_count(array: Shape, wanted: Shape) -> int | None:
    """Samples along the leading axis, 0 when the array itself is the one sample, None when it does not fit."""
    if _squeezed(array) == _squeezed(wanted):
        return 0
    behind = _squeezed(array[1:])
    if array and behind in (_squeezed(wanted), _squeezed(wanted[1:])):
        return array[0]
    return 0 if _squeezed(array) == _squeezed(wanted[1:]) else None


def _is_open(shape: Shape) -> bool:
    return any(extent < 0 for extent in shape)


def _fits_open(array: Shape, wanted: Shape) -> bool:
    """True if an array fits an input with open extents."""
    if wanted == ANY_SHAPE:
        return True
    return len(array) == len(wanted) and all(one in (DYNAMIC, own) for own, one in zip(array, wanted, strict=True))


def _squeezed(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def array_shapes(file: Path) -> dict[str, Shape]:
    """Shapes of the arrays in a file (npy: one, without name), read from the headers."""
    try:
        if file.suffix.lower() == ".npy":
            with file.open("rb") as stream:
                return {"": read_header(stream, file.stat().st_size).shape}
        with zipfile.ZipFile(file) as archive:
            shapes: dict[str, Shape] = {}
            for info in archive.infolist():
                with open_entry(archive, info.filename) as stream:
                    shapes[array_name(info.filename)] = read_header(stream, info.file_size).shape
            return shapes
    except ARCHIVE_ERRORS as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> CalibrationError:
    return CalibrationError(f"{file}: not a readable array file ({error}). Replace it, or remove it from the data set.")


def arranged(one: SampleInput, row: Array, file: Path) -> Array:
    """A row of an array, or the whole array, in the input's own dimension order; extents of 1 may be missing.

    Raises CalibrationError for another shape, even with as many elements.
    """
    if _is_open(one.shape):
        return row
    found = partial(_is_row, row.shape)
    fits, is_turned = one.layout.pick(one.shape, one.name, found, file)
    if fits is None:
        raise CalibrationError(
            f"{file}: a sample of shape {row.shape} does not fit input {one.name!r} {one.layout.shown(one.shape)}. "
            f"Give arrays of the input's shape, with or without batch.{one.layout.hint(one.shape, found)}"
        )
    return one.layout.turned(row, one.shape) if is_turned else row


def _is_row(row: Shape, wanted: Shape) -> bool | None:
    return True if _squeezed(row) in (_squeezed(wanted), _squeezed(wanted[1:])) else None


def fit(one: SampleInput, row: Array, file: Path) -> Array:
    """A row in the input's shape and type, repeated over its batch if it has none of its own."""
    wanted = np.dtype(one.dtype)
    if row.dtype.kind not in "biuf":
        raise CalibrationError(
            f"{file}: holds {row.dtype}, not numbers. Give an array of numbers for input {one.name!r}."
        )
    if not row.size:
        raise CalibrationError(f"{file}: holds no samples for input {one.name!r}. Give at least one sample.")
    if row.dtype.kind == "f" and not (np.isfinite(row) | (one.may_hide & (row == -np.inf))).all():
        raise CalibrationError(
            f"{file}: NaN or infinite values for input {one.name!r}. Correct the sample or remove it."
        )
    if one.meant is not None and row.dtype.kind in "iu" and row.dtype != wanted:
        real = one.meant(row)
        row = row if real is None else real
    if row.dtype.kind == "f" and one.store is not None:
        row = one.store(row)
    typed = as_type(one.name, row, wanted, file)
    if _is_open(one.shape):
        return typed
    if _squeezed(row.shape) == _squeezed(one.shape):
        return np.asarray(typed.reshape(one.shape), order="C")  # `ascontiguousarray` makes vectors of scalars
    return np.ascontiguousarray(np.broadcast_to(typed.reshape(one.shape[1:]), one.shape))


def as_type(name: str, array: Array, wanted: np.dtype[Any], source: Path) -> Array:
    """The same numbers in another type, floats rounded to a narrower one; raises CalibrationError for numbers that the
    type cannot represent.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        typed = array.astype(wanted)
    whole = wanted.kind in "biu" or array.dtype.kind in "iu"  # rounded integers may mean something else
    held = _equals(typed, array) if whole else bool((np.isfinite(typed) | ~np.isfinite(array)).all())
    if not held:
        raise CalibrationError(
            f"{source}: input {name!r} has values that {wanted} cannot represent. Convert the sample."
        )
    return typed


def _equals(typed: Array, row: Array) -> bool:
    """True if all numbers are equal. numpy compares integers with floats as float64, which is inexact for large
    ones.
    """
    if not np.array_equal(typed, row):
        return False
    far = np.abs(row.astype(np.float64)) >= 2.0**53
    return all(int(one) == int(other) for one, other in zip(typed[far], row[far], strict=True))
