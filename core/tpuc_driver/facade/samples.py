"""Store samples in files for calibration: arrays and iterables are written to a temporary folder, item by item."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tpuc.errors import CalibrationError, InvalidInput
from tpuc.npz import write_npz

from tpuc_driver.data import SampleInput
from tpuc_driver.facade.arrays import (
    Array,
    Given,
    check_counts,
    existing,
    is_iterable_of_samples,
    is_path,
    items_of,
    named_arrays,
)


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples in files. A temporary folder of samples is deleted with this object."""

    path: Path
    folder: Path | None = field(default=None)

    @staticmethod
    def of(specs: Sequence[SampleInput], given: Given, most: int = 0) -> Samples:
        """Samples for these inputs. At most `most` samples are taken from an iterable (0: all), each once.

        Raises CalibrationError or UsageError for unsuitable samples.
        """
        if is_path(given):
            return Samples(existing(given))
        try:
            return _written(_items(specs, given), specs, most)
        except InvalidInput as error:
            raise CalibrationError(str(error)) from error


def _items(specs: Sequence[SampleInput], given: Given) -> Iterator[tuple[str, Mapping[str, Array]]]:
    if is_iterable_of_samples(given):
        return items_of(specs, cast("Iterable[Any]", given))
    return iter([("", named_arrays(specs, given))])


def _written(items: Iterator[tuple[str, Mapping[str, Array]]], specs: Sequence[SampleInput], most: int) -> Samples:
    folder = Path(tempfile.mkdtemp(prefix="tpuc-"))
    try:
        count = 0
        for number, (name, arrays) in enumerate(items):
            count += check_counts(specs, arrays, name)
            write_npz(folder / f"samples-{number:06}.npz", arrays)
            if most and count >= most:
                break
        if not count:
            raise CalibrationError("the iterable of samples is empty; a generator can be used once only.")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    samples = Samples(folder, folder)
    weakref.finalize(samples, shutil.rmtree, folder, ignore_errors=True)
    return samples
