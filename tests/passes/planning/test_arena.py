"""Memory plans of real networks: at the lower bound, checked apart from the planners, and explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import process_time

import pytest
from tpuc.api import (
    BufferInfo,
    MemoryPlan,
    PlannedPool,
    Planner,
    PluginError,
    PoolAllocation,
    PoolInfo,
    UsageError,
)
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES
from tpuc_driver.session import Session
from tpuc_plan.planners.arena import Lived, buffer_list, find_planner, make_plan
from tpuc_plan.planners.greedy import GREEDY
from tpuc_plan.planners.hill_climb import HillClimb
from tpuc_plan.usmp.planner import Pools, lower_constants, plan_program

from benchmarks.arena import show_network
from benchmarks.definitions import DEFINITIONS
from tests.families import each
from tests.passes.planning.planners.verify import check_plan

SMALL = ("blazeface", "mnist", "mobilenet_v1_0.25_128_bn")
LARGE = ("mobilenet_v2_1.0_224_dequant", "ultraface_slim_320", "yolox_nano_416", "yunet_n_320")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"
CHIPS = tuple(name for name in ("bm1684x", "cv183x") if Registry().has("tpuc.chips", name))


def verify(plan: MemoryPlan, pool: str) -> tuple[int, int]:
    """The peak of a pool, and the most that is live at once, from nothing but lives, sizes and offsets."""
    members = [buffer for buffer in plan.buffers if buffer.pool == pool]
    for one in members:
        for two in members:
            if one.name < two.name and one.first <= two.last and two.first <= one.last:
                apart = one.offset + one.size_bytes <= two.offset or two.offset + two.size_bytes <= one.offset
                assert apart, f"{one.name} and {two.name} overlap"
    points = {buffer.first for buffer in members}
    live = max((sum(b.size_bytes for b in members if b.first <= point <= b.last) for point in points), default=0)
    return max((buffer.offset + buffer.size_bytes for buffer in members), default=0), live


def network(name: str, data: Path | None, folder: Path) -> Path:
    if name in DEFINITIONS:
        path = folder / f"{name}.onnx"
        path.write_bytes(DEFINITIONS[name](1).SerializeToString())
        return path
    assert data is not None
    return data / "onnx" / f"{name}.onnx"


def check_everywhere(path: Path) -> None:
    """Ungrouped (every value between operators) and as each chip groups it."""
    module = Session().transform(path)
    placed = plan_program(lower_constants(module, ("c",)), Pools(), GREEDY)
    peak, live = verify(placed.workspace, "workspace")
    # Where the greedy orders miss the bound it takes a climb.
    if peak > live:
        placed = plan_program(lower_constants(module, ("c",)), Pools(), HillClimb())
        peak, live = verify(placed.workspace, "workspace")
    assert peak == live
    for chip in CHIPS:
        session = Session(chip=chip, quantize="f32" if chip == "bm1684x" else "bf16")
        plan = session.build(module).memory_plan
        assert plan is not None
        peak, live = verify(plan, "activations")
        assert peak == live


def test_digits_are_at_the_bound() -> None:
    check_everywhere(DIGITS)


@each("name", SMALL)
def test_networks_are_at_the_bound(name: str, model_data: Path, tmp_path: Path) -> None:
    check_everywhere(network(name, model_data, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_larger_networks_are_at_the_bound(name: str, model_data: Path, tmp_path: Path) -> None:
    check_everywhere(network(name, model_data, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_definitions_are_at_the_bound(name: str, tmp_path: Path) -> None:
    check_everywhere(network(name, None, tmp_path))


@each("chip", CHIPS)
def test_constants_lie_one_behind_the_other(chip: str) -> None:
    session = Session(chip=chip, quantize="f32" if chip == "bm1684x" else "bf16")
    plan = session.build(session.transform(DIGITS)).memory_plan
    assert plan is not None
    alignment = 4096 if chip == "bm1684x" else 16
    constants = [buffer for buffer in plan.buffers if buffer.pool == "weights"]
    assert len(constants) >= 4  # three convolutions and the classifier, tables of a softmax on the chip
    at = 0
    for buffer in constants:
        assert (buffer.offset, buffer.offset % alignment) == (at, 0)
        at = -(-(at + buffer.size_bytes) // alignment) * alignment


@each("chip", CHIPS)
def test_inputs_and_outputs_may_lie_alone(chip: str) -> None:
    pipelines = {
        **PIPELINES,
        "finalize": tuple(
            "assign-addresses{io-alone}" if name == "assign-addresses" else name for name in PIPELINES["finalize"]
        ),
    }
    session = Session(chip=chip, quantize="f32" if chip == "bm1684x" else "bf16", pipelines=pipelines)
    plan = session.build(session.transform(DIGITS)).memory_plan
    assert plan is not None
    verify(plan, "activations")
    bases = {pool.name: pool.address for pool in plan.pools}
    places = {b.name: (bases[b.pool] + b.offset, bases[b.pool] + b.offset + b.size_bytes) for b in plan.buffers}
    for name in ("image", "probabilities"):
        start, end = places.pop(name)
        assert all(end <= other_start or other_end <= start for other_start, other_end in places.values())


def test_the_table_of_networks_says_that_plans_are_at_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    if len(CHIPS) < 2:
        pytest.skip("needs both chips")
    show_network("digits", None)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["ungrouped", *["bm1684x"] * 3, *["cv183x"] * 2]
    assert all(line.endswith("at the bound (greedy)") for line in lines)


def test_two_hundred_tensors_take_milliseconds() -> None:
    # A residual network: each block's input lives to its end. Sizes as of feature maps that shrink.
    lived = [Lived(f"t{i}", 802_816 >> i // 50, i, i + (4 if i % 3 == 0 else 1)) for i in range(200)]
    buffers = buffer_list(lived, 4096)
    seconds = []
    for _ in range(5):
        start = process_time()
        plan = GREEDY.plan(buffers, [PoolInfo("ddr")])
        seconds.append(process_time() - start)
    peak = check_plan(buffers, [PoolInfo("ddr")], plan)["ddr"]
    assert peak == max(sum(b.size_bytes for b in lived if b.first <= p <= b.last) for p in range(200))
    assert min(seconds) < 0.04  # the aim is 20 ms on a quiet core


def plan_of(*buffers: BufferInfo, pools: Sequence[PoolInfo] = (PoolInfo("ram", None, 1, 4096),)) -> MemoryPlan:
    return make_plan(GREEDY, buffers, pools)


def test_a_plan_says_its_peak_its_bound_and_why() -> None:
    plan = plan_of(
        BufferInfo("a", 100, conflicts=frozenset({"b"})),
        BufferInfo("b", 60, conflicts=frozenset({"a", "c"})),
        BufferInfo("c", 90, conflicts=frozenset({"b"})),
    )
    assert plan.pools == (PlannedPool("ram", 4096, None, 160, 160),)
    assert {buffer.name: (buffer.offset, buffer.reason) for buffer in plan.buffers} == {
        "a": (0, "at the start of the pool, below 'b'; shares bytes with 'c', never live at the same time"),
        "b": (100, "above 'a'"),
        "c": (0, "at the start of the pool, below 'b'; shares bytes with 'a', never live at the same time"),
    }
    assert plan.text().splitlines()[:2] == [
        "planner 'greedy', 3 buffers",
        "pool 'ram': 160 B used, no plan needs less",
    ]


def test_a_buffer_that_fell_back_says_so() -> None:
    conflicts = frozenset({"a", "b"})
    both = [BufferInfo(name, 600, 1, conflicts - {name}, ("dtcm", "sram")) for name in ("a", "b")]
    plan = plan_of(*both, pools=[PoolInfo("dtcm", 1000), PoolInfo("sram")])
    assert plan.buffers[1].reason == "at the start of the pool; pool 'dtcm' has no room for it"


class Careless(Planner):
    """Everything at one place."""

    name = "careless"

    def __init__(self, **places: tuple[str, int]) -> None:
        self._places = places

    def plan(self, buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo]) -> dict[str, PoolAllocation]:
        return {name: PoolAllocation(*place) for name, place in self._places.items()}


@each(
    ("places", "fault"),
    [
        ({"a": ("ram", 0)}, "buffer 'b' has no place"),
        ({"a": ("ram", 0), "b": ("ram", 10)}, "buffer 'b' lies at 10, which is not a multiple of 4"),
        ({"a": ("ram", 0), "b": ("rom", 0)}, "buffer 'b' lies in pool 'rom', which is not one of its candidates"),
        ({"a": ("ram", 0), "b": ("ram", 96)}, "buffer 'b' ends at 104 of pool 'ram', which has 100 bytes"),
        ({"a": ("ram", 0), "b": ("ram", 4)}, "buffer 'a' overlaps 'b', which is live at the same time"),
    ],
)
def test_plans_of_any_planner_are_checked(places: Mapping[str, tuple[str, int]], fault: str) -> None:
    buffers = [BufferInfo("a", 8, 4, frozenset({"b"}), ("ram",)), BufferInfo("b", 8, 4, frozenset({"a"}), ("ram",))]
    with pytest.raises(PluginError) as caught:
        make_plan(Careless(**places), buffers, [PoolInfo("ram", 100), PoolInfo("rom")])
    assert str(caught.value) == f"planner 'careless': {fault}; use another planner and report this to its author"


def test_planners_take_options() -> None:
    table: Mapping[str, Planner] = {"greedy": GREEDY, "hill-climb": HillClimb()}
    assert find_planner(table.__getitem__, "greedy") is GREEDY
    assert find_planner(table.__getitem__, "hill-climb{moves=7,seed=3}") == HillClimb(moves=7, seed=3)


@each(
    ("text", "sentence"),
    [
        ("hill-climb{moves=7", "planner 'hill-climb{moves=7' has no closing brace; write NAME{option=value}."),
        ("hill-climb{time=7}", "planner 'hill-climb' has no option 'time'; it has moves, starts, seed."),
        ("greedy{moves=7}", "planner 'greedy' has no option 'moves'; it has none."),
        ("hill-climb{moves=all}", "planner 'hill-climb': option moves takes a whole number, not 'all'."),
    ],
)
def test_planner_options_that_make_no_sense_are_refused(text: str, sentence: str) -> None:
    table: Mapping[str, Planner] = {"greedy": GREEDY, "hill-climb": HillClimb()}
    with pytest.raises(UsageError) as caught:
        find_planner(table.__getitem__, text)
    assert str(caught.value) == sentence
