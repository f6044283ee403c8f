"""Check samples before they are used and report likely mistakes, one sentence each.

Values are compared with the preprocessing described for the network input: images of bytes become ``[(0 - mean) *
scale, (255 - mean) * scale]`` per channel. A wrong mean or scale shows when values leave that range or fill only a
corner of it. A wrong channel order shows only through the network: a classifier that is clearly more confident with red
and blue exchanged was probably trained with the other order; one that hardly uses color shows nothing. Networks without
a class vector at the end, and mistakes that stay inside the range, are not detected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import CalibrationError, Module, PassContext
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import (
    Findings,
    InputStatistics,
    Job,
    Pool,
    PortableModule,
    SampleInput,
    SampleReader,
    SampleSource,
    contradicted,
    distinct,
    ends_of,
    examined,
    ill_fitting,
    sample_statistics,
    small_units_of,
    units_of,
)
from tpuc_ops import elementary

from tpuc_quantize.observers.collector import Counting, CountingRun, Histograms, Kept, Seen, merge_histograms
from tpuc_quantize.observers.preset_checks import better_presets, is_classifier, significance
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.observers.scale_checks import wrong_scales
from tpuc_quantize.options.budgets import BUDGETS, color_samples
from tpuc_quantize.options.tuning import CHECKS


@dataclass(frozen=True)
class ChannelSwap:
    """How much more confident the network is of a sample with red and blue exchanged; its statistics without the
    exchange, and other observations.
    """

    gain: float
    histograms: Histograms
    seen: Seen


@dataclass(frozen=True)
class Lint:
    """Suspicious findings, most serious first. The first samples were run; `histograms` are of their values, `runs`
    their other observations.
    """

    findings: tuple[str, ...]
    histograms: Histograms
    runs: Sequence[Seen] = ()

    def enter(self, progress: Progress, kept: Kept) -> None:
        """Use the runs as the beginning of the statistics."""
        progress.histograms, progress.seen = self.histograms, len(self.runs)
        progress.outputs = {place: self.runs[place].outputs for place in kept.places if place < len(self.runs)}
        progress.values = {place: one.values for place, one in enumerate(self.runs) if one.values}
        progress.products = {place: one.products for place, one in enumerate(self.runs) if one.products}


@dataclass(frozen=True)
class StatisticsJob(Job[list[InputStatistics]]):
    """Looks at every readable sample; unreadable ones are reported when they are needed."""

    samples: SampleSource

    def prepare(self) -> Callable[[range], list[InputStatistics]]:
        reader = SampleReader(self.samples)
        return lambda unit: [entry for index in unit for entry in sample_statistics(reader, index)]


@dataclass(frozen=True)
class ChannelSwapJob(Job[list[ChannelSwap | None]]):
    """Runs samples unchanged and with red and blue exchanged along an axis; None for unreadable ones."""

    network: PortableModule
    samples: SampleSource
    axis: int
    counting: Counting
    kept: Kept

    def prepare(self) -> Callable[[range], list[ChannelSwap | None]]:
        runner, reader = CountingRun(self.network, self.counting, self.kept), SampleReader(self.samples)
        interpreter = runner.interpreter

        def one(index: int) -> ChannelSwap | None:
            sample = reader.find(index)
            if not sample:
                return None
            counted: Histograms = {}
            exchanged = {name: np.ascontiguousarray(np.flip(array, self.axis)) for name, array in sample.items()}
            observed = runner.run(index, sample, counted, self.kept.names)
            plain = {name: observed.outputs[name] for name in interpreter.output_names}
            return ChannelSwap(_confidence(interpreter.run(exchanged)) - _confidence(plain), counted, observed)

        return lambda unit: [one(index) for index in unit]


def examine_values(given: SampleSource, pool: Pool, context: PassContext, *, checks: bool, force: bool) -> Findings:
    """Compute statistics of all samples, each once, without running the network. Raises CalibrationError with `checks`
    for samples without content, unless with `force`.
    """
    samples = distinct(given)
    units = small_units_of(len(samples.source))
    results = context.progress(pool.map(StatisticsJob(samples.source), units), "looking at samples", len(units))
    found = examined(samples, [entry for unit in results for entry in unit], CHECKS.few_samples)
    if found.useless and checks and not force:
        raise CalibrationError(f"{found.useless} Give real data, or calibrate anyway with --force.")
    for text in () if checks else found.left_out:
        context.remark(text)
    return found


def lint(
    network: PortableModule,
    found: Findings,
    pool: Pool,
    context: PassContext,
    counting: Counting,
    kept: Kept | None = None,
) -> Lint:
    """Check the values of all samples, and run some of them where that is informative. Raises CalibrationError where
    they contradict the described preprocessing.
    """
    samples, statistics = found.source, found.statistics
    _check_description(samples.inputs, statistics)
    histograms: Histograms = {}
    gains: list[float | None] = []
    runs = list[Seen]()
    for one in _channel_swaps(network, samples, pool, context, counting, kept or Kept()):
        if one is not None and None not in gains:
            merge_histograms(histograms, one.histograms)
            runs.append(one.seen)
        gains.append(None if one is None else one.gain)
    presets: list[str] = []
    if len(samples.inputs) == 1:
        presets += better_presets(network, samples, ends_of(statistics), pool, context)
    findings: list[str] = []
    for one in samples.inputs:
        own = [entry for entry in statistics if entry.name == one.name]
        findings += [*ill_fitting(one, own, CHECKS.few_samples), *(presets or _exchanged(one, gains))]
    findings += [*(() if findings else wrong_scales(network.module, samples)), *found.left_out, *found.remarks]
    if samples.inputs and len(samples) < CHECKS.few_samples:
        findings.append(f"Only {len(samples)} sample(s): ranges will be too narrow; 100 to 200 are usually enough.")
    return Lint(tuple(findings), histograms, runs)


def _channel_swaps(
    network: PortableModule, samples: SampleSource, pool: Pool, context: PassContext, counting: Counting, kept: Kept
) -> Iterator[ChannelSwap | None]:
    """The evidence of the first samples on the channel order: a few first, the others only if needed."""
    axis = _color_axis(samples.inputs, network.module)
    if axis is None:
        return
    count = color_samples(network.module, len(samples))
    job = ChannelSwapJob(network, samples, axis, counting, kept)
    units = units_of(count, 1)
    gains: list[float | None] = []
    quarter, half = count // 4 if count >= CHECKS.few_samples else 0, count // 2
    for begin, end, least in (
        (0, quarter, CHECKS.futile_early),
        (quarter, half, CHECKS.futile),
        (half, count, CHECKS.futile),
    ):
        part = units[begin:end]
        for found in context.progress(pool.map(job, part), "comparing channel orders", len(part)):
            gains += [None if one is None else one.gain for one in found]
            yield from found
        if _significance(gains) < least:
            return


def _check_description(inputs: Sequence[SampleInput], statistics: Sequence[InputStatistics]) -> None:
    found = [
        text for one in inputs for text in contradicted(one, [entry for entry in statistics if entry.name == one.name])
    ]
    if found:
        raise CalibrationError(
            f"{' '.join(found)} Give arrays as the network takes them, or transform the network with the preprocessing "
            "of the arrays (--preprocess, --mean, --scale)."
        )


def _exchanged(one: SampleInput, gains: Sequence[float | None]) -> Iterable[str]:
    known = [gain for gain in gains if gain is not None]
    if len(known) >= BUDGETS.least_colors and _significance(gains) >= CHECKS.surer:
        yield (
            f"Input '{one.name}': swapping red and blue makes the network more confident on "
            f"{sum(gain > 0 for gain in known)} of {len(known)} samples; check RGB against BGR."
        )


def _significance(gains: Sequence[float | None]) -> float:
    """The mean gain over its standard error; 0 where nothing is known."""
    return significance(np.array([gain for gain in gains if gain is not None]))


def _color_axis(inputs: Sequence[SampleInput], module: Module) -> int | None:
    """The axis of the only input's three color channels, where the network ends in one class vector."""
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or not is_classifier(module):
        return None
    (one,) = inputs
    axis = 1 if one.preprocess.layout == "nchw" else 3
    return axis if one.shape[axis] == 3 and np.dtype(one.dtype).kind == "f" else None


def _confidence(outputs: dict[str, Array]) -> float:
    """The margin of the best class over the second before a softmax; 0 where there is no class vector."""
    (array,) = outputs.values()
    values = np.sort(array.astype(np.float64).reshape(-1))
    if array.size != max(array.shape) or values.size < 3:
        return 0.0
    if values[0] >= 0 and abs(values.sum() - 1) < 1e-3:
        values = elementary.log(values + 1e-12)  # probabilities: as they were before the softmax
    return float(values[-1] - values[-2])
