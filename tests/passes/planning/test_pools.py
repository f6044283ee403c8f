"""Pools as users spell them, which pool a buffer may lie in, and the five steps of unified planning."""

from __future__ import annotations

import pytest
from tpuc.api import PoolAllocation, PoolInfo, TpucError, UsageError
from tpuc_plan.planners.arena import make_plan
from tpuc_plan.planners.greedy import GREEDY
from tpuc_plan.usmp.planner import (
    Call,
    Program,
    ProgramTensor,
    analyze,
    buffer_array,
    plan_program,
    rewrite,
    shared_pools,
)
from tpuc_plan.usmp.pools import PARAMETER, WORKSPACE, Pools, read_pools

from tests.families import each

TARGETS = ("accel", "c")


def program(*calls: Call, sizes: dict[str, int | None], constants: dict[str, bytes] | None = None) -> Program:
    tensors = {name: ProgramTensor(name, size) for name, size in sizes.items()}
    tensors |= {name: ProgramTensor(name, len(data), data) for name, data in (constants or {}).items()}
    return Program("net", ("x",), ("y",), tensors, calls)


def test_the_strings_of_the_rfc_are_read() -> None:
    pools = read_pools(
        {
            "usmp-workspace-pools": "dtcm,sram",
            "usmp-parameter-pools": "itcm,flash",
            "usmp-workspace-pool-dtcm": "target=c;size=1000",
            "usmp-workspace-pool-sram": "target=c,accel",
            "usmp-parameter-pool-itcm": "target=c;size=5000",
            "usmp-parameter-pool-flash": "target=c,accel",
        },
        TARGETS,
    )
    assert pools == Pools(
        (PoolInfo("dtcm", 1000, target_access={"c": "rw"}), PoolInfo("sram", target_access={"c": "rw", "accel": "rw"})),
        (
            PoolInfo("itcm", 5000, target_access={"c": "ro"}),
            PoolInfo("flash", target_access={"c": "ro", "accel": "ro"}),
        ),
    )
    shared = read_pools({"usmp-workspace-pools": "sram", "usmp-workspace-pool-sram": "target=c:rw,accel:rw"}, TARGETS)
    assert shared.workspace == (PoolInfo("sram", target_access={"c": "rw", "accel": "rw"}),)


@each(
    "text",
    ["target=c:rw,accel:ro;size=1000", "target=c:rw,accel:ro,size=1000", "size=1000;target=c:rw;target=accel:ro"],
)
def test_semicolons_and_commas_both_separate(text: str) -> None:
    pools = read_pools({"usmp-workspace-pools": "sram", "usmp-workspace-pool-sram": text}, TARGETS)
    assert pools.workspace == (PoolInfo("sram", 1000, target_access={"c": "rw", "accel": "ro"}),)


@each(("text", "size"), [("64k", 65536), ("2M", 2 << 20), ("1GiB", 1 << 30), ("17", 17)])
def test_sizes_have_units(text: str, size: int) -> None:
    pools = read_pools({"usmp-workspace-pools": "a", "usmp-workspace-pool-a": f"size={text};alignment=8"}, TARGETS)
    assert pools.workspace == (PoolInfo("a", size, 8),)


@each(
    ("options", "sentence"),
    [
        ({"usmp-workspace-pools": "a,a"}, "--usmp-workspace-pools names 'a' twice; keep one."),
        (
            {"usmp-workspace-pools": "a-b"},
            "--usmp-workspace-pools: 'a-b' is not a valid name; use letters, digits and underscores.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-parameter-pools": "a"},
            "pool 'a' is both a workspace and a parameter pool; give the two parts different names.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-b": "size=1"},
            "--usmp-workspace-pool-b describes a pool that --usmp-workspace-pools does not name; add 'b' to that list.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "target=gpu"},
            "--usmp-workspace-pool-a: there is no target 'gpu'; --target names accel, c.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "target=c:ro"},
            (
                "--usmp-workspace-pool-a: no target may write to it, so it cannot hold a workspace; give one target rw "
                "access."
            ),
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "target=c:wo"},
            "--usmp-workspace-pool-a: access of 'c' is rw or ro, not 'wo'.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "target=c:ro,c:rw"},
            "--usmp-workspace-pool-a: target 'c' has both rw and ro access; keep one.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "size=1;size=2"},
            "--usmp-workspace-pool-a gives size twice; keep one.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "size=big"},
            "--usmp-workspace-pool-a: size is a number of bytes such as 4096 or 64k, not 'big'.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "size=64;alignment=0"},
            "--usmp-workspace-pool-a: alignment is at least 1, not 0.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "speed=9"},
            "--usmp-workspace-pool-a: there is no 'speed'; a pool has target, size, alignment, offset, section.",
        ),
        (
            {"usmp-workspace-pools": "a", "usmp-workspace-pool-a": "1000"},
            "--usmp-workspace-pool-a: '1000' has no key; write target=1000 or size=1000.",
        ),
    ],
)
def test_contradictory_options_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_pools(options, TARGETS)
    assert str(caught.value) == sentence


def test_candidates_are_filtered_by_access_and_by_what_was_removed() -> None:
    dtcm = PoolInfo("dtcm", 1000, target_access={"c": "rw"})
    sram = PoolInfo("sram", target_access={"c": "rw", "accel": "ro"})
    pools = Pools((dtcm, sram, PoolInfo("dram")), (sram,))
    assert pools.candidates(WORKSPACE, ("c",)) == ("dtcm", "sram", "dram")
    assert pools.candidates(WORKSPACE, ("c",), removed=("dtcm",)) == ("sram", "dram")
    assert pools.candidates(WORKSPACE, ("c", "accel")) == ("dram",)
    assert pools.candidates(PARAMETER, ("accel",)) == ("sram",)


def test_a_thousand_bytes_of_dtcm_overflow_to_sram() -> None:
    net = program(
        Call("a", ("x",), ("t1",)), Call("b", ("t1",), ("t2",)), Call("c", ("t2",), ("y",)),
        sizes={"x": 10, "y": 10, "t1": 600, "t2": 600},
    )  # fmt: skip
    both = Pools((PoolInfo("dtcm", 1000), PoolInfo("sram")))
    placed = plan_program(net, both, GREEDY)
    assert sorted(place.pool for place in placed.places.values()) == ["dtcm", "sram"]
    with pytest.raises(TpucError) as caught:
        plan_program(net, Pools((PoolInfo("dtcm", 1000),)), GREEDY)
    assert str(caught.value) == (
        "pool 'dtcm' of 1000 bytes is too small for its 2 buffers, which take 1200 bytes (no plan needs less); enlarge "
        "it by 200 bytes or give its buffers another pool to fall back on"
    )


def test_a_buffer_that_no_pool_lets_in_is_refused() -> None:
    net = program(Call("a", ("x",), ("t",)), Call("b", ("t",), ("y",), target="accel"), sizes={"x": 1, "y": 1, "t": 8})
    with pytest.raises(TpucError) as caught:
        plan_program(net, Pools((PoolInfo("dtcm", target_access={"c": "rw"}),)), GREEDY)
    assert str(caught.value) == (
        "buffer 't' of 8 bytes is used on c, accel, but no workspace pool admits all of them; add the target to a pool"
    )


def test_constants_are_buffers_of_parameter_pools() -> None:
    net = program(
        Call("a", ("x", "w1"), ("t",)), Call("b", ("t", "w2"), ("y",)),
        sizes={"x": 1, "y": 1, "t": 8}, constants={"w1": bytes(4000), "w2": bytes(3000)},
    )  # fmt: skip
    placed = plan_program(net, Pools((), (PoolInfo("itcm", 5000), PoolInfo("flash"))), GREEDY)
    assert placed.places["w1"] == PoolAllocation("itcm", 0)
    assert placed.places["w2"] == PoolAllocation("flash", 0)  # constants never share: both exist all the time
    assert [(pool.name, pool.peak_bytes) for pool in placed.parameter.pools] == [("itcm", 4000), ("flash", 3000)]


def test_buffers_inside_and_between_operators_are_planned_together() -> None:
    # The scratch of each operator fits into what is free beside its tensors. Planned apart, the scratch memory
    # (largest 960) would lie behind the arena of the tensors (1600).
    sizes: dict[str, int | None] = {"x": 1, "y": 1, "t1": 640, "t2": 960, "t3": 160, "s1": 960, "s3": 480}
    net = program(
        Call("a", ("x",), ("t1",), ("s1",)),
        Call("b", ("t1",), ("t2",)),
        Call("c", ("t2",), ("t3",), ("s3",)),
        Call("d", ("t3",), ("y",)),
        sizes=sizes,
    )
    together = plan_program(net, Pools(), GREEDY).workspace
    tensors = {b.name: b for b in together.buffers if b.name.startswith("t")}
    assert set(tensors) == {"t1", "t2", "t3"}
    assert together.peak_bytes == 1600  # operator a: 640 + 960; b: 640 + 960; c: 960 + 160 + 480
    apart = plan_program(
        program(*(Call(c.name, c.inputs, c.outputs) for c in net.calls), sizes=sizes), Pools(), GREEDY
    ).workspace.peak_bytes + max(960, 480)
    assert together.peak_bytes <= apart == 2560


def test_sizes_known_at_run_time_only_are_not_planned() -> None:
    net = program(Call("a", ("x",), ("t",)), Call("b", ("t",), ("y",)), sizes={"x": 1, "y": 1, "t": None})
    assert dict(plan_program(net, Pools(), GREEDY).places) == {}


def test_each_step_can_be_called_alone() -> None:
    net = program(Call("a", ("x",), ("t",)), Call("b", ("t",), ("y",)), sizes={"x": 1, "y": 1, "t": 8})
    uses = analyze(net)
    assert {name: (use.kind, use.first, use.last, use.targets) for name, use in uses.items()} == {
        "t": (WORKSPACE, 0, 1, ("c",))
    }
    pools = Pools((PoolInfo("sram"),), (PoolInfo("flash"),))
    buffers, lived = buffer_array(uses, pools, WORKSPACE)
    assert [(b.name, b.size_bytes, b.conflicts, b.pool_candidates) for b in buffers] == [
        ("t", 8, frozenset(), ("sram",))
    ]
    plan = make_plan(GREEDY, buffers, pools.workspace, lived)
    empty = make_plan(GREEDY, [], pools.parameter, [])
    assert rewrite(net, pools, plan, empty).places == {"t": PoolAllocation("sram", 0)}


def test_networks_that_never_run_at_once_share_a_workspace() -> None:
    plans = [
        plan_program(
            program(Call("a", ("x",), ("t",)), Call("b", ("t",), ("y",)), sizes={"x": 1, "y": 1, "t": size}),
            Pools((PoolInfo("sram"),)),
            GREEDY,
        ).workspace
        for size in (700, 900, 300)
    ]
    assert [(pool.name, pool.peak_bytes) for pool in shared_pools(plans)] == [("sram", 900)]


def test_a_tensor_without_its_size() -> None:
    net = program(Call("a", ("x",), ("t1",)), Call("b", ("t1",), ("y",)), sizes={"x": 10, "y": 10})
    with pytest.raises(TpucError) as caught:
        plan_program(net, Pools((PoolInfo("sram"),)), GREEDY)
    assert str(caught.value) == "program 'net' uses tensor 't1' without its size; describe it"
