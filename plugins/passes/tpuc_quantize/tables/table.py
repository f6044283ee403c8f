"""The calibration table: one line `op_name threshold min max` per tensor, the text form shared with TPU-MLIR."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tpuc.api import CalibrationError, read_text, write_atomic

from tpuc_quantize.tables.history import Origin

_LEAST_SHOWN = 1e-5
"""Thresholds below this are written with an exponent."""
COLUMNS = "# op_name    threshold    min    max"
INT4, WEIGHTS, FP8 = "int4_th", "weight_scale", "weight_scale_fp8"
SECTIONS = ("asym_op", INT4, WEIGHTS, FP8)  # what TPU-MLIR and its tools for training append below the table proper
SEEN = "calibrated_on"
ANNOTATIONS = ("bias_shift", "channel_threshold", "channel_factor", "weight_rounding", SEEN)
"""Our own sections, as remark lines, which TPU-MLIR ignores."""

WORK_MODE = "work_mode:"
"""The start of the first remark in a table from a training tool."""

WORK_MODES = ("QAT_all_int8", "QAT_mix_prec", "int4_and_int8_mix", "int4_and_int8_mix_no_fc", "mqbench-fp8")


@dataclass(frozen=True)
class TensorThreshold:
    """A tensor's symmetric threshold, and its range for asymmetric quantization."""

    threshold: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class QatScales:
    """The scales of a weight, one or one per channel, and its zero points."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]


@dataclass(frozen=True)
class CalibrationTable:
    """Entries by tensor name, in table order.

    `remarks` are header lines without the `#`; `sections` the appendices of TPU-MLIR (`asym_op`, `int4_th`) and of its
    training tools (`weight_scale`, `weight_scale_fp8`) by line. `origin` is the history of a newly made table; no file
    keeps it.
    """

    entries: Mapping[str, TensorThreshold]
    remarks: tuple[str, ...] = ()
    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)

    @property
    def work_mode(self) -> str:
        """The mode that a training tool made the table for; empty for a calibration table."""
        work_modes = (remark.partition(WORK_MODE)[2] for remark in self.remarks if remark.startswith(WORK_MODE))
        return next((text.split()[0] for text in work_modes if text.strip()), "")

    @property
    def has_qat_scales(self) -> bool:
        """True if training found the thresholds."""
        return bool(self.work_mode or self.sections.get(WEIGHTS))

    @property
    def calibrated_on(self) -> str:
        """Fingerprints of the samples that thresholds were tuned on, separated by spaces; empty where unknown."""
        return " ".join(self.sections.get(SEEN, ()))

    @property
    def int4_entries(self) -> Mapping[str, TensorThreshold]:
        """Entries of values that a chip with int4 stores in 4 bits."""
        return dict(_parse_line(line, f"#{INT4}") for line in self.sections.get(INT4, ()))

    @property
    def learned_scales(self) -> Mapping[str, QatScales]:
        """The scales of weights found by training, by weight name."""
        return dict(parse_scales(line, f"#{WEIGHTS}") for line in self.sections.get(WEIGHTS, ()))

    def explain(self, value: str = "") -> str:
        """The history of a value's threshold, or the comparison of candidates, for a newly made table."""
        return self.origin.explain(value)

    def write(self, path: Path) -> None:
        """Write the table as text, atomically."""
        write_atomic(path, format_table(self))


def fingerprint_lines(fingerprints: Iterable[str]) -> tuple[str, ...]:
    """The section of a table that lists the samples seen, each once."""
    known = [one for one in dict.fromkeys(fingerprints) if one]
    return tuple(" ".join(known[place : place + 12]) for place in range(0, len(known), 12))


def make_remarks(
    methods: tuple[str, ...], bins: int, samples: int, tune_samples: int, source_date_epoch: int | None = None
) -> tuple[str, ...]:
    """The usual header; it contains a time only when the caller passes `SOURCE_DATE_EPOCH`."""
    time: tuple[str, ...] = ()
    if source_date_epoch is not None:
        moment = dt.datetime.fromtimestamp(source_date_epoch, dt.UTC)
        time = (f"generated time: {moment:%Y-%m-%d %H:%M:%S}",)
    return (
        *time,
        f"quantization threshold calculation method: {list(methods)}",
        f"histogram number: {bins}",
        f"sample number: {samples}",
        f"tune number: {tune_samples}",
    )


def format_table(table: CalibrationTable) -> str:
    """The table as text; the same table always gives the same text."""
    lines = [f"# {remark}" for remark in table.remarks]
    lines += ["###", COLUMNS]
    for name, entry in table.entries.items():
        if not name or name != " ".join(name.split()) or name.startswith("#"):
            raise CalibrationError(
                f"tensor name {name!r} cannot be written to a calibration table. Rename it in the model."
            )
        lines.append(f"{name} {_numbers(entry)}")
    for section, content in table.sections.items():
        if section in ANNOTATIONS:
            lines += [f"#{section} {line}" for line in content]
        else:
            lines += ["", f"#{section}", *content]
    return "\n".join(lines) + "\n"


def as_table(source: CalibrationTable | str | Path | None) -> CalibrationTable | None:
    """A table, or the table in a file."""
    return read_table(Path(source)) if isinstance(source, (str, Path)) else source


def read_table(path: Path) -> CalibrationTable:
    """Read a table of tpuc or TPU-MLIR; raises `CalibrationError` with file, line, reason and way out."""
    return parse_table(read_text(path, CalibrationError, "Make a calibration table with 'tpuc calibrate'."), str(path))


def parse_table(text: str, file: str = "calibration table") -> CalibrationTable:
    """Parse the text of a table; `file` is its name in errors."""
    entries: dict[str, TensorThreshold] = {}
    remarks: list[str] = []
    sections: dict[str, list[str]] = {}
    section: list[str] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        heading = line.removeprefix("#").strip()
        if line.startswith("#") and heading in SECTIONS:
            section = sections.setdefault(heading, [])
        elif section is not None and not line.startswith("#"):
            _check_section(next(reversed(sections)), line, f"{file}:{number}")
            section += [line] if line else []
        elif line.startswith("#"):
            kind, _, content = heading.partition(" ")
            if kind in ANNOTATIONS:
                sections.setdefault(kind, []).append(content)
            elif heading.startswith(WORK_MODE):
                _check_work_mode(heading, f"{file}:{number}")
                remarks.append(heading)
            elif heading.strip("#") and heading.split()[0] != "op_name":
                remarks.append(heading)
        elif line:
            name, entry = _parse_line(line, f"{file}:{number}")
            if name in entries:
                raise CalibrationError(f"{file}:{number}: {name!r} is in the table twice. Delete one of the lines.")
            entries[name] = entry
    if not entries:
        raise CalibrationError(
            f"{file}: no line 'op_name threshold min max' in it. Make it again with 'tpuc calibrate'."
        )
    return CalibrationTable(entries, tuple(remarks), {name: tuple(lines) for name, lines in sections.items()})


def _numbers(entry: TensorThreshold) -> str:
    """Threshold, minimum and maximum with seven decimals, or with seven significant digits for tiny thresholds."""
    numbers = (entry.threshold, entry.minimum, entry.maximum)
    if not 0 < entry.threshold < _LEAST_SHOWN:
        return " ".join(f"{number:.7f}" for number in numbers)
    places = 6 - math.floor(math.log10(entry.threshold))
    return " ".join(repr(round(float(number), places)) for number in numbers)


def _parse_line(line: str, where: str) -> tuple[str, TensorThreshold]:
    fields = line.rsplit(None, 3)
    if len(fields) < 4:
        raise _corrupt(where, f"{len(fields)} fields in {line!r}, expected 4: a space may be missing")
    name, *texts = fields
    numbers: list[float] = []
    for text in texts:
        try:
            numbers.append(float(text))
        except ValueError as error:
            raise _corrupt(
                where, f"{text!r} is not a number in {line!r}: a space may be missing, or one too many"
            ) from error
    threshold, minimum, maximum = numbers
    if not all(math.isfinite(n) for n in numbers):
        raise _corrupt(where, f"{name!r} has a value that is not finite")
    if threshold < 0:
        raise _corrupt(where, f"{name!r} has the negative threshold {threshold:g}")
    if minimum > maximum:
        raise _corrupt(where, f"{name!r} has its minimum {minimum:g} above its maximum {maximum:g}")
    return name, TensorThreshold(threshold, minimum, maximum)


def parse_scales(line: str, where: str) -> tuple[str, QatScales]:
    """Parse 'name count scales... count zero_points...'; raises `CalibrationError` for other lines."""
    name, *fields = line.split()
    try:
        count = int(fields[0])
        scales, rest = tuple(map(float, fields[1 : count + 1])), fields[count + 1 :]
        zero_points = tuple(map(int, rest[1:]))
        is_complete = len(scales) == count > 0 and int(rest[0]) == len(zero_points) in (1, count)
    except (IndexError, ValueError):
        is_complete, scales, zero_points = False, (), ()
    if not is_complete:
        raise CalibrationError(
            f"{where}: {line!r} is not of the form 'name count scales... count zero_points...'. Export the table again."
        )
    if not all(math.isfinite(scale) and scale >= 0 for scale in scales):
        raise CalibrationError(f"{where}: {name!r} has a scale below 0. Export the table again.")
    if any(zero_points):
        raise CalibrationError(
            f"{where}: {name!r} has zero points, which chips do not support for weights. Train it with symmetric "
            "weights."
        )
    return name, QatScales(scales, zero_points)


def _check_section(name: str, line: str, where: str) -> None:
    if line and name in (WEIGHTS, FP8):
        parse_scales(line, where)
    elif line and name == INT4:
        _parse_line(line, where)


def _check_work_mode(heading: str, where: str) -> None:
    mode = heading.removeprefix(WORK_MODE).split("#")[0].strip()
    if mode not in WORK_MODES:
        raise CalibrationError(
            f"{where}: the work mode '{mode}' is not one of {', '.join(WORK_MODES)}. Export the table in one of them."
        )


def _corrupt(where: str, reason: str) -> CalibrationError:
    return CalibrationError(
        f"{where}: {reason}. Write 'op_name threshold min max', or make the table again with 'tpuc calibrate'."
    )
