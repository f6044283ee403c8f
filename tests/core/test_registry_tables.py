"""Tables merge by owner and dialect; installing a package never changes an existing result."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tpuc.api import ImporterTable
from tpuc.errors import PluginConflict, PluginError
from tpuc.registry import Offer, Registry

from tests.core.fakes import FakeTable, chip, offer
from tests.families import each

CONV = ("top.Conv", "int8")
GELU = ("acme.Gelu7", "int8")


def table(name: str, package: str, *keys: object, group: str = "lowerings") -> Offer:
    return offer(group, name, FakeTable(dict.fromkeys(keys, f"{package} {name}")), package)


def dialect(name: str, package: str) -> Offer:
    return offer("dialects", name, SimpleNamespace(api_version=1), package)


CHIP_PACKAGE = (chip("newchip", "chips"), table("newchip.top", "chips", CONV))
OP_LIBRARY = (dialect("top", "ops"),)
ACME = (dialect("acme", "acme"), table("newchip.acme", "acme", GELU))
STRANGER = table("newchip.top.fast", "stranger", ("top.Add", "int8"))


def value(registry: Registry, dialect: str, key: tuple[str, str]) -> str | None:
    cell = registry.cell("tpuc.lowerings", "newchip", dialect, key)
    return None if cell is None else cell.value


def test_the_chip_s_package_and_the_dialect_s_package_take_part() -> None:
    registry = Registry(offers=[*CHIP_PACKAGE, *OP_LIBRARY, *ACME])
    assert value(registry, "top", CONV) == "chips newchip.top"
    assert value(registry, "acme", GELU) == "acme newchip.acme"
    assert value(registry, "top", ("top.Conv", "f32")) is None
    assert registry.table_dialects("tpuc.lowerings", "newchip") == ["acme", "top"]


def test_a_stranger_s_table_takes_no_part_and_is_not_even_loaded() -> None:
    broken = offer("lowerings", "newchip.top.fast", ImportError("never"), "stranger")
    registry = Registry(offers=[*CHIP_PACKAGE, *OP_LIBRARY, broken])
    assert value(registry, "top", ("top.Add", "int8")) is None
    states = {row.name: row.state for row in registry.describe("tpuc.lowerings")}
    assert states == {"newchip.top": "available", "newchip.top.fast": "not enabled"}


@each("name", ["fast", "stranger", "Stranger", "newchip.top.fast"])
def test_with_lets_a_stranger_s_table_take_part(name: str) -> None:
    registry = Registry(enabled=[name], offers=[*CHIP_PACKAGE, *OP_LIBRARY, STRANGER])
    assert value(registry, "top", ("top.Add", "int8")) == "stranger newchip.top.fast"
    assert value(registry, "top", CONV) == "chips newchip.top"
    assert {row.name: row.state for row in registry.describe("tpuc.lowerings")}["newchip.top.fast"] == "enabled"


def test_a_cell_says_who_filled_it() -> None:
    cell = Registry(offers=[*CHIP_PACKAGE]).cell("tpuc.lowerings", "newchip", "top", CONV)
    assert cell is not None
    assert (cell.package, cell.offer.provider, cell.owner, cell.dialect) == ("chips", "chips 1.0", "newchip", "top")


RIVAL = table("newchip.top.fast", "rival", CONV, ("top.Add", "int8"))


def test_the_same_cell_from_two_packages_conflicts_on_use_only() -> None:
    registry = Registry(enabled=["rival"], offers=[*CHIP_PACKAGE, RIVAL])
    assert value(registry, "top", ("top.Add", "int8")) == "rival newchip.top.fast"
    with pytest.raises(PluginConflict) as caught:
        value(registry, "top", CONV)
    assert str(caught.value) == (
        "lowering 'top.Conv int8' for newchip is offered by two packages: chips 1.0, rival 1.0. "
        "Uninstall one, or choose with --prefer PACKAGE."
    )


@each(("package", "winner"), [("rival", "rival newchip.top.fast"), ("chips", "chips newchip.top")])
def test_prefer_settles_a_cell(package: str, winner: str) -> None:
    registry = Registry(prefer=[package], enabled=["rival"], offers=[*CHIP_PACKAGE, RIVAL])
    assert value(registry, "top", CONV) == winner


def test_one_package_that_fills_a_cell_twice_must_decide() -> None:
    registry = Registry(prefer=["chips"], offers=[*CHIP_PACKAGE, table("newchip.top.more", "chips", CONV)])
    with pytest.raises(PluginError) as caught:
        value(registry, "top", CONV)
    assert str(caught.value) == (
        "lowering 'top.Conv int8' for newchip is offered more than once by chips 1.0: "
        "chips:newchip.top, chips:newchip.top.more. Its author has to remove one of them."
    )


def test_the_package_of_a_chip_that_lost_brings_no_tables() -> None:
    offers = [*CHIP_PACKAGE, chip("newchip", "dup"), table("newchip.top", "dup", CONV)]
    assert value(Registry(prefer=["chips"], offers=offers), "top", CONV) == "chips newchip.top"
    assert value(Registry(prefer=["dup"], offers=offers), "top", CONV) == "dup newchip.top"


def test_a_family_s_cell_serves_where_the_chip_has_none() -> None:
    offers = [*CHIP_PACKAGE, chip("smallchip", "small"), table("smallchip.top", "small", ("top.Relu", "int8"))]
    registry = Registry(offers=offers)

    def owner_of(key: tuple[str, str]) -> str | None:
        cell = registry.find_cell("tpuc.lowerings", ["smallchip", "newchip"], "top", key)
        return None if cell is None else cell.owner

    assert owner_of(("top.Relu", "int8")) == "smallchip"
    assert owner_of(CONV) == "newchip"
    assert owner_of(("top.Nothing", "int8")) is None


def test_kernels_and_importers_merge_by_the_same_rules() -> None:
    offers = [
        chip("newchip", "chips"),
        table("newchip.tpu", "chips", "tpu.Conv2D", group="kernels"),
        offer("frontends", "onnx", SimpleNamespace(api_version=1), "reader"),
        table("onnx.top", "reader", "Conv", group="importers"),
        dialect("acme", "acme"),
        table("onnx.acme", "acme", "acme::Gelu7", group="importers"),
        table("onnx.top.extra", "stranger", "Foo", group="importers"),
    ]
    registry = Registry(offers=offers)
    assert registry.cell("tpuc.kernels", "newchip", "tpu", "tpu.Conv2D") is not None
    assert registry.cell("tpuc.importers", "onnx", "acme", "acme::Gelu7") is not None
    assert registry.cell("tpuc.importers", "onnx", "top", "Conv") is not None
    assert registry.cell("tpuc.importers", "onnx", "top", "Foo") is None


def test_a_broken_table_stops_its_own_dialect_only() -> None:
    broken = offer("lowerings", "newchip.acme", ImportError("no acme core"), "acme", "2.1")
    registry = Registry(offers=[*CHIP_PACKAGE, dialect("acme", "acme"), broken])
    assert value(registry, "top", CONV) == "chips newchip.top"
    with pytest.raises(PluginError) as caught:
        value(registry, "acme", GELU)
    assert str(caught.value) == (
        "lowering 'newchip.acme' of acme 2.1 cannot be loaded: ImportError: no acme core. "
        "Install what it needs, or uninstall acme."
    )


def test_a_table_registered_under_another_name_is_refused() -> None:
    misplaced = SimpleNamespace(api_version=1, cells={}, owner="newchip", dialect="tpu")
    registry = Registry(offers=[chip("newchip", "chips"), offer("lowerings", "newchip.top", misplaced, "chips")])
    with pytest.raises(PluginError) as caught:
        value(registry, "top", CONV)
    assert str(caught.value) == (
        "lowering 'newchip.top' of chips 1.0 cannot be used: chips:newchip.top is a table for newchip.tpu. "
        "Its author has to correct the entry point."
    )


@each("name", ["newchip", "newchip.", ".top"])
def test_a_table_whose_name_lacks_a_part_is_listed_as_misnamed(name: str) -> None:
    registry = Registry(offers=[*CHIP_PACKAGE, table(name, "chips", CONV)])
    assert {row.name: row.state for row in registry.describe("tpuc.lowerings")}[name] == "misnamed"
    assert value(registry, "top", CONV) == "chips newchip.top"


def test_a_cell_that_a_table_already_has() -> None:
    cells = ImporterTable("reader", "top")
    cells.imports("Relu")(len)
    with pytest.raises(PluginError) as caught:
        cells.imports("Relu")(len)
    assert str(caught.value) == "table reader.top: 'Relu' is registered twice; keep one of the two"
