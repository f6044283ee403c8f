"""Searches calibration tables: proposes candidates and selects the one that keeps the outputs best."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from tpuc.api import CALIBRATION_TABLE, Calibrator, Module, PassContext
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Pool, PortableModule, SampleReader, SampleSource, units_of

from tpuc_quantize.calibration.candidate import Candidate, Entries
from tpuc_quantize.calibration.evaluator import Judge, states_of
from tpuc_quantize.calibration.observation import Observation, ObserveJob, Tuning
from tpuc_quantize.calibration.output_sensitivity import (
    Importance,
    choose_by_outputs,
    lowest_of,
    merged,
)
from tpuc_quantize.calibration.per_op_search import Candidates, Tuner, candidates_of, choose, total
from tpuc_quantize.calibration.range_margins import scores_of, with_whole_scores
from tpuc_quantize.importing.propagate_calibration import calibrated_copy
from tpuc_quantize.metrics.scores import CLEAR_GAIN_DB, CLEARLY_DB, Favour, Verdict, best_of
from tpuc_quantize.metrics.taps import slots_to_see
from tpuc_quantize.observers.collector import Kept
from tpuc_quantize.observers.duration import seconds_of
from tpuc_quantize.observers.held_out import MOST_OUTPUTS, spread, to_check, without
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.remedies.bias_correction import SHIFTS, ProductMeans, filter_shifts, find_shifts
from tpuc_quantize.remedies.channel_thresholds import (
    CHANNEL_THRESHOLDS,
    UNSEEN,
    channel_elements,
    choose_channels,
    eligible,
)
from tpuc_quantize.remedies.keep_tail_float import float_tail
from tpuc_quantize.remedies.round_weights import ROUNDING, rounding_lines
from tpuc_quantize.remedies.weight_rounding import changes_of, find_rounding
from tpuc_quantize.scaling.move_factors import FACTORS
from tpuc_quantize.simulation.network import FakeNetwork, Filters
from tpuc_quantize.tables.annotations import note_lines
from tpuc_quantize.tables.history import Entrant, Origin, Round
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

JUDGES, MOST_JUDGES = 4, 200
JUDGE_SECONDS = 0.25
"""Samples on which whole tables are compared: as many as take about so long, within these limits. With 200 instead of
48 five small networks were 1 dB nearer on data of their own in the median (-0.2 to 6.5).
"""
FILTER_SAMPLES = 8
"""Of those for biases: what filters alone take from means hardly differs between samples."""
LEAST_SAMPLES = 4
SAMPLE_SECONDS = 0.8
"""Samples for tuning and biases are no more than one run over takes so long, but at least `LEAST_SAMPLES`."""
DISTANCE_SECONDS = 0.2
"""Of those for tuning, no more tell distances, which take longest, than one run over takes so long; as many at least.
"""
MOST_KEPT = 1 << 23
"""Elements that are kept from the run that counts values, 32 MiB."""
ROUNDED = 16
"""Samples whose operands say how filters are rounded, or fewer of a network that takes long."""
QUICK_SECONDS = 3e-3
"""Filters of networks that run no longer are rounded so without being asked: it takes as long as 30 runs or more."""
FEW, FAR_FROM_MOST = 5e-3, 0.8
"""Network inputs are cut off where so few of their values lie above such a part of the largest. Pixels fill their
range; of keyword spotting one value in 400 is far below the others, and outputs are 6 dB nearer to float without it.
"""
MUCH_UNSEEN = 1.6
"""Thresholds that are cut far down reckon with values so much larger: what is looked for is rare."""
FAR = 4.0
"""Only what gains so much resolution is cut: samples rarely show how far values reach where something is found."""
FAR_BELOW = "thresholds by scores, far below the methods'"
_WHATEVER = TensorThreshold(1.0, -1.0, 1.0)


@dataclass(frozen=True)
class Refinement:
    """Samples for tuning and for biases (0: none), thresholds per value, and methods to compare with.

    With `headroom` thresholds are made for values so many times larger than the samples'; what is best on the samples
    does not count then. With `round_weights` filters of networks that take long are rounded by what they are
    multiplied with, too.
    """

    tune_num: int = 10
    tune_candidates: int = 10
    bias_num: int = 16
    others: tuple[Calibrator, ...] = ()
    headroom: float = 0.0
    round_weights: bool = False


@dataclass(frozen=True)
class Refined:
    """Thresholds of values and of some values' channels, bias shifts, samples that tuning used, and what decided.
    `factors` are those per channel that were moved before, `rounding` how integers of filters differ from the nearest.
    """

    entries: Entries
    channels: Mapping[str, Array]
    shifts: Mapping[str, Array]
    tuned: int
    reasons: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)
    factors: Mapping[str, Array] = field(default_factory=dict[str, Array])
    rounding: Mapping[str, Array] = field(default_factory=dict[str, Array])

    @property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """Sections of a table, of numbers per channel."""
        found = {FACTORS: self.factors, SHIFTS: self.shifts, CHANNEL_THRESHOLDS: self.channels}
        notes = {name: note_lines(values) for name, values in found.items() if values}
        return notes | ({ROUNDING: rounding_lines(self.rounding)} if self.rounding else {})


@dataclass
class Refiner:
    """One calibration's tuning. `tuned` is how many samples it used, `channels` the thresholds per channel that `tune`
    has settled on, `reasons` what decided, `rounds` the races.
    """

    module: Module
    context: PassContext
    pool: Pool
    progress: Progress
    options: Refinement
    tuned: int = 0
    reasons: list[str] = field(default_factory=list[str])
    rounds: list[Round] = field(default_factory=list[Round])
    channels: Mapping[str, Array] = field(default_factory=dict[str, Array])
    rounding: Mapping[str, Array] = field(default_factory=dict[str, Array])
    _importance: Mapping[str, Importance] = field(default_factory=dict[str, Importance])
    _verdict: Verdict | None = None
    _corrected: bool = True
    """Was the verdict on biases corrected for their filters?"""
    _biased: Sequence[int] | None = None
    _products: Sequence[Mapping[str, ProductMeans]] = ()
    _filters: Filters = field(default_factory=dict[int, "tuple[Array, Array]"])

    def tune(self, methods: Sequence[Candidate], given: frozenset[str]) -> Candidate:
        """The best of each method's thresholds as they are and tuned op by op, and the last one's tuned by what reaches
        the outputs.
        """
        methods = [with_whole_scores(one, self.module) for one in methods]
        settled = given | scores_of(self.module)
        places = self._spread(self._affordable(self.options.tune_num))
        self.tuned = len(places)
        if not self.tuned:
            return methods[0]
        self._round_filters(methods[0].entries)
        lowest = {
            name: min((one.entries[name] for one in methods), key=lambda entry: entry.threshold)
            for name in methods[0].entries
        }
        choices = candidates_of(lowest, self.options.tune_candidates)
        seen = self._observe(places, lowest, choices)
        tuner = Tuner(FakeNetwork(self.module), lowest, choices)
        distances = total(one.distances for one in seen)
        tuned = [
            one.through("tuned op by op", choose(tuner, distances, lowest, one.entries), choices) for one in methods
        ]
        importance = self._importance = merged(one.importance for one in seen)
        last = methods[-1] if len(methods) > 1 else tuned[-1]
        free = {name: one for name, one in importance.items() if name not in settled}
        if self.options.headroom:
            factor = self.options.headroom
            wide = choose_by_outputs(last.entries, free, factor)
            wide = {name: _larger(one, last.entries[name]) for name, one in wide.items()}
            made = last.through(f"for values {factor:g} times as large as the samples'", wide, free)
            return self._with_headroom(made, self._cut_far(made, last.entries, free), methods)
        made = self._made(tuned, last, free)
        if self._judge.measure.enough:
            cut = methods[0].through("logits as large as they have to be", self._judge.saturated(methods[0].entries))
            made.append(cut.named(f"{methods[0].name}, logits cut"))
        self.channels = self._by_channel(lowest)
        choice, verdict = self._best("tables", [*made, *methods], Favour(len(made)))
        choice, verdict = self._try_inputs(choice, verdict, given)
        self._verdict = self._without_channels(choice, verdict)
        self._corrected = bool(choice.shifts)
        return self._also_by_channel(choice)

    def _also_by_channel(self, choice: Candidate) -> Candidate:
        return choice.through("thresholds per channel beside it", choice.entries, self.channels)

    def _round_filters(self, entries: Entries) -> None:
        """Filters rounded by what they are multiplied with, where that is asked for or quick and outputs are clearly
        better for it; not by samples that do not show what is looked for.
        """
        is_quick = seconds_of(self.module) <= QUICK_SECONDS
        if self.options.headroom or not (is_quick or self.options.round_weights):
            return
        net = FakeNetwork(self.module)
        found = find_rounding(net, _read(self._source(self._spread(self._affordable(ROUNDED)))), self.pool)
        if not found:
            return
        nearest = self._judge.judge(entries, {})
        self._filters.update(found)
        rounded = self._judge.judge(entries, {}, nearest)
        self.context.log(f"filters: {len(found)} rounded by what they are multiplied with: {rounded}; {nearest} else")
        is_no_better = rounded.score < nearest.score + CLEAR_GAIN_DB or rounded.is_clearly_worse_than(nearest)
        entrants = [
            (f"{len(found)} filters rounded by what they are multiplied with", rounded),
            ("to the nearest", nearest),
        ]
        self._ran("filters", entrants, int(is_no_better))
        if is_no_better:
            self._filters.clear()
            return
        self.rounding = changes_of(net, found)
        said = f"outputs {rounded.decibels:.2f} dB instead of {nearest.decibels:.2f} dB"
        self.reasons.append(f"filters: {len(found)} rounded by what they are multiplied with: {said}")

    def _made(
        self, tuned: Sequence[Candidate], last: Candidate, importance: Mapping[str, Importance]
    ) -> list[Candidate]:
        """The methods' tables tuned op by op and by what reaches the outputs, with biases corrected for their filters;
        and one that is cut far, where that is another one, with them and without.
        """
        shifts = self._filter_shifts()
        choices = [one.named(f"{one.name}, tuned op by op", shifts) for one in tuned]
        by_outputs = last.through(
            "tuned by what reaches the outputs", choose_by_outputs(last.entries, importance), importance
        )
        mean = _between(by_outputs.entries, tuned[-1].entries)
        by_outputs = by_outputs.through("geometric mean with those op by op", mean, importance)
        choices.append(by_outputs.named("thresholds by outputs", shifts))
        deep = self._cut_far(by_outputs, last.entries, importance)
        if deep.entries != by_outputs.entries:
            choices += [deep.named(FAR_BELOW, shifts), deep.named(f"{FAR_BELOW}, plain biases")]
        return choices

    def _cut_far(self, made: Candidate, last: Entries, importance: Mapping[str, Importance]) -> Candidate:
        """The candidate, with thresholds far below its own where large values mean little, and logits that are no
        larger than they have to be.
        """
        entries = made.entries
        may_be_far = {
            name: one for name, one in importance.items() if lowest_of(one, last[name]) * FAR < entries[name].threshold
        }
        deep = choose_by_outputs(last, may_be_far, MUCH_UNSEEN, deep=True)
        far = {name: deep[name] for name in may_be_far if deep[name].threshold * FAR < entries[name].threshold}
        cut = made.through("cut far below, where large values mean little", {**entries, **far})
        return cut.through("logits as large as they have to be", self._judge.saturated(cut.entries))

    def _with_headroom(self, wide: Candidate, deep: Candidate, plain: Sequence[Candidate]) -> Candidate:
        """Thresholds with headroom, unless decisions on the samples are lost by them that the methods' keep, or those
        far below where large values mean little; by channel too, which is judged between equals.
        """
        factor = self.options.headroom
        shifts = self._filter_shifts()
        choices = [wide.named(f"for values {factor:g} times as large as the samples'", shifts)]
        if deep.entries != wide.entries:
            choices.append(deep.named(FAR_BELOW, shifts))
        choices += [one.named(one.name, shifts) for one in plain]
        costs = CLEARLY_DB + 20 * math.log10(max(factor, 1.0))
        self.channels = self._by_channel(wide.entries)
        choice, verdict = self._best("tables", choices, Favour(1, math.inf, costs))
        self._verdict = self._without_channels(choice, verdict)
        return self._also_by_channel(choice)

    def _best(
        self, kind: str, choices: Sequence[Candidate], favour: Favour | None = None, known: Verdict | None = None
    ) -> tuple[Candidate, Verdict]:
        """The best one, and the verdict on it; `known` is that on the last. What is equal is judged once."""
        verdicts: list[Verdict] = []
        last = [] if known is None else [known]
        for one in choices[: len(choices) - len(last)]:
            others = [*zip(choices, verdicts, strict=False), *zip(choices[-1:], last, strict=False)]
            found = next((verdict for other, verdict in others if one.is_like(other)), None)
            if found is None:
                seen = [*verdicts, *last]
                found = self._judge.judge(one.entries, one.shifts, seen[best_of(seen)] if seen else None)
            verdicts.append(found)
        verdicts += last
        for one, verdict in zip(choices, verdicts, strict=True):
            self.context.log(f"{kind}: {one.name}: {verdict}")
        place = best_of(verdicts, favour)
        self._ran(kind, [(one.name, verdict) for one, verdict in zip(choices, verdicts, strict=True)], place)
        self.reasons.append(f"{kind}: {choices[place].name}, of {len(choices)} compared: {verdicts[place]}")
        return choices[place], verdicts[place]

    def _ran(self, kind: str, entrants: Sequence[tuple[str, Verdict]], place: int) -> None:
        found = tuple(Entrant(name, str(verdict), at == place) for at, (name, verdict) in enumerate(entrants))
        self.rounds.append(Round(kind, found))

    def _affordable(self, count: int) -> int:
        """As many samples, or fewer of a network that takes long."""
        return min(count, max(LEAST_SAMPLES, int(SAMPLE_SECONDS / seconds_of(self.module))))

    def _try_inputs(self, choice: Candidate, verdict: Verdict, given: frozenset[str]) -> tuple[Candidate, Verdict]:
        """Network inputs of which few values are large, cut off where outputs are clearly better for it: halfway down
        to where the others end, and there.
        """
        entries = dict(choice.entries)
        ends = {name: self._end_of_most(name) for name in self._importance if name in given}
        ends = {name: end for name, end in ends.items() if 0.0 < end < FAR_FROM_MOST * entries[name].threshold}
        ran = [("inputs as they are", verdict)]
        for way, where in ((0.5, "halfway to most values"), (1.0, "where most values end")) if ends else ():
            changed = entries | {
                name: dataclasses.replace(entries[name], threshold=entries[name].threshold ** (1 - way) * end**way)
                for name, end in ends.items()
            }
            cut = self._judge.judge(changed, choice.shifts, verdict)
            self.context.log(f"{len(ends)} inputs cut off: {cut}")
            ran.append((f"inputs cut off {where}", cut))
            if cut.score < verdict.score + CLEAR_GAIN_DB or cut.is_clearly_worse_than(verdict):
                break
            choice, verdict = choice.through(f"input cut off {where}", changed), cut
        if ends:
            self._ran("inputs", ran, next(place for place, (_, one) in enumerate(ran) if one is verdict))
        return choice, verdict

    def _end_of_most(self, name: str) -> float:
        """The magnitude up to which all but few values reach."""
        seen = self.progress.histograms[name].statistics()
        below = seen.zeros + np.cumsum(seen.counts)
        return seen.absmax * int(np.count_nonzero(below < (1 - FEW) * below[-1])) / seen.counts.size

    def _by_channel(self, entries: Entries) -> dict[str, Array]:
        """Thresholds per channel of all values that may have them."""
        found: dict[str, Array] = {}
        for name, one in self._importance.items():
            if one.channels is not None and entries[name].threshold > 0:
                entry = entries[name]
                limit = max(-entry.minimum, entry.maximum)
                signed, headroom = entry.minimum < 0, self.options.headroom or UNSEEN
                found[name] = choose_channels(one.channels, limit, entry.threshold, signed=signed, headroom=headroom)
        return found

    def _without_channels(self, choice: Candidate, verdict: Verdict) -> Verdict:
        """No thresholds per channel unless outputs are clearly better for them; returns the verdict on what was taken.
        They are there while tables are compared: without those that need them all tables are equally bad.
        """
        if not self.channels:
            return verdict
        channels, self.channels = self.channels, {}
        without = self._judge.judge(choice.entries, choice.shifts, verdict)
        self.context.log(f"no thresholds per channel of {len(channels)} values: {without.decibels:.2f} dB")
        is_no_better = verdict.score < without.score + CLEAR_GAIN_DB or verdict.is_clearly_worse_than(without)
        entrants = [(f"thresholds per channel of {len(channels)} values", verdict), ("none per channel", without)]
        self._ran("channels", entrants, int(is_no_better))
        if is_no_better:
            return without
        self.channels = channels
        return verdict

    def _observe(self, tuned: Sequence[int], entries: Entries, choices: Mapping[str, Candidates]) -> list[Observation]:
        """The samples for tuning, as they were seen; what is seen of those for biases is kept."""
        biased = self._spread(self._affordable(self.options.bias_num))
        places = sorted({*tuned, *biased})
        plain = self._calibrated(dict.fromkeys(self.progress.histograms, _WHATEVER))
        limits = {name: max(-one.minimum, one.maximum) for name, one in entries.items()}
        distant = max(LEAST_SAMPLES, int(DISTANCE_SECONDS / seconds_of(self.module)))
        tuning = Tuning(
            tuple(places.index(place) for place in tuned),
            frozenset(places.index(tuned[place]) for place in spread(len(tuned), distant)),
            self._judge.measure,
            entries,
            choices,
            {name: limit for name, limit in limits.items() if limit > 0},
            {**self._powers(), **self._judge.powers()},
            frozenset(value.name for value in eligible(plain)),
        )
        job = ObserveJob(
            PortableModule(plain, self.context.registry),
            self._source(places),
            frozenset(places.index(place) for place in biased),
            tuning if tuned else None,
            self._filters,
        )
        units = units_of(len(places), 1)  # there are few samples, and each is much work
        results = self.context.progress(self.pool.map(job, units), "calibrating: tuning", len(units))
        seen = [one for unit in results for one in unit]
        self._biased = biased
        self._products = [seen[places.index(place)].products for place in biased]
        return [seen[places.index(place)] for place in tuned]

    def _powers(self) -> dict[str, float]:
        """The mean squares of counted values."""
        found = self.progress.histograms if self.progress.counting.counting else {}
        return {name: one.statistics().mean_square for name, one in found.items()}

    def shifts(self, entries: Entries) -> dict[str, Array]:
        """Per product what its bias should gain: the mean error of its filters and half of what else int8 leaves up to
        there, unless outputs are clearly better for less or all of it: what is found on a few samples is partly chance,
        and the outputs of a network that is mostly noise would be the mean. Samples that show nothing say nothing.
        """
        if self._biased is None:
            self._observe((), {}, {})
        if not self._biased:
            return {}
        filters = Candidate("corrected for their filters", entries, self._filter_shifts())
        none = Candidate("not corrected", entries)
        choices = [none, filters] if self._corrected else [filters, none]
        if self.options.headroom:
            return dict(self._best("biases", choices, known=self._verdict)[0].shifts)
        samples = _read(self._source(self._biased))
        left = find_shifts(self._quantised(entries), samples, self._products, self.pool, self.context.progress)
        halfway = {name: (one + filters.shifts[name]) / 2 for name, one in left.items()}
        half = Candidate("corrected for their filters and half of what else int8 leaves", entries, halfway)
        all_of_it = Candidate("corrected for all that int8 leaves", entries, left)
        return dict(self._best("biases", [half, all_of_it, *choices], Favour(1), self._verdict)[0].shifts)

    def _filter_shifts(self) -> dict[str, Array]:
        """They do not depend on thresholds."""
        every = max(len(self._products) // FILTER_SAMPLES, 1)
        return filter_shifts(self._products[::every])

    @cached_property
    def _judge(self) -> Judge:
        places = _judging(self.progress, self.module)
        known = states_of(FakeNetwork(self.module), (self.progress.outputs.get(place) for place in places))
        return Judge(self.module, _read(self._source(places)), self._quantised, self.pool, known)

    def _calibrated(self, entries: Entries) -> Module:
        context = dataclasses.replace(self.context, results={CALIBRATION_TABLE: CalibrationTable(entries)})
        return calibrated_copy(self.module, context)

    def _quantised(self, entries: Entries) -> FakeNetwork:
        calibrated = self._calibrated(entries)
        floats = float_tail(calibrated) if self._judge.measure.is_far else frozenset[str]()
        net = FakeNetwork(calibrated, stored=self._filters, floats=floats)
        net.set_elements(channel_elements(eligible(calibrated), self.channels))
        return net

    def _spread(self, count: int) -> list[int]:
        return _spread(self.progress, count)

    def _source(self, places: Sequence[int]) -> SampleSource:
        samples = self.progress.samples
        return dataclasses.replace(samples, samples=tuple(samples.samples[place] for place in places))


def _spread(progress: Progress, count: int, *, skip_first: bool = False) -> list[int]:
    """So many samples that can be read, evenly over the data set; `skip_first`: from the middles between those."""
    usable = [index for index in range(len(progress.samples)) if index not in progress.skipped]
    step = max(len(usable) / count, 1.0) if count else 0.0
    first = step / 2 if skip_first else 0.0
    places = [int(first + step * place) for place in range(min(count, len(usable)))]
    return [usable[place % len(usable)] for place in places]


def _judging(progress: Progress, module: Module) -> list[int]:
    """The places of the samples on which tables are compared."""
    count = max(JUDGES, min(MOST_JUDGES, int(JUDGE_SECONDS / seconds_of(module))))
    return _spread(progress, count, skip_first=True)


def kept_for(module: Module, progress: Progress, held_out: Sequence[int] = (), *, checks: bool = False) -> Kept:
    """What the run that counts values should keep for the judge, for some of those that will be held out if all samples
    can be read, and where a check follows without such for the samples that it looks at; nothing where that is much.
    """
    checked = to_check(progress.samples, module) if checks and not held_out else ()
    net = FakeNetwork(module)
    slots = slots_to_see(net)
    places = frozenset([*_judging(without(progress, held_out), module), *held_out[:MOST_OUTPUTS]])
    names = frozenset(net.plan.names[slot] for slot in slots if slot in net.plan.names)
    steps = [step for step in net.plan.steps if not names.isdisjoint(value.name for value in step.operation.results)]
    size = sum(value.tensor.size for step in steps for value in step.operation.results)
    found = (Kept(one, names) for one in (places.union(checked), places) if len(one) * size <= MOST_KEPT)
    return next(found, Kept())


def _larger(one: TensorThreshold, other: TensorThreshold) -> TensorThreshold:
    return one if one.threshold >= other.threshold else other


def _between(one: Entries, other: Entries) -> dict[str, TensorThreshold]:
    """The geometric means of thresholds: two estimates with errors of their own are better together."""
    return {
        name: dataclasses.replace(entry, threshold=math.sqrt(entry.threshold * other[name].threshold))
        for name, entry in one.items()
    }


def _read(samples: SampleSource) -> list[Mapping[str, Array]]:
    reader = SampleReader(samples)
    return [reader.read(index) for index in range(len(samples))]
