"""Measure what unused options would save, by compiling the network again with each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuc.api import FLOAT_MODES, Chip, InvalidModel, Module, NetworkInput, Operation, TpucError, UsageError
from tpuc_driver.api.host import Boundary, Session

from tpuc_profile.batches import for_samples

SAMPLES = 4
"""The batch that is tried: more samples save little more, and take more memory."""
LEAST_SHARE = 0.01
"""Savings below this share of all cycles are not shown."""
_OPTIONS = (
    ("--fuse-preprocess", Boundary(fuse_preprocess=True), "takes images as bytes"),
    ("--quant-input", Boundary(quant_input=True), "takes inputs as stored"),
    ("--quant-output", Boundary(quant_output=True), "returns outputs as stored"),
)


@dataclass(frozen=True)
class Hint:
    """An option with the cycles of the network compiled with it."""

    option: str
    effect: str
    saved: int
    cycles: int

    def text(self) -> str:
        """Return a sentence without the full stop."""
        share = self.saved / (self.cycles + self.saved)
        return f"{self.option} would save {self.saved:,} cycles ({share:.0%}): the network then {self.effect}"


def measured_hints(session: Session, file: Path, folder: Path, cycles: int) -> Sequence[Hint]:
    """Return the hints that a compilation confirmed, the largest saving first.

    `folder` is the --work-dir of the file's compilation, `cycles` the file's. Raises UsageError if the network does not
    compile to these cycles again without options, because then the file has been compiled with others.
    """
    network, mode = _compiled_as(folder, file)
    module = session.load(folder / f"{network}.mlir")
    table = folder / f"{network}_cali_table"
    session = session.having(mode=mode, remark=_unheard, work_dir=None)
    known = table if table.is_file() else None
    first = _cycles(session, module, known)
    if first != cycles:
        raise UsageError(
            f"{file} has {cycles:,} cycles, and its network compiled without further options {first:,}; hints are for "
            "files compiled without --quant-input, --quantize-table, --opt and the like."
        )
    found: list[Hint] = []
    for option, effect, taken in (*_candidates(session.chip, mode), *_islands(session, module, known, mode)):
        try:
            now = _cycles(session, module, known, **taken)
        except TpucError:
            continue  # the option is not for this network
        if first - now > LEAST_SHARE * first:
            found.append(Hint(option, effect, first - now, now))
    return sorted([*found, *_batch(session, module, known, first)], key=lambda hint: -hint.saved)


def _batch(session: Session, module: Module, table: Path | None, first: int) -> Iterator[Hint]:
    """Several samples at once; the cycles are for each of them."""
    several = for_samples(module, SAMPLES)
    if several is None:
        return
    try:
        each = -(-_cycles(session, several, table) // SAMPLES)
    except TpucError:
        return
    if first - each > LEAST_SHARE * first:
        effect = f"takes {SAMPLES} samples at once, and the cycles are for each of them"
        yield Hint(f"--batch {SAMPLES}", effect, first - each, each)


def _candidates(chip: Chip, mode: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for option, boundary, effect in _OPTIONS:
        yield option, effect, {"boundary": boundary}
    for other in chip.description.modes if mode == "f32" else ():
        if other in FLOAT_MODES and other != mode:
            yield f"--quantize {other}", f"computes in {other}", {"mode": other}


def _islands(
    session: Session, module: Module, table: Path | None, mode: str
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Suggest integers for the layers of an integer network that compute in floats."""
    if mode in FLOAT_MODES:
        return
    lowered = session.build(module, table).module.main.operations
    floats = {one.name for one in lowered if one.operands and one.results and _is_float(one)}
    layers = [one for one in module.main.operations if one.operands and not isinstance(one.op, NetworkInput)]
    names = [one.name for one in layers if one.name in floats]
    if names:
        shown = ", ".join(f"'{name}'" for name in names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
        effect = f"computes {shown} in {mode} instead of floats, which may cost accuracy"
        yield "--quantize-table", effect, {"quantize_table": dict.fromkeys(names, mode)}


def _is_float(operation: Operation) -> bool:
    types = (*operation.node().operand_types, *operation.node().result_types)
    tensors = [type_ for type_ in types if type_.rank]
    return all(not type_.is_quantized and type_.storage.name in ("f32", "f16", "bf16") for type_ in tensors)


def _cycles(session: Session, module: Module, table: Path | None, *, mode: str | None = None, **taken: Any) -> int:
    session = session if mode is None else session.having(mode=mode)
    data = session.build(module, table, **taken).data
    return session.chip.load(data, module.name).timeline(session.chip.profiles[0]).cycles


def _compiled_as(folder: Path, file: Path) -> tuple[str, str]:
    """Return the name and the mode of the network from the compilation report; raises UsageError, InvalidModel."""
    path = folder / f"{file.name}.json"
    if not path.is_file():
        raise UsageError(f"{folder} has no {path.name}; give the --work-dir of the compilation of {file}.")
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return str(report["network"]), str(report["mode"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidModel(
            f"{path} is not a compilation report ({type(error).__name__}: {error}); compile with --work-dir again"
        ) from error


def _unheard(_text: str) -> None: ...
