"""Reports of a session, as text or as JSON values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpuc.api.chip import TensorInfo
from tpuc.api.planning import MemoryPlan
from tpuc.errors import visible, visible_lines
from tpuc.ir import TensorType, Uniform
from tpuc.ir.dtypes import shown

from tpuc_driver.confidence import Interval, share_interval, whole_interval
from tpuc_driver.session.processor import HostTime, on_processor

SHOWN_LAYERS = 5
"""Number of float ops that a line names."""


@dataclass(frozen=True)
class StageComparison:
    """Result of comparing two stages on a test input: the lowest similarities over `tensors` tensors, and the tensor
    with the lowest cosine.

    `stored` counts tensors of integers that differ by at most one step; `close` counts tensors below the tolerance
    whose elements are all within `near`, an absolute and a relative tolerance.
    """

    stages: str
    tensors: int
    cosine: float
    euclidean: float
    worst: str
    stored: int = 0
    close: int = 0
    near: tuple[float, float] | None = None

    def text(self) -> str:
        """Format as one line."""
        text = (
            f"{self.stages}: {self.tensors} tensors, cosine >= {self.cosine:.6f}, euclidean >= {self.euclidean:.6f} "
            f"(lowest at '{self.worst}')"
        )
        if self.stored:
            text += f", {self.stored} of integers that differ by one step at most"
        if self.close and self.near is not None:
            text += f", {self.close} near zero, within {self.near[0]:g} + {self.near[1]:g} * |reference|"
        return visible(text)


FEW_KEPT = 0.9
"""Share of equal predictions below which users notice: one in ten is lost."""


@dataclass(frozen=True)
class OutputCheck:
    """Number of predictions of an output, or of a part of one, on which two networks agree, and its SQNR in dB.
    `expected`: the share of equal predictions by the margins of more samples, and their number.
    """

    name: str
    same: int
    total: int
    decibels: float
    expected: tuple[float, int] | None = None

    @property
    def share(self) -> float:
        """Share of equal predictions, 1 if there are none."""
        return self.same / self.total if self.total else 1.0

    def interval(self, samples: int) -> Interval:
        """Return the 95 % confidence interval of the share, by margins where known, but never without what was counted.
        Predictions of one sample are correlated and count as one.
        """
        if self.expected is None:
            found = share_interval(self.share, min(self.total, samples))
        else:
            found = whole_interval(*self.expected)
        return Interval(min(found.low, self.share), max(found.high, self.share))


@dataclass(frozen=True)
class SelfCheck:
    """Comparison of a quantized network with its float form on samples; `subject` names chip and mode.

    `tuned` tells whether calibration has used the samples, None if unknown. `shows` is False if the network finds
    nothing in them; the check is then inconclusive.
    """

    subject: str
    samples: int
    outputs: tuple[OutputCheck, ...]
    tuned: bool | None = None
    shows: bool = True

    @property
    def worst(self) -> OutputCheck:
        """Output with the lowest agreement, among those with predictions if there are any."""
        predicting = [one for one in self.outputs if one.total]
        return min(predicting or self.outputs, key=lambda one: (one.share, one.decibels))

    @property
    def agreement(self) -> float:
        """Lowest agreement of any output."""
        return self.worst.share

    @property
    def interval(self) -> Interval:
        """The 95 % confidence interval of the agreement, 0 to 1 if the check is inconclusive."""
        return self.worst.interval(self.samples) if self.shows else Interval(0.0, 1.0)

    @property
    def certainty(self) -> str:
        """The interval, and the number of samples whose margins it comes from, as text."""
        margins = self.worst.expected if self.shows else None
        return self.interval.text() + (f" by the margins of {margins[1]} samples" if margins else "")

    @property
    def counted(self) -> str:
        """Number and kind of the samples, as text."""
        kind = {True: "calibration ", False: "held-out ", None: ""}[self.tuned]
        return f"{self.samples} {kind}sample{'' if self.samples == 1 else 's'}"

    def text(self) -> str:
        """Format as one line."""
        start = f"self-check of {self.subject} on {self.counted}"
        if not self.shows:
            return visible(f"{start} is inconclusive: nothing is detected in them; add samples with objects to detect")
        worst, lowest = self.worst, min(self.outputs, key=lambda one: one.decibels)
        of = f" of output '{worst.name}'" if len(self.outputs) > 1 else ""
        if not worst.total:
            return visible(f"{start}: SQNR {lowest.decibels:.1f} dB at output '{lowest.name}', the lowest one")
        return visible(
            f"{start}: {worst.same} of {worst.total} predictions{of} agree with float ({worst.share:.1%}, "
            f"{self.certainty}), lowest SQNR {lowest.decibels:.1f} dB at output '{lowest.name}'"
        )

    def complaint(self) -> str:
        """Return a message about low agreement, with advice."""
        worst = self.worst
        return (
            f"{self.subject} agrees with float on {worst.same} of {worst.total} predictions of output '{worst.name}' "
            f"({worst.decibels:.1f} dB, {self.counted}); try more representative samples (several "
            "--dataset, DIR=3 to count them three times), another --method, `tpuc opt --pass equalize-weights` before "
            "calibration, or float layers (`tpuc qtable`)"
        )

    def to_json(self) -> Mapping[str, Any]:
        """Return JSON values."""
        return {
            "subject": self.subject,
            "samples": self.samples,
            "tuned": self.tuned,
            "shows": self.shows,
            "agreement": self.agreement,
            "interval": list(self.interval),
            "outputs": [
                {
                    "name": one.name,
                    "same": one.same,
                    "total": one.total,
                    "sqnr_db": one.decibels,
                    "expected": one.expected[0] if one.expected else None,
                    "expected_samples": one.expected[1] if one.expected else None,
                }
                for one in self.outputs
            ],
        }


@dataclass(frozen=True)
class AccuracyReport:
    """Cost of an accuracy constraint. `figure` is measured on the samples of the search, `held_out` with its 95 %
    `interval` on samples used by neither calibration nor search, None if there are none. `before` is the figure with
    the default table alone; `floats` are the ops in mode `float_mode`.
    """

    measure: str
    wanted: float
    exact: float
    figure: float
    samples: int
    held_out: float | None
    held_out_samples: int
    before: float
    cycles_before: int
    cycles: int
    preparation: str
    floats: tuple[str, ...]
    float_mode: str
    trials: int
    interval: tuple[float, float] | None = None

    def text(self) -> str:
        """Format as one line."""
        apart = ""
        if self.held_out is not None:
            within = f" ({Interval(*self.interval).text()})" if self.interval else ""
            apart = f", {self.held_out:.4f} on {self.held_out_samples} held-out samples{within}"
        cost = self.cycles / self.cycles_before - 1 if self.cycles_before else 0.0
        tried = f"{self.trials} networks" if self.trials > 1 else "1 network"
        names = ", ".join(self.floats[:SHOWN_LAYERS]) + (", ..." if len(self.floats) > SHOWN_LAYERS else "")
        layers = f"{len(self.floats)} ops in {self.float_mode} ({names})" if self.floats else "no op in float"
        return visible(
            f"{self.measure} {self.figure:.4f} on {self.samples} samples{apart} (float {self.exact:.4f}, before "
            f"{self.before:.4f}) with {self.preparation}, {layers}; {self.cycles:,} cycles, {cost:+.1%} of "
            f"{self.cycles_before:,}; {tried} tried"
        )

    def to_json(self) -> Mapping[str, Any]:
        """Return JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class CompileReport:
    """Result of a compilation, with sizes in bytes. `seconds` per stage never enter an artifact. `cycles` is None if
    the chip has no timing model.
    """

    model: str
    chip: str
    mode: str
    ops: int
    memory: Mapping[str, int]
    cycles: int | None
    milliseconds: float | None
    profile: str
    comparisons: tuple[StageComparison, ...] = ()
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    memory_plan: MemoryPlan | None = None
    self_check: SelfCheck | None = None
    accuracy: AccuracyReport | None = None
    network: str = ""
    """Stem of the names of its stage files."""
    host_functions: tuple[HostTime, ...] = ()
    """Functions that the runtime computes on the processor, with estimated times; `milliseconds` excludes them."""

    def text(self) -> str:
        """Format as a few lines."""
        memory = ", ".join(f"{name} {size:,} B" for name, size in self.memory.items())
        lines = [
            f"{self.model}: {self.ops} ops, {self.mode} for {self.chip}",
            *(f"input {shown_tensor(info)}" for info in self.inputs),
            *(f"output {shown_tensor(info)}" for info in self.outputs),
            f"memory: {memory}",
            *self._prediction(),
            *(comparison.text() for comparison in self.comparisons),
            *(() if self.self_check is None else (self.self_check.text(),)),
            *(() if self.accuracy is None else (self.accuracy.text(),)),
        ]
        return visible_lines(lines)

    def _prediction(self) -> Sequence[str]:
        if self.cycles is None or self.milliseconds is None:
            return ()
        time = f"{self.cycles:,} cycles = {self.milliseconds:.3f} ms"
        return (f"predicted: {time}{on_processor(self.host_functions)} (timing profile '{self.profile}')",)

    def to_json(self) -> Mapping[str, Any]:
        """Return JSON values."""
        return {
            "model": self.model,
            "network": self.network,
            "chip": self.chip,
            "mode": self.mode,
            "ops": self.ops,
            "inputs": [tensor_values(info) for info in self.inputs],
            "outputs": [tensor_values(info) for info in self.outputs],
            "memory_bytes": dict(self.memory),
            "cycles": self.cycles,
            "milliseconds": self.milliseconds,
            "host_functions": list(map(vars, self.host_functions)),
            "profile": self.profile,
            "comparisons": [
                {
                    "stages": comparison.stages,
                    "tensors": comparison.tensors,
                    "cosine": comparison.cosine,
                    "euclidean": comparison.euclidean,
                    "worst": comparison.worst,
                }
                for comparison in self.comparisons
            ],
            "self_check": None if self.self_check is None else self.self_check.to_json(),
            "accuracy": None if self.accuracy is None else self.accuracy.to_json(),
            "seconds": dict(self.seconds),
        }


@dataclass(frozen=True)
class ProfileReport:
    """Execution time of a compiled file in a timing profile. `note` is the chip's statement of the profile's
    accuracy.
    """

    file: str
    chip: str
    profile: str
    cycles: int
    milliseconds: float
    busy: Mapping[str, int]
    commands: Mapping[str, int]
    memory: Mapping[str, int]
    note: str = ""
    host_functions: tuple[HostTime, ...] = ()
    """See CompileReport."""

    def text(self) -> str:
        """Format as a few lines."""
        time = f"{self.cycles:,} cycles = {self.milliseconds:.3f} ms{on_processor(self.host_functions)}"
        lines = [f"{self.file}: {time} on {self.chip} ('{self.profile}')"]
        if self.note:
            lines.append(f"profile '{self.profile}': {self.note}")
        for engine, cycles in self.busy.items():
            share = cycles / self.cycles if self.cycles else 0.0
            lines.append(f"{engine}: {self.commands[engine]} commands, busy {cycles:,} cycles ({share:.0%})")
        lines.append("memory: " + ", ".join(f"{name} {size:,} B" for name, size in self.memory.items()))
        return visible_lines(lines)

    def to_json(self) -> Mapping[str, Any]:
        """Return JSON values."""
        return {
            "file": self.file,
            "chip": self.chip,
            "profile": self.profile,
            "profile_note": self.note,
            "cycles": self.cycles,
            "milliseconds": self.milliseconds,
            "host_functions": list(map(vars, self.host_functions)),
            "busy_cycles": dict(self.busy),
            "commands": dict(self.commands),
            "memory_bytes": dict(self.memory),
        }


def shown_tensor(info: TensorInfo, *, plain: bool = False) -> str:
    """Describe an input or output; scale and zero point are left out if they are 1 and 0, or if `plain`."""
    values = tensor_values(info)
    text = f"'{info.name}': {values['type']} {shown(info.shape)}"
    if plain or (values["scale"], values["zero_point"]) == (1.0, 0):
        return text
    return f"{text}, scale {values['scale']:.9g}, zero point {values['zero_point']}"


def tensor_values(info: TensorInfo) -> dict[str, Any]:
    """Return the JSON values of an input or output."""
    scale, zero_point = 1.0, 0
    if isinstance(info.element, Uniform):
        scale, zero_point = info.element.scale, info.element.zero_point
    storage = TensorType(info.shape, info.element).storage.name
    return {
        "name": info.name,
        "shape": list(info.shape),
        "type": storage,
        "scale": scale,
        "zero_point": zero_point,
    }
