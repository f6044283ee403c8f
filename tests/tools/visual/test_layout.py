"""Layouts and groups of graphs: properties that hold for all of them, and small ones by hand."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tpuc_visual.drawing import drawings
from tpuc_visual.graph import Layer
from tpuc_visual.groups import groupings
from tpuc_visual.layout import PASSING, Bend, Layout, place

from tests.families import each


def test_a_chain_is_a_column() -> None:
    assert place(3, [(0, 1), (1, 2)]) == Layout((0, 1, 2), (0.0, 0.0, 0.0), ())


def test_a_shortcut_passes_beside_what_it_leaves_out() -> None:
    layout = place(3, [(0, 1), (1, 2), (0, 2)])
    assert layout.rows == (0, 1, 2)
    (bend,) = layout.bends
    assert (bend.source, bend.row) == (0, 1)
    assert abs(bend.x - layout.xs[1]) >= (1 + PASSING) / 2 - 0.002  # rounded to thousandths


def test_an_input_stands_above_its_first_reader() -> None:
    assert place(4, [(0, 1), (1, 3), (2, 3)]).rows == (0, 1, 1, 2)
    assert place(0, []) == Layout((), (), ())


GRAPHS = st.integers(1, 25).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda edge: edge[0] < edge[1]),
            max_size=40,
        )
        if count > 1
        else st.just([]),
    )
)


@settings(max_examples=40)
@given(GRAPHS)
def test_edges_lead_down_and_nothing_overlaps(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    layout = place(count, edges)
    assert layout == place(count, edges[::-1] if len(set(edges)) < 2 else edges)
    assert all(layout.rows[one] < layout.rows[other] for one, other in edges)
    passed = {(bend.source, bend.row) for bend in layout.bends}
    wanted = {(one, row) for one, other in edges for row in range(layout.rows[one] + 1, layout.rows[other])}
    assert passed == wanted
    items = [(row, x, 1.0) for row, x in zip(layout.rows, layout.xs, strict=True)]
    items += [(bend.row, bend.x, PASSING) for bend in layout.bends]
    for (row, x, width), (below, other, other_width) in pairwise(sorted(items)):
        assert row != below or other - x >= (width + other_width) / 2 - 0.002  # rounded to thousandths


def test_a_bend_is_shared_by_the_edges_of_a_node() -> None:
    layout = place(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 3), (0, 4)])
    assert [(bend.source, bend.row) for bend in layout.bends] == [(0, 1), (0, 2), (0, 3)]
    assert all(isinstance(bend, Bend) for bend in layout.bends)


def layer(name: str, *operands: str, resident: tuple[str, ...] = ()) -> Layer:
    return Layer(name, "top.Add", "1x4", "f32", operands, (), resident)


def chain(names: list[str]) -> list[Layer]:
    return [layer(name, *names[max(0, number - 1) : number]) for number, name in enumerate(names)]


def test_names_tell_groups() -> None:
    names = [
        "input",
        *(f"/stage{one}/block{two}/conv{three}/out" for one in (1, 2) for two in range(8) for three in "ab"),
    ]
    found = groupings(chain(names))
    assert [*found] == ["groups by name", "single ops"]
    groups = found["groups by name"]
    # 33 layers: stages give 3 groups, nearer to a good size than 17 blocks.
    assert [(group.name, len(group.members)) for group in groups] == [("", 1), ("stage1", 16), ("stage2", 16)]


def test_without_such_names_groups_end_where_one_value_leads_on() -> None:
    layers = chain([str(number) for number in range(20)])
    layers[9] = layer("9", "8", "5")  # values 5 to 8 are needed until here
    groups = groupings(layers)["groups by shape"]
    assert [group.members for group in groups] == [tuple(range(10)), tuple(range(10, 18)), (18, 19)]
    assert [group.name for group in groups] == ["0 to 9", "10 to 17", "18 to 19"]


def test_regions_are_what_stays_in_local_memory() -> None:
    layers = [
        layer("a"),
        layer("b", "a", resident=("a",)),
        layer("c", "b", resident=("b",)),
        layer("d", "c"),
        layer("e", "d"),
    ]
    groups = groupings(layers)["groups by region"]
    assert [(group.name, group.members) for group in groups] == [("region of a", (0, 1, 2)), ("", (3,)), ("", (4,))]


def test_few_layers_need_no_groups() -> None:
    assert [*groupings(chain(list("abc")))] == ["single ops"]


@each("way", ["groups by shape", "single ops"])
def test_every_edge_is_drawn_once_on_each_level(way: str) -> None:
    layers = chain([str(number) for number in range(30)])
    layers[20] = layer("20", "19", "2")  # over several groups
    drawing = drawings(layers)[way]
    groups = drawing["groups"]
    assert [member for group in groups for member in group["members"]] == [*range(30)]
    group_of = {member: number for number, group in enumerate(groups) for member in group["members"]}
    edges = [(number, number + 1) for number in range(29)] + [(2, 20)]
    between = {(group_of[one], group_of[other]) for one, other in edges if group_of[one] != group_of[other]}
    assert set(drawing["level"]["edges"]) == between
    for group in groups:
        if len(group["members"]) == 1:
            continue
        first, count = group["members"][0], len(group["members"])
        ports = [(max(0, one - first + 1), min(count + 1, other - first + 1)) for one, other in edges]
        assert set(group["level"]["edges"]) == {port for port in ports if port[0] <= count and port[1] >= 1}
        assert len(group["level"]["nodes"]) == count + 2
