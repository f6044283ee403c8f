"""Layer groups in text: the same values, real addresses, a schedule that can be followed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Absent, Constant, DialectAttr, Module, Operation, UsageError
from tpuc.interpreter import Interpreter
from tpuc.ir.text import parse_module, print_module
from tpuc.registry import Registry
from tpuc.schedule import PassContext
from tpuc_driver.session import Session
from tpuc_plan.generate_code import GenerateCode
from tpuc_plan.outline_groups import OutlineGroups
from tpuc_plan.regions.region_planner import LEVELS, Settings
from tpuc_testing.equality import first_difference

from tests.families import each
from tests.models.networks import Network

CHIPS = [chip for chip in ("bm1684x", "cv183x") if Registry().has("tpuc.chips", chip)]
MODES = {"bm1684x": "f32", "cv183x": "bf16"}


def model(nodes: list[onnx.NodeProto], shape: list[int], results: list[str]) -> onnx.ModelProto:
    """A network with input `x`; weights `w...` of 1 x 1 and 3 x 3 convolutions are drawn."""
    random = np.random.default_rng(3)
    weights = {
        name: random.normal(0, 0.1, (shape[1], shape[1], *[int(name[1])] * 2)).astype(np.float32)
        for node in nodes
        for name in node.input
        if re.fullmatch(r"w[13].*", name)
    }
    graph = helper.make_graph(
        nodes,
        "drawn",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    return made


def node(kind: str, operands: str, result: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, operands.split(), result.split(), name=result.split(maxsplit=1)[0], **attributes)


def residual(size: int) -> onnx.ModelProto:
    """Two sums around convolutions; the middle value leaves, too."""
    return model(
        [
            node("Conv", "x w1a", "a"),
            node("Conv", "a w3b", "b", pads=[1, 1, 1, 1]),
            node("Add", "a b", "c"),
            node("Conv", "c w3d", "d", pads=[1, 1, 1, 1]),
            node("Add", "c d", "e"),
            node("Relu", "e", "y"),
        ],
        [1, 32, size, size],
        ["y", "c"],
    )


def crowded(size: int) -> onnx.ModelProto:
    """Four values of one size live at once; the first is read again by the last two."""
    return model(
        [
            node("Conv", "x w1a", "a"),
            node("Conv", "a w1b", "b"),
            node("Conv", "b w1c", "c"),
            node("Add", "b c", "d"),
            node("Add", "c d", "e"),
            node("Add", "e a", "f"),
            node("Mul", "f a", "y"),
        ],
        [1, 32, size, size],
        ["y"],
    )


def branches(channels: int) -> onnx.ModelProto:
    """Concatenation, halves of it, a move within DDR and other shapes of the same values."""
    rows = {"shape": [1, channels * 16, 8, 8]}
    made = model(
        [
            node("Conv", "x w1a", "a"),
            node("Sigmoid", "a", "b"),
            node("Relu", "a", "c"),
            node("Concat", "b c", "d", axis=1),
            node("Sigmoid", "d", "e"),
            node("Split", "e", "f g", axis=1),
            node("Add", "f g", "h"),
            node("Transpose", "h", "i", perm=[0, 1, 3, 2]),
            node("Sigmoid", "i", "j"),
            node("Add", "h j", "k"),
            node("Reshape", "k shape", "l"),
            node("Sigmoid", "l", "m"),
            node("Add", "m l", "n"),
        ],
        [1, channels, 32, 32],
        ["n", "d", "l"],
    )
    made.graph.initializer.append(numpy_helper.from_array(np.array(rows["shape"]), "shape"))
    return made


NETWORKS: dict[str, Callable[[str], onnx.ModelProto]] = {
    "residual": lambda _: residual(16),
    "crowded": lambda chip: crowded({"bm1684x": 126, "cv183x": 63}[chip]),  # three values fit a lane, four do not
    "branches": lambda _: branches(32),
    "assembled": lambda _: branches(64),
}


@dataclass(frozen=True)
class Outlined:
    """A module before and behind the pass."""

    session: Session
    flat: Module
    module: Module
    inputs: dict[str, np.ndarray]

    @property
    def groups(self) -> list[Operation]:
        return [operation for operation in self.module.main.operations if operation.op.name == "tpu.Group"]


def outlined(path: Path, chip: str, opt: int | None = None) -> Outlined:
    session = Session(chip=chip, quantize=MODES[chip], opt=opt)
    flat = session.build(session.transform(path)).module
    module = flat.clone()
    assert OutlineGroups().run(module, session.context())
    module.verify()
    shape = flat.main.inputs[0].tensor.dims
    case = Outlined(session, flat, module, {"x": np.random.default_rng(4).normal(0, 1, shape).astype(np.float32)})
    assert case.groups
    return case


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Outlined]:
    """A network on a chip, made once."""
    made: dict[tuple[str, str], Outlined] = {}

    def get(name: str, chip: str) -> Outlined:
        if (name, chip) not in made:
            path = tmp_path_factory.mktemp("drawn") / "drawn.onnx"
            path.write_bytes(NETWORKS[name](chip).SerializeToString())
            made[name, chip] = outlined(path, chip)
        return made[name, chip]

    return get


def body(group: Operation) -> list[Operation]:
    """All operations of a group but the last one."""
    return group.regions[0].blocks[0].operations[:-1]


def info(operation: Operation) -> dict[str, Any]:
    """`ginfo` read back from its text."""
    attribute = getattr(operation.op, "ginfo", None) or operation.extra_attributes.get("ginfo")
    assert isinstance(attribute, DialectAttr), operation.name
    inside = attribute.text.removeprefix("#tpu.lg<").removesuffix(">")
    read: dict[str, Any] = {}
    for name, value in re.findall(r"(\w+) = (\[[^]]*\]|[^,]+)", inside):
        read[name] = [int(item) for item in value[1:-1].split(", ") if item] if value[0] == "[" else value
        read[name] = int(value) if re.fullmatch(r"-?\d+", value) else read[name]
    return read


both = pytest.mark.parametrize(("name", "chip"), list(itertools.product(NETWORKS, CHIPS)))


@both
def test_every_value_stays_what_it_was(name: str, chip: str, drawn: Callable[[str, str], Outlined]) -> None:
    case = drawn(name, chip)
    before = Interpreter(case.flat).run(case.inputs, "all")
    after = Interpreter(case.module).run(case.inputs, "all")
    assert list(Interpreter(case.module).output_names) == list(Interpreter(case.flat).output_names)
    assert before.keys() <= after.keys()
    for value in before:
        np.testing.assert_array_equal(after[value], before[value], err_msg=value)


@both
def test_the_text_is_read_back_and_the_pass_changes_nothing_more(
    name: str, chip: str, drawn: Callable[[str, str], Outlined]
) -> None:
    case = drawn(name, chip)
    text = print_module(case.module)
    again = parse_module(text, case.session.registry.resolve_op)
    assert first_difference(case.module, again) is None
    assert print_module(again) == text
    assert not OutlineGroups().run(again, case.session.context())
    assert print_module(again) == text
    twin = parse_module(print_module(case.flat), case.session.registry.resolve_op)
    twin.weights = case.flat.weights
    OutlineGroups().run(twin, case.session.context())
    assert print_module(twin) == text


@both
def test_values_have_a_ddr_address_exactly_where_they_meet_ddr(
    name: str, chip: str, drawn: Callable[[str, str], Outlined]
) -> None:
    for group in drawn(name, chip).groups:
        assert len(body(group)) > 2
        computed = 0
        for operation in body(group):
            local = info(operation)["out_size"] > 0
            kind = operation.op.name
            addressed = [value.tensor.encoding is not None for value in operation.results]
            assert addressed == [kind == "tpu.Store" or not local] * len(addressed), operation.name
            sources = [value for value in operation.operands if _is_computed(value.defining)]
            if kind == "tpu.Load" or not local:
                assert all(value.tensor.encoding is not None for value in sources), operation.name
            else:
                assert all(value.tensor.encoding is None for value in sources), operation.name
                computed += kind != "tpu.Store"
        assert computed > 1
        assert [value.tensor for value in group.regions[0].blocks[0].operations[-1].operands] == [
            value.tensor for value in group.results
        ]
        assert all(value.tensor.encoding is not None and value.uses for value in group.results)
        assert all(_is_computed(value.defining) for value in group.operands)


def _is_computed(operation: Operation | None) -> bool:
    return operation is None or not isinstance(operation.op, (Absent, Constant))


@both
def test_nothing_is_written_over_a_value_that_is_still_read(
    name: str, chip: str, drawn: Callable[[str, str], Outlined]
) -> None:
    case = drawn(name, chip)
    lmem = case.session.chip.lmem
    for group in case.groups:
        operations = [o for o in body(group) if o.op.name != "tpu.Store" and info(o)["out_size"] > 0]
        places = {o: (info(o)["out_addr"], info(o)["out_addr"] + info(o)["out_size"]) for o in operations}
        at = {operation: index for index, operation in enumerate(operations)}
        for operation, (start, stop) in places.items():
            assert start % lmem.alignment == 0 or isinstance(_source(operation), Constant)
            assert stop <= lmem.lane_bytes
            last = max((at.get(user, 0) for user in operation.result.users), default=0)
            for other in operations[at[operation] + 1 : last]:
                if "alias" in other.extra_attributes or "lmem_concat" in other.extra_attributes:
                    continue  # the same bytes on purpose
                first, end = places[other]
                assert end <= start or stop <= first, f"{other.name} over {operation.name}"


def _source(operation: Operation) -> Any:
    return operation.operands[0].defining.op if operation.operands[0].defining is not None else None


@both
def test_tiles_cover_results_once(name: str, chip: str, drawn: Callable[[str, str], Outlined]) -> None:
    for group in drawn(name, chip).groups:
        for operation in body(group):
            said = info(operation)
            if operation.op.name != "tpu.Load":
                extents = [sum(said[f"{axis}_slice"]) for axis in "ncdhw"]
                assert int(np.prod(extents)) == operation.result.tensor.size
            for axis in "ncdhw":
                assert said[f"{axis}_idx"][0] == 0
                assert len(said[f"{axis}_idx"]) == len(said[f"{axis}_slice"])


@both
def test_the_schedule_has_every_operation_behind_what_it_reads(
    name: str, chip: str, drawn: Callable[[str, str], Outlined]
) -> None:
    for group in drawn(name, chip).groups:
        flow: tuple[int, ...] = getattr(group.op, "flow")  # noqa: B009 - the type of ops is open
        times: dict[int, int] = {}
        now = 0
        for number in flow:
            if number < 0:
                assert number == now - 1
                now = number
            else:
                assert number not in times
                times[number] = -now
        operations = body(group)
        assert [info(operation)["id"] for operation in operations] == list(range(len(operations))) == sorted(times)
        for operation in operations:
            makers = [operations.index(v.defining) for v in operation.operands if v.defining in operations]
            time = times[info(operation)["id"]]
            for maker in makers:
                early = times[maker] + (0 if _is_free(operation) or _is_free(operations[maker]) else 1)
                assert early <= time, operation.name


def _is_free(operation: Operation) -> bool:
    return any(mark in operation.extra_attributes for mark in ("alias", "concat_alias", "slice_view"))


@each("chip", CHIPS)
def test_a_value_that_is_sent_away_is_loaded_again(chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEVELS, 2, (Settings(),))  # slices of rows would send nothing away
    path = tmp_path / "drawn.onnx"
    path.write_bytes(NETWORKS["crowded"](chip).SerializeToString())
    (group,) = outlined(path, chip).groups
    operations = body(group)
    (again,) = [o for o in operations if o.op.name == "tpu.Load" and o.operands[0].defining in operations]
    assert again.operands[0].defining is not None
    assert again.operands[0].defining.op.name == "tpu.Store"
    assert again.operands[0].name.startswith("a")
    assert len(again.result.users) == 2


@each("opt", [1, 3])
@each("chip", CHIPS)
def test_other_levels_of_planning(chip: str, opt: int, tmp_path: Path) -> None:
    path = tmp_path / "drawn.onnx"
    path.write_bytes(branches(64).SerializeToString())
    case = outlined(path, chip, opt)
    before = Interpreter(case.flat).run(case.inputs)
    for value, array in Interpreter(case.module).run(case.inputs).items():
        np.testing.assert_array_equal(array, before[value], err_msg=value)


@pytest.mark.parametrize("chip", CHIPS[:1])
def test_a_saved_module_runs(chip: str, drawn: Callable[[str, str], Outlined], tmp_path: Path) -> None:
    case = drawn("branches", chip)
    module = case.module.clone()
    case.session.save(module, tmp_path / "drawn_groups.mlir")
    np.savez(tmp_path / "in.npz", **case.inputs)
    got = Session().run(tmp_path / "drawn_groups.mlir", [tmp_path / "in.npz"])
    for value, array in Interpreter(case.flat).run(case.inputs).items():
        np.testing.assert_array_equal(got[value], array)


@each("chip", CHIPS)
def test_code_is_generated_from_the_module_before(chip: str, drawn: Callable[[str, str], Outlined]) -> None:
    case = drawn("residual", chip)
    wanted = r"^the module has groups: run generate-code on the module before outline-groups$"
    with pytest.raises(UsageError, match=wanted):
        GenerateCode().run(case.module, case.session.context())


@pytest.mark.skipif("bm1684x" not in CHIPS, reason="reads this chip's commands")
def test_addresses_are_those_of_the_file(network: Callable[[str], Network]) -> None:
    """Against the commands of the file: convolutions name their filters and biases, pools operand and result."""
    net = network("digits")
    session = Session(chip="bm1684x", quantize="int8")
    module, data, *_ = session.build(net.module, net.table)
    text = session.chip.load(data).disassemble()
    OutlineGroups().run(module, session.context())
    (group,) = [operation for operation in module.main.operations if operation.op.name == "tpu.Group"]
    operations = body(group)

    def place(operation: Operation | None) -> int:
        assert operation is not None
        return info(operation)["out_addr"]

    products = [o for o in operations if o.op.name in ("tpu.Conv2D", "tpu.MatMul")]
    pools = [o for o in operations if o.op.name == "tpu.Pool2D"]
    assert (len(products), len(pools)) == (4, 2)
    filters = re.findall(r"conv\.normal .* weight=\[(0x\w+)\]", text)
    assert [int(at, 16) for at in filters] == [place(o.operands[1].defining) for o in products]
    biases = re.findall(r"ar\.add_saturate .* right=\[(0x\w+)\]", text)
    assert [int(at, 16) for at in biases] == [place(o.operands[2].defining) for o in products]
    results = re.findall(r"quant\.requantize .* result=\[(0x\w+)\]", text)
    *inner, last = products  # nobody reads the last one's result as bytes: its sums are made floats
    assert [int(at, 16) for at in results] == [place(o) for o in inner]
    sums, *_ = re.findall(r"ar\.cast .* result=\[0x\w+\]:f32 left=\[(0x\w+)\]:int32", text)
    assert int(sums, 16) == place(last)
    windows = re.findall(r"pord\.\w+ result=\[(0x\w+)\]:uint8 .* input=\[(0x\w+)\]", text)
    steps = {int(to, 16): int(at, 16) for to, at in windows}

    def origin(at: int) -> int:
        """A pool may take two windows: over rows, then over columns of what is left."""
        return origin(steps[at]) if at in steps else at

    assert [origin(place(o)) for o in pools] == [place(o.operands[0].defining) for o in pools]
    assert len(steps) >= len(pools)
    load, store = operations[0], operations[-1]
    assert f"source={_ddr(load.operands[0])} destination=lmem:{place(load):#x}" in text
    assert f"source=lmem:{place(store):#x} destination={_ddr(store.result)}" in text


def _ddr(value: Any) -> str:
    return f"{value.tensor.encoding.value:#x}"


@pytest.mark.skipif("bm1684x" not in CHIPS, reason="needs a chip that computes floats without casts")
def test_a_module_without_runs_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "one.onnx"
    path.write_bytes(model([node("Relu", "x", "y")], [1, 4, 8, 8], ["y"]).SerializeToString())
    session = Session(chip="bm1684x", quantize="f32")
    module = session.build(session.transform(path)).module
    text = print_module(module)
    assert not OutlineGroups().run(module, session.context())
    assert print_module(module) == text


@each("chip", CHIPS)
def test_it_needs_a_chip_and_addresses(chip: str, tmp_path: Path) -> None:
    path = tmp_path / "one.onnx"
    path.write_bytes(model([node("Relu", "x", "y")], [1, 4, 8, 8], ["y"]).SerializeToString())
    session = Session(chip=chip, quantize=MODES[chip])
    module = session.transform(path)
    with pytest.raises(
        UsageError, match=r"^the module has no addresses: run the pass assign-addresses before outline-"
    ):
        OutlineGroups().run(module, session.context())
    with pytest.raises(UsageError, match=r"^pass 'outline-groups' needs a chip: add --chip NAME$"):
        OutlineGroups().run(module, PassContext(Registry()))


@each("chip", CHIPS)
def test_operands_that_only_tpu_mlir_has_are_absent(chip: str, tmp_path: Path) -> None:
    made = model(
        [
            node("Conv", "x w1a", "a"),
            node(
                "Resize",
                "a none scales",
                "up",
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            ),
            node("Pad", "up pads", "padded"),
            node("Conv", "padded w1b", "b"),
            node("Transpose", "b", "y", perm=[0, 2, 3, 1]),
        ],
        [1, 8, 6, 6],
        ["y"],
    )
    made.graph.node[1].input[1] = ""
    made.graph.initializer.extend(
        [
            numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
            numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "pads"),
        ]
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    session = Session(chip=chip, quantize=MODES[chip])
    final = session.build(session.transform(path)).module
    assert OutlineGroups().run(final, session.context())
    text = print_module(final)
    found = dict(re.findall(r'"(tpu\.\w+)"\(.*\} : \((.*?)\) ->', text))
    # Their declarations: input and buffer; input, paddings, buffer and slope; input and buffer.
    for name, count in {"tpu.Upsample": 2, "tpu.Pad": 4, "tpu.Permute": 2}.items():
        if name in found:
            first = found[name].removesuffix(", none" * (count - 1))
            assert first.startswith("tensor<")
            assert first.endswith(">")
    assert "tpu.Upsample" in found
