"""Numbers per channel as annotation lines of a calibration table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from tpuc.api import CalibrationError, Module
from tpuc.api.evaluation import Array

from tpuc_quantize.tables.table import CalibrationTable


def annotation_lines(values: Mapping[str, Array]) -> tuple[str, ...]:
    """The numbers as a section of a table; nine digits preserve every float32."""
    return tuple(f"{name} {' '.join(f'{value:.9g}' for value in numbers)}" for name, numbers in values.items())


def parse_annotations(lines: Iterable[str], channels: Mapping[str, int]) -> dict[str, Array]:
    """Parse a section of a table; names may contain spaces, so `channels` gives the count of numbers of each.

    Raises ValueError for a line that fits no name.
    """
    counts = sorted(set(channels.values()))
    result: dict[str, Array] = {}
    for line in lines:
        for count in counts:
            name, *numbers = line.rsplit(" ", count)
            if channels.get(name) == len(numbers) == count:
                result[name] = np.array([float(number) for number in numbers], np.float32)
                break
        else:
            raise ValueError(f"no op with this number of channels in '{line[:40]}...'")
    return result


def annotated(
    module: Module, table: CalibrationTable, section: str, what: str, channels: Mapping[str, int]
) -> dict[str, Array]:
    """The numbers per channel in a section of a table by name; raises CalibrationError for another network's."""
    try:
        return parse_annotations(table.sections.get(section, ()), channels)
    except ValueError as error:
        raise CalibrationError(
            f"the calibration table's {what} do not fit module '{module.name}': {error}; calibrate it again with `tpuc "
            "calibrate`"
        ) from error
