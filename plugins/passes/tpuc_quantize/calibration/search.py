"""The state that proposers work on: samples, the methods' tables, observations, and the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from tpuc.api import CALIBRATION_TABLE, Module, PassContext
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Pool, PortableModule, SampleReader, SampleSource, units_of

from tpuc_quantize.calibration.candidate import Candidate, Entries
from tpuc_quantize.calibration.evaluator import Evaluator, Score, states_of
from tpuc_quantize.calibration.observation import Observation, ObserveJob, Tuning
from tpuc_quantize.calibration.output_sensitivity import Importance, choose_by_outputs, merged
from tpuc_quantize.calibration.per_op_search import Candidates, Tuner, candidates_of, choose, total
from tpuc_quantize.calibration.range_margins import scores_of
from tpuc_quantize.importing.propagate_calibration import calibrated_copy
from tpuc_quantize.metrics.taps import slots_to_see
from tpuc_quantize.observers.collector import Kept
from tpuc_quantize.observers.held_out import MOST_OUTPUTS, to_check, without
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.options.budgets import BUDGETS, affordable, operations_of
from tpuc_quantize.remedies.bias_correction import ProductMeans, corrected_ops, filter_shifts
from tpuc_quantize.remedies.channel_thresholds import channel_elements, eligible
from tpuc_quantize.remedies.keep_tail_float import float_tail
from tpuc_quantize.simulation.network import FakeNetwork, Filters
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

MOST_KEPT = 1 << 23
"""Elements kept from the counting run: 32 MiB."""
MOST_WHOLE = 72 << 20
"""Elements of whole samples kept from the counting run until they are observed: 288 MiB; others are recomputed."""
T = TypeVar("T")
_WHATEVER = TensorThreshold(1.0, -1.0, 1.0)


@dataclass(frozen=True)
class Settings:
    """Numbers of samples for tuning and biases (0: none), and thresholds per value.

    With `headroom`, thresholds are made for values that many times larger than the samples'; the best table on the
    samples does not count then. `round_weights` rounds filters of slow networks, too.
    """

    tune_num: int = 16
    tune_candidates: int = 10
    bias_num: int = 16
    headroom: float = 0.0
    round_weights: bool = False


class Observed(NamedTuple):
    """Observations of the float network: distances of results by threshold, sensitivities of the outputs, and means of
    products on the samples at the places `biased`.
    """

    tuner: Tuner
    tuning: Sequence[Observation]
    products: Sequence[Mapping[str, ProductMeans]]
    biased: Sequence[int]


@dataclass
class Search:
    """The search for a table of one network. `methods` are the tables of range estimators; values in `given` (inputs,
    and integers that count things) keep their largest magnitude. `best` is the candidate selected so far, `score`
    its score where known. `equalized` creates the search of the network with channel factors moved.
    """

    module: Module
    context: PassContext
    pool: Pool
    progress: Progress
    settings: Settings
    methods: Sequence[Candidate]
    given: frozenset[str]
    best: Candidate
    equalized: Callable[[Mapping[str, Array]], Search]
    score: Score | None = None
    _stored: dict[bool, Filters] = field(default_factory=dict[bool, Filters])
    _made: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def cached(self, make: Callable[[Search], T]) -> T:
        """The result of a function of this search, computed on first use."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    def samples(self, places: Sequence[int]) -> list[Mapping[str, Array]]:
        """The samples at these places."""
        source = self._source(places)
        reader = SampleReader(source)
        return [reader.read(index) for index in range(len(source))]

    def observable(self, count: int) -> list[int]:
        """The places of that many samples, fewer for slow networks."""
        return _observed(self.progress, self.module, count)

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator, with samples of its own."""
        places = _evaluated(self.progress, self.module)
        known = states_of(FakeNetwork(self.module), (self.progress.outputs.get(place) for place in places))
        return Evaluator(self.module, self.samples(places), self.quantized, self.pool, known)

    def quantized(self, candidate: Candidate) -> FakeNetwork:
        """The network with a candidate's thresholds and rounding, and unchanged biases."""
        calibrated = self._calibrated(candidate.entries)
        floats = float_tail(calibrated) if self.evaluator.measure.is_far else frozenset[str]()
        net = FakeNetwork(calibrated, stored=self._filters(candidate.rounding), floats=floats)
        net.set_elements(channel_elements(eligible(calibrated), candidate.channels or {}))
        return net

    def _filters(self, rounding: Filters | None) -> Filters:
        """The cache of int8 filters shared by all networks with this rounding."""
        if bool(rounding) not in self._stored:
            self._stored[bool(rounding)] = {**self._stored.get(False, {}), **(rounding or {})}
        return self._stored[bool(rounding)]

    def _calibrated(self, entries: Entries) -> Module:
        context = replace(self.context, results={CALIBRATION_TABLE: CalibrationTable(entries)})
        return calibrated_copy(self.module, context)

    @cached_property
    def lowest(self) -> Entries:
        """The lowest threshold of any method, by value."""
        first, *_ = self.methods
        return {
            name: min((one.entries[name] for one in self.methods), key=lambda entry: entry.threshold)
            for name in first.entries
        }

    @cached_property
    def observed(self) -> Observed:
        """One float run over the samples for tuning and those for biases."""
        tuned, biased = (self.observable(count) for count in (self.settings.tune_num, self.settings.bias_num))
        known = {} if self.best.rounding else self.progress.products
        plain = self._calibrated(dict.fromkeys(self.progress.histograms, _WHATEVER))
        missing = [place for place in biased if place not in known]
        places = sorted({*tuned, *missing})
        choices = candidates_of(self.lowest, self.settings.tune_candidates) if tuned else {}
        at, keys = {place: index for index, place in enumerate(places)}, self.progress.keys
        job = ObserveJob(
            PortableModule(plain, self.context.registry),
            self._source(places),
            frozenset(at[place] for place in missing),
            self._tuning({at[place]: int(keys[place], 16) for place in tuned}, plain, choices) if tuned else None,
            self._filters(self.best.rounding),
            {at[place]: values for place, values in self.progress.values.items() if place in at},
        )
        units = units_of(len(places), 1)  # there are few samples, and each is much work
        results = self.context.progress(self.pool.map(job, units), "calibrating: tuning", len(units))
        observed = [one for unit in results for one in unit]
        self.progress.values.clear()
        tuner = Tuner(FakeNetwork(self.module), self.lowest, choices)
        names = corrected_ops(FakeNetwork(plain)) if known else frozenset[str]()
        found = {place: {name: own for name, own in one.items() if name in names} for place, one in known.items()}
        products = [observed[at[place]].products if place in missing else found[place] for place in biased]
        return Observed(tuner, [observed[at[one]] for one in tuned], products, biased)

    def _tuning(self, seeds: Mapping[int, int], plain: Module, choices: Mapping[str, Candidates]) -> Tuning:
        limits = {name: max(-one.minimum, one.maximum) for name, one in self.lowest.items()}
        distant = affordable(self.module, BUDGETS.evaluation, len(seeds))
        found = self.progress.histograms if self.progress.counting.counting else {}
        powers = {name: one.statistics().mean_square for name, one in found.items()}
        return Tuning(
            seeds,
            frozenset([*seeds][:distant]),
            self.evaluator.measure,
            self.lowest,
            choices,
            {name: limit for name, limit in limits.items() if limit > 0},
            {**powers, **self.evaluator.powers()},
            frozenset(value.name for value in eligible(plain)),
        )

    @cached_property
    def importance(self) -> dict[str, Importance]:
        """The sensitivity of the outputs by value, over all samples for tuning."""
        return merged(one.importance for one in self.observed.tuning)

    @cached_property
    def free(self) -> dict[str, Importance]:
        """The values whose thresholds are not fixed beforehand."""
        frozen = self.given | scores_of(self.module)
        return {name: one for name, one in self.importance.items() if name not in frozen}

    @cached_property
    def filter_shifts(self) -> Mapping[str, Array]:
        """The mean errors that rounding filters alone causes, whatever the thresholds."""
        products = self.observed.products
        return filter_shifts(products[:: max(len(products) // BUDGETS.alike, 1)])

    @cached_property
    def tuned_per_op(self) -> list[Candidate]:
        """Each method's table after per-op search."""
        tuner, distances = self.observed.tuner, total(one.distances for one in self.observed.tuning)
        return [
            one.through("tuned op by op", choose(tuner, distances, self.lowest, one.entries), tuner.candidates)
            for one in self.methods
        ]

    @cached_property
    def last(self) -> Candidate:
        """The starting point for tuning by outputs: the last method's table, tuned per op where there is only one
        method.
        """
        return self.methods[-1] if len(self.methods) > 1 else self.tuned_per_op[-1]

    def by_outputs(self, importance: Mapping[str, Importance], headroom: float, *, aggressive: bool = False) -> Entries:
        """The last method's table with the thresholds that cost the outputs least, for values in `importance`."""
        return choose_by_outputs(self.last.entries, importance, headroom, aggressive=aggressive)

    def _source(self, places: Sequence[int]) -> SampleSource:
        samples = self.progress.samples
        return replace(samples, samples=tuple(samples.samples[place] for place in places))


def _observed(progress: Progress, module: Module, count: int) -> list[int]:
    """The places of that many samples, fewer for slow networks."""
    return progress.usable[: affordable(module, BUDGETS.observation, count)]


def _evaluated(progress: Progress, module: Module) -> list[int]:
    """The places of the samples on which tables are compared, others than those observed if there are enough."""
    return progress.usable[-affordable(module, BUDGETS.evaluation, BUDGETS.most_evaluated) :]


def kept_for(
    module: Module, progress: Progress, settings: Settings, held_out: Sequence[int] = (), *, checks: bool = False
) -> Kept:
    """What the counting run keeps for the evaluator, for some of the samples that will be held out if all samples are
    readable, and for those that a later check uses, or all of them; nothing where that is too much. See
    `_kept_of_observed` for observed samples.
    """
    checked = to_check(progress.samples, module) if checks and not held_out else ()
    net = FakeNetwork(module)
    slots = slots_to_see(net)
    places = frozenset([*_evaluated(without(progress, held_out), module), *held_out[:MOST_OUTPUTS]])
    names = frozenset(net.plan.names[slot] for slot in slots if slot in net.plan.names)
    steps = [step for step in net.plan.steps if not names.isdisjoint(value.name for value in step.operation.results)]
    size = sum(value.tensor.size for step in steps for value in step.operation.results)
    every = frozenset(progress.usable if checks else ())
    found = (
        Kept(one, names) for one in (every | places, places.union(checked), places) if len(one) * size <= MOST_KEPT
    )
    return replace(next(found, Kept()), **_kept_of_observed(net, without(progress, held_out), settings))


def _kept_of_observed(net: FakeNetwork, progress: Progress, settings: Settings) -> dict[str, frozenset[int]]:
    """The places of samples of which all values are kept, and of those whose means of products are kept."""
    tuned, biased = (_observed(progress, net.module, count) for count in (settings.tune_num, settings.bias_num))
    size = sum(value.tensor.size for step in net.plan.steps for value in step.operation.results)
    # Means depend on how filters are rounded.
    means = frozenset[int]() if rounds_weights(net.module, settings) else frozenset(biased)
    places = [*dict.fromkeys([*tuned, *(place for place in biased if place not in means)])]
    return {"whole": frozenset(places[: MOST_WHOLE // max(size, 1)]), "biased": means}


def rounds_weights(module: Module, settings: Settings) -> bool:
    """True if filters are rounded by the second moments of their operands."""
    return settings.round_weights or operations_of(module) <= BUDGETS.quick
