"""Plans on a chip with several timing profiles: what is taken loses little in any of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tpuc.api import Box, Engine, Layouts, Node, Phase, PlacedTile, Space, Tile
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_plan import module_planner
from tpuc_plan.profiles import least_loss
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.plan import Plan
from tpuc_plan.tasks.resident_tiling import resident_tiling

from tests.families import each
from tests.passes.planning.test_cascades import Drawn
from tests.passes.planning.tiny import TinyChip, TinyConv, conv_task

PROFILES = ("vendor", "measured")


@each(
    ("plans", "taken"),
    [
        ([(100, 100), (90, 150)], 0),  # 100/90 against 150/100
        ([(1008, 1000), (1000, 1000)], 0),  # less than addresses change
        ([(1012, 1000), (1000, 1000)], 1),
        ([(100, 130), (110, 100)], 1),  # 130/100 against 110/100
        ([(100, 200), (120, 120), (200, 100)], 1),  # neither of the two that are best somewhere
        ([(100, 100), (100, 100)], 0),
        ([(), (300, 300)], 1),  # the first one has no place for its buffers
        ([(), ()], 0),
        ([(0, 10), (5, 10)], 0),  # nothing to do at all in one profile
    ],
)
def test_the_plan_with_the_smallest_worst_ratio(plans: Sequence[Sequence[int]], taken: int) -> None:
    assert least_loss(plans) == taken


class _Pointwise(TinyConv):
    """A convolution of 1×1 that writes parts of its result in place; its instruction knows its extents."""

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (n, n1), (k, k1), (h, h1), (w, w1) = (tile.range(axis) for axis in "nkhw")
        return [Box((n, k, h, w), (n1 - n, k1 - k, h1 - h, w1 - w)), None]

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned", ""), ("aligned",), strided_results=frozenset({0}))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Any) -> None:
        asm.instructions.append(SimpleNamespace(engine=Engine.COMPUTE, shape=placed.result.shape))


class _TwoClocks(TinyChip):
    """In one profile a tile takes a cycle for each place of a plane, in the other for each channel."""

    profiles = ("places", "channels")

    def cycles(self, instruction: Any, profile: str) -> int:
        _, c, h, w = instruction.shape
        return h * w if profile == "places" else c


def test_a_resident_value_is_cut_by_the_profile_that_is_asked() -> None:
    task = conv_task(1, 8, 4, 4, 4, _Pointwise(), _TwoClocks())
    tilings: dict[str, tuple[int, int]] = {}
    for profile in _TwoClocks.profiles:
        found = resident_tiling(task, 2, Cycles(task.chip, (profile,)))
        assert found is not None
        tilings[profile] = (found[0].sizes["c"], found[0].sizes["h"])
    # All channels of 2 rows, twice: 16 places, 16 channels. 4 channels of all rows, twice: 32 places, 8 channels.
    assert tilings == {"places": (8, 2), "channels": (4, 4)}


@pytest.mark.skipif(not Registry().has("tpuc.chips", "cv183x"), reason="chip cv183x is not installed")
@each(("seed", "gains", "order"), [(2, True, ["measured"]), (6, True, ["measured"]), (7, False, None)])
def test_no_profile_is_forgotten(
    seed: int, gains: bool, order: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = tmp_path / "drawn.onnx"
    network.write_bytes(Drawn(seed).model().SerializeToString())
    found: dict[tuple[str, ...], list[int]] = {}
    for profiles in ((PROFILES[0],), (PROFILES[1],), PROFILES):
        session = Session(chip="cv183x", quantize="bf16")
        monkeypatch.setattr(session.chip, "profiles", profiles)
        final, data, *_ = session.build(session.transform(network), None)
        loaded = session.chip.load(data)
        found[profiles] = [loaded.timeline(name).cycles for name in PROFILES]
    best = [min(times) for times in zip(*found.values(), strict=True)]
    worst = {key: max(a / b for a, b in zip(times, best, strict=True)) for key, times in found.items()}
    # One percent is not acted upon; another one because the addresses in DDR are not known when plans are compared.
    assert worst[PROFILES] <= 1.02 * min(worst.values())
    assert (worst[PROFILES] < worst[PROFILES[:1]]) == gains
    assert Plan.of(final).order_profiles == tuple(order or ())


def test_one_profile_is_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Registry().has("tpuc.chips", "bm1684x"):
        pytest.skip("chip bm1684x is not installed")
    plans: list[object] = []
    fastest = module_planner.ModulePlanner._fastest  # pyright: ignore[reportPrivateUsage]

    def counted(planner: module_planner.ModulePlanner) -> Plan:
        plans.append(planner)
        return fastest(planner)

    monkeypatch.setattr(module_planner.ModulePlanner, "_fastest", counted)
    monkeypatch.delattr(module_planner, "times_of")  # nothing is compared
    network = tmp_path / "drawn.onnx"
    drawn = next(one for one in map(Drawn, range(9)) if one.shape[0] == 1)  # batches are also planned by images
    network.write_bytes(drawn.model().SerializeToString())
    session = Session(chip="bm1684x", quantize="f16")
    final = session.build(session.transform(network), None).module
    assert len(plans) == 1
    assert not Plan.of(final).order_profiles
