"""What `tpuc profile` finds out about a program, against figures counted by hand."""

from __future__ import annotations

import pytest
from tpuc.api import Engine, LayerCommands, ScalarType, TensorInfo, Unsupported
from tpuc_profile.analysis import Analysis, PlannedPlace, analyze, by_layer, name_tensors

from tests.tools.profile.programs import ACTIVATIONS, WEIGHTS, Loaded, Move, Work, ddr, lmem


@pytest.fixture
def analysis() -> Analysis:
    loaded = Loaded()
    return analyze(loaded, loaded.timeline("any"), (WEIGHTS, 100))


def test_traffic_and_floor(analysis: Analysis) -> None:
    assert analysis.read_bytes == 40 + 80 + 20 + 120
    assert analysis.written_bytes == 120 + 40
    assert analysis.weight_bytes == 100


def test_engines_and_overlap(analysis: Analysis) -> None:
    # DMA: 10 + 20, then 5 beside the 30 of the first layer, 30 out, 30 in, wait for the 10 of the second layer, 10 out.
    assert analysis.timeline.busy == {Engine.COMPUTE: 40, Engine.DMA: 105}
    assert analysis.timeline.cycles == 30 + 30 + 30 + 30 + 10 + 10
    assert analysis.overlap_cycles == 5


def test_local_memory(analysis: Analysis) -> None:
    assert analysis.lmem_peak_bytes == 130
    lives = {(block.start, block.end): (block.born, block.read) for block in analysis.blocks if block.born < 100}
    assert lives[0, 10] == (0, 60)  # the input: loaded first, read until the first layer is done
    assert lives[48, 78] == (30, 90)  # made from cycle 30, stored by cycle 90
    assert lives[80, 85] == (30, 130)  # constants of the second layer, loaded ahead


def test_layers_get_what_serves_them(analysis: Analysis) -> None:
    rows = [
        (analysis.tensors[step.tensor].kind, step.compute_cycles, step.dma_cycles, step.read_bytes, step.written_bytes)
        for step in analysis.steps
    ]
    assert rows == [("inner", 30, 10 + 20 + 30, 120, 120), ("output", 10, 5 + 30 + 10, 140, 40)]


def test_tensors_of_ddr(analysis: Analysis) -> None:
    reasons = name_tensors(analysis, None)
    rows = [(t.name, t.kind, t.start, t.size_bytes, t.born, t.read) for t in analysis.tensors]
    assert rows == [
        ("x", "input", ACTIVATIONS, 40, 0, 10),
        ("inner 1", "inner", ACTIVATIONS + 64, 120, 60, 120),
        ("y", "output", ACTIVATIONS, 40, 130, 140),
    ]
    assert reasons == [
        "the file fixes the addresses of inputs",
        "unused until then",
        "reuses bytes of 'x', last used in cycle 10",
    ]


def test_inner_tensors_have_the_names_that_the_file_gives_them(analysis: Analysis) -> None:
    place, kind = ACTIVATIONS + 64, ScalarType("si8")
    inner = [
        *(TensorInfo("small", (4, 10), kind, place), TensorInfo("first", (4, 30), kind, place)),
        *(TensorInfo("second", (4, 30), kind, place), TensorInfo("x2", (4, 10), kind, ACTIVATIONS)),
    ]
    reasons = name_tensors(analysis, None, inner)
    assert [tensor.name for tensor in analysis.tensors] == ["x", "first", "y"]
    assert reasons[2] == "reuses bytes of 'x', last used in cycle 10"


def test_what_the_host_put_there_and_what_is_stored_in_parts() -> None:
    program = (
        Move(ddr(ACTIVATIONS + 256, 40), lmem(0, 10)),  # nobody has written it
        Work(lmem(0, 10), lmem(16, 10)),
        Move(lmem(16, 5), ddr(ACTIVATIONS + 64, 20)),
        Move(lmem(21, 5), ddr(ACTIVATIONS + 84, 20)),  # adjoins it
        Move(ddr(ACTIVATIONS + 64, 40), lmem(32, 10)),
        Work(lmem(32, 10), lmem(48, 10)),
        Move(lmem(48, 10), ddr(ACTIVATIONS, 40)),
    )
    loaded = Loaded(program)
    tensors = analyze(loaded, loaded.timeline("any"), (WEIGHTS, 100)).tensors
    assert [(t.kind, t.start, t.size_bytes, t.born, t.read) for t in tensors] == [
        ("input", ACTIVATIONS, 40, 0, 0),
        ("host", ACTIVATIONS + 256, 40, 0, 10),
        ("inner", ACTIVATIONS + 64, 40, 20, 40),
        ("output", ACTIVATIONS, 40, 50, 60),
    ]


def test_a_plan_gives_names_and_reasons(analysis: Analysis) -> None:
    plan = [
        PlannedPlace(ACTIVATIONS, 4, 64, "result", "above"),
        PlannedPlace(ACTIVATIONS, 0, 64, "picture", "first"),
        PlannedPlace(ACTIVATIONS + 64, 1, 128, "conv1", "second"),
        PlannedPlace(WEIGHTS, -1, 100, "filter", "constants"),
    ]
    reasons = name_tensors(analysis, plan)
    assert [tensor.name for tensor in analysis.tensors] == ["picture", "conv1", "result"]
    assert reasons == ["first", "second", "above"]


LAYERS = (
    LayerCommands("conv1", "tpu.Conv2D", {"compute": ((1, 1),), "dma": ((1, 2), (4, 4))}),
    LayerCommands("flat", "tpu.Reshape", {}),
    LayerCommands("conv2", "tpu.Conv2D", {"compute": ((2, 2),), "dma": ((3, 3), (5, 6))}),
)


def test_layers_of_the_plan_get_their_own_commands(analysis: Analysis) -> None:
    found = by_layer(analysis, LAYERS)
    rows = [
        (s.name, s.op, s.start, s.end, s.compute_cycles, s.dma_cycles, s.read_bytes, s.written_bytes, s.lmem_bytes)
        for s in found.steps
    ]
    assert rows == [
        ("conv1", "tpu.Conv2D", 0, 90, 30, 10 + 20 + 30, 40 + 80, 120, 36 + 30),  # bytes 0 to 36 and 48 to 78
        ("flat", "tpu.Reshape", 0, 0, 0, 0, 0, 0, 0),
        ("conv2", "tpu.Conv2D", 30, 140, 10, 5 + 30 + 10, 20 + 120, 40, 50 + 10),  # 80 to 130 and 0 to 10
    ]
    assert [found.steps[number].name for number in found.steps_of].count("conv1") == 4


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        (LAYERS[:1], "its layers have 4 commands, the file has 8"),
        (
            (LayerCommands("all", "tpu.Add", {"compute": ((1, 3),), "dma": ((1, 5),)}),),
            "none of its layers has dma command 6",
        ),
    ],
)
def test_layers_of_another_program_are_refused(
    analysis: Analysis, layers: tuple[LayerCommands, ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        by_layer(analysis, layers)


def test_a_chip_that_cannot_say_what_if_says_so() -> None:
    with pytest.raises(Unsupported) as caught:
        Loaded().timeline_if("any", 2.0)
    assert str(caught.value) == (
        "profile 'any' of this chip does not separate DDR time from compute time; leave out --what-if"
    )
