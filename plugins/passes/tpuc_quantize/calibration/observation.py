"""Observe one float run of a sample for everything that tuning and bias correction need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from tpuc.api.evaluation import Array, Plan
from tpuc_driver.api.host import Job, PortableModule, SampleReader, SampleSource

from tpuc_quantize.calibration.output_sensitivity import Importance, Weigher
from tpuc_quantize.calibration.per_op_search import Candidates, Distances, Place, Tuner
from tpuc_quantize.metrics.taps import Measure
from tpuc_quantize.remedies.bias_correction import ProductMeans, product_means
from tpuc_quantize.simulation.network import FakeNetwork, Filters, State
from tpuc_quantize.tables.table import TensorThreshold

MANY_ELEMENTS = 1 << 23
"""Number of elements from which a network is observed in two halves: 32 MiB of values."""


@dataclass(frozen=True)
class Tuning:
    """The samples used for tuning, by place, with the seeds of their random signs; see `Tuner` for those that are
    `distant`, and `Weigher`.
    """

    seeds: Mapping[int, int]
    distant: frozenset[int]
    measure: Measure
    entries: Mapping[str, TensorThreshold]
    candidates: Mapping[str, Candidates]
    limits: Mapping[str, float]
    powers: Mapping[str, float]
    wide: Collection[str] = ()


@dataclass(frozen=True)
class Observation:
    """Observations of one sample: distances and sensitivities if it is used for tuning, means of products if it is used
    for biases.
    """

    distances: Distances = field(default_factory=dict[Place, Array])
    importance: Mapping[str, Importance] = field(default_factory=dict[str, Importance])
    products: Mapping[str, ProductMeans] = field(default_factory=dict[str, ProductMeans])


@dataclass(frozen=True)
class ObserveJob(Job[list[Observation]]):
    """`biased` are the places of samples for biases; `filters` are int8 filters shared by all threads of a process;
    `known` are all float values of some samples, by place.
    """

    network: PortableModule
    samples: SampleSource
    biased: frozenset[int]
    tuning: Tuning | None = None
    filters: Filters = field(default_factory=dict[int, "tuple[Array, Array]"])
    known: Mapping[int, Mapping[str, Array]] = field(default_factory=dict[int, "Mapping[str, Array]"])

    def prepare(self) -> Callable[[range], list[Observation]]:
        observer, reader = _Observer(self), SampleReader(self.samples)
        return lambda unit: [observer.observe(place, reader.read(place)) for place in unit]


class _Observer:
    def __init__(self, job: ObserveJob) -> None:
        self.net = net = FakeNetwork(job.network.module, stored=job.filters)
        self.job = job
        self.tuner, self.weigher = None, None
        if (tuning := job.tuning) is not None:
            self.tuner = Tuner(net, tuning.entries, tuning.candidates)
            self.weigher = Weigher(net, tuning.measure, tuning.limits, tuning.powers, tuning.wide)
        self.seeds = tuning.seeds if tuning is not None else dict[int, int]()
        self.distant = tuning.distant if tuning is not None else ()
        self.middle = _middle(net.plan)

    def observe(self, place: int, sample: Mapping[str, Array]) -> Observation:
        tuner, weigher, known = self.tuner, self.weigher, self.job.known.get(place)
        distances: dict[Place, Array] = {}
        products: dict[str, ProductMeans] = {}

        def see(index: int, state: State) -> None:
            if place in self.distant and tuner is not None:
                distances.update(tuner.step(index, state))
            if place in self.job.biased and (means := product_means(self.net, index, state)) is not None:
                products[self.net.plan.steps[index].operation.name] = means

        if place not in self.seeds or tuner is None or weigher is None:
            self.net.run(sample, integer=False, on_step=see, known=known)
            return Observation(products=products)
        state = self.net.run(sample, integer=False, on_step=see, keep=self._behind_middle(), known=known)
        if place in self.distant:
            distances.update(tuner.outputs(state))
        importance = weigher.weigh(self._parts(sample, state, known), self.seeds[place])
        return Observation(distances, importance, products)

    def _behind_middle(self) -> frozenset[int]:
        steps = self.net.plan.steps[self.middle :]
        slots = {slot for step in steps for slot in (*step.operands, *step.results)}
        tuning = self.job.tuning
        return frozenset(slots if tuning is None else slots.union(tuning.measure.slots))

    def _parts(
        self, sample: Mapping[str, Array], state: State, known: Mapping[str, Array] | None
    ) -> Iterator[tuple[int, State]]:
        yield self.middle, state
        yield 0, self.net.run(sample, integer=False, keep=True, steps=self.middle, known=known)


def _middle(plan: Plan) -> int:
    """The step after which half of the elements of a large network are computed, 0 for small ones: the first half is
    computed twice, so that memory holds one half at a time.
    """
    sizes = [sum(value.tensor.size for value in step.operation.results) for step in plan.steps]
    if sum(sizes) < MANY_ELEMENTS:
        return 0
    return next(index for index, total in enumerate(accumulate(sizes), 1) if total >= sum(sizes) / 2)
