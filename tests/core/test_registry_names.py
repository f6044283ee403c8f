"""Names become objects when they are used; whatever is wrong with one is a sentence then, and not before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tpuc.api import Dialect
from tpuc.errors import PluginConflict, PluginError, UsageError
from tpuc.registry import Group, Offer, Registry

from tests.core.fakes import FakeChip, Rename, chip, offer
from tests.core.ir.ops import Weight
from tests.families import each


def sentence(error: type[Exception], registry: Registry, group: str, name: str) -> str:
    with pytest.raises(error) as caught:
        registry.get(f"tpuc.{group}", name)
    return str(caught.value)


def test_names_are_sorted_and_nothing_is_loaded() -> None:
    registry = Registry(offers=[offer("chips", "zeta", ImportError()), offer("chips", "alpha", ImportError())])
    assert registry.names("tpuc.chips") == ["alpha", "zeta"]
    assert [row.state for row in registry.describe("tpuc.chips")] == ["available", "available"]


def test_a_name_leads_to_its_object_and_is_loaded_once() -> None:
    loads: list[str] = []

    def load() -> FakeChip:
        loads.append("once")
        return FakeChip("newchip")

    registry = Registry(offers=[Offer("tpuc.chips", "newchip", "acme", "1.0", "acme:CHIP", load)])
    assert registry.get("tpuc.chips", "newchip") is registry.get("tpuc.chips", "newchip")
    assert loads == ["once"]


def test_unknown_name_suggests_the_closest_and_lists_the_rest() -> None:
    registry = Registry(offers=[chip("newchip2"), chip("other")])
    assert (
        sentence(UsageError, registry, "chips", "newchip")
        == "no chip named 'newchip'. Did you mean 'newchip2'? Installed: newchip2, other."
    )
    assert sentence(UsageError, registry, "chips", "q") == "no chip named 'q'. Installed: newchip2, other."
    assert UsageError.exit_code == 2


def test_unknown_name_in_an_empty_group_says_that_a_package_is_needed() -> None:
    assert (
        sentence(UsageError, Registry(offers=[]), "engines", "fast")
        == "no engine named 'fast': no installed package offers one. Install a package that does."
    )


def test_unknown_group_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError, match=r"'tpuc\.chip' is not a plugin group"):
        Registry(offers=[]).names("tpuc.chip")


class Judge:
    """What the names of an added group are subclasses of."""

    api_version = 1


class Strict(Judge):
    """One of them."""


JUDGES = Offer("tpuc.groups", "tpuc.judges", "acme", "1.0", f"{__name__}:Judge")


def test_a_package_may_add_a_group() -> None:
    registry = Registry(offers=[JUDGES, offer("judges", "strict", Strict), offer("judges", "other", FakeChip)])
    assert registry.names("tpuc.judges") == ["other", "strict"]
    assert registry.get("tpuc.judges", "strict") is Strict
    assert sentence(UsageError, registry, "judges", "x") == "no judge named 'x'. Installed: other, strict."
    assert "is the class FakeChip, not a subclass of Judge" in sentence(PluginError, registry, "judges", "other")


PANELS = Group("tpuc.panels", "panel of judges", f"{__name__}:Judge")


def test_a_group_in_capitals_says_itself_what_its_objects_are() -> None:
    told = Offer("tpuc.groups", "tpuc.panels", "acme", "1.0", f"{__name__}:PANELS")
    registry = Registry(offers=[told, offer("panels", "one", Strict()), offer("panels", "other", Strict)])
    assert isinstance(registry.get("tpuc.panels", "one"), Strict)
    assert "is the class Strict, not an instance of Judge" in sentence(PluginError, registry, "panels", "other")
    assert sentence(UsageError, registry, "panels", "x").startswith("no panel of judges named 'x'.")


def test_a_group_in_capitals_that_cannot_be_read_is_listed_nevertheless() -> None:
    lost = Offer("tpuc.groups", "tpuc.panels", "acme", "1.0", "no_such_module:PANELS")
    registry = Registry(offers=[lost, offer("panels", "one", Strict())])
    assert [row.name for row in registry.describe("tpuc.panels")] == ["one"]
    assert "no_such_module" in sentence(PluginError, registry, "panels", "one")


def test_groups_of_the_driver_stay_where_packages_are_replaced() -> None:
    theirs = Offer("tpuc.groups", "tpuc.readers", "acme", "1.0", f"{__name__}:Judge")
    for registry in (Registry(offers=[]), Registry(offers=[theirs])):
        assert (registry.names("tpuc.readers"), registry.group("tpuc.readers").kind) == ([], "reader")


def test_a_group_that_two_packages_add_conflicts_on_use_not_on_listing() -> None:
    again = Offer("tpuc.groups", "tpuc.judges", "dup-plugin", "0.3", f"{__name__}:Strict")
    offers = [JUDGES, again, offer("judges", "strict", Strict)]
    assert [row.state for row in Registry(offers=offers).describe("tpuc.judges")] == ["available"]
    assert "offered by two packages: acme 1.0, dup-plugin 0.3" in sentence(
        PluginConflict, Registry(offers=offers), "judges", "strict"
    )
    assert Registry(prefer=["acme"], offers=offers).get("tpuc.judges", "strict") is Strict


DOUBLE = (chip("newchip", "tpux-newchip", "0.3"), chip("newchip", "dup-plugin", "0.3"))


def test_two_packages_with_one_name_conflict_on_use_not_on_listing() -> None:
    registry = Registry(offers=DOUBLE)
    assert registry.names("tpuc.chips") == ["newchip"]
    assert {row.state for row in registry.describe("tpuc.chips")} == {"conflict"}
    assert (
        sentence(PluginConflict, registry, "chips", "newchip")
        == "chip 'newchip' is offered by two packages: dup-plugin 0.3, tpux-newchip 0.3. "
        "Uninstall one, or choose with --prefer PACKAGE."
    )


@each("spelling", ["dup-plugin", "Dup_Plugin"])
def test_prefer_settles_a_conflict(spelling: str) -> None:
    registry = Registry(prefer=[spelling], offers=DOUBLE)
    assert registry.offer("tpuc.chips", "newchip").package == "dup-plugin"
    assert {row.package: row.state for row in registry.describe("tpuc.chips")} == {
        "tpux-newchip": "overridden",
        "dup-plugin": "preferred",
    }


def test_the_first_preferred_package_wins() -> None:
    registry = Registry(prefer=["tpux-newchip", "dup-plugin"], offers=DOUBLE)
    assert registry.offer("tpuc.chips", "newchip").package == "tpux-newchip"


def test_one_package_that_offers_a_name_twice_must_decide() -> None:
    twice = [Offer("tpuc.chips", "newchip", "acme", "1.0", path) for path in ("acme:A", "acme:B")]
    assert (
        sentence(PluginError, Registry(prefer=["acme"], offers=twice), "chips", "newchip")
        == "chip 'newchip' is offered more than once by acme 1.0: acme:A, acme:B. Its author has to remove one of them."
    )


INSTALL = "Install what it needs, or uninstall acme."
MEND = "Its author has to fix acme, or a module that it imports; until then, uninstall acme."


@each(
    ("cause", "shown"),
    [
        (ModuleNotFoundError("No module named 'foo'"), f"ModuleNotFoundError: No module named 'foo'. {INSTALL}"),
        (OSError("libfoo.so: no such file"), f"OSError: libfoo.so: no such file. {INSTALL}"),
        (SyntaxError("invalid syntax"), f"SyntaxError: invalid syntax. {MEND}"),
        (RuntimeError("two\nlines."), f"RuntimeError: two lines. {MEND}"),
        (SystemExit(), f"SystemExit. {MEND}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_plugin_that_fails_to_import_is_named_with_version_cause_and_way_out(
    cause: BaseException, shown: str
) -> None:
    registry = Registry(offers=[offer("chips", "broken", cause), chip("whole", "other")])
    assert sentence(PluginError, registry, "chips", "broken") == f"chip 'broken' of acme 1.0 cannot be loaded: {shown}"
    assert registry.get("tpuc.chips", "whole").description.name == "whole"


def test_a_module_that_does_not_exist_fails_when_used() -> None:
    registry = Registry(offers=[Offer("tpuc.chips", "ghost", "acme", "1.0", "no_such_module_at_all:CHIP")])
    assert "ModuleNotFoundError: No module named 'no_such_module_at_all'" in sentence(
        PluginError, registry, "chips", "ghost"
    )


def test_an_object_without_api_version_is_refused() -> None:
    registry = Registry(offers=[offer("planners", "p", SimpleNamespace())])
    assert (
        sentence(PluginError, registry, "planners", "p")
        == "memory planner 'p' of acme 1.0 has no api_version; this tpuc supports 1. "
        "Ask its author to add `api_version = 1`; until then, uninstall acme."
    )


def test_an_object_of_another_api_version_is_refused() -> None:
    registry = Registry(offers=[offer("planners", "p", SimpleNamespace(api_version=2))])
    assert (
        sentence(PluginError, registry, "planners", "p")
        == "memory planner 'p' of acme 1.0 was written for api_version 2, this tpuc supports 1. "
        "Install another version of acme or of tpuc."
    )


@each(
    ("group", "value", "misfit"),
    [
        ("chips", SimpleNamespace(api_version=1), "an instance of SimpleNamespace, not an instance of Chip"),
        ("chips", FakeChip, "the class FakeChip, not an instance of Chip"),
        ("passes", Rename(), "an instance of Rename, not a subclass of Pass"),
        ("passes", FakeChip, "the class FakeChip, not a subclass of Pass"),
        ("lowerings", SimpleNamespace(api_version=1), "not a table: it has no mapping `cells`"),
    ],
)
def test_an_object_of_the_wrong_kind_is_refused(group: str, value: Any, misfit: str) -> None:
    registry = Registry(offers=[offer(group, "a.b", value)])
    assert sentence(PluginError, registry, group, "a.b").endswith(
        f" 'a.b' of acme 1.0 cannot be used: acme:a.b is {misfit}. Its author has to correct the entry point."
    )


def test_choices_that_name_nothing_are_refused() -> None:
    offers = [chip("newchip", "tpux-newchip"), offer("hooks", "watcher", object(), "watch-plugin")]
    with pytest.raises(UsageError) as caught:
        Registry(prefer=["tpux-newship"], offers=offers).check_choices()
    assert str(caught.value) == (
        "no plugin package named 'tpux-newship'. Did you mean 'tpux-newchip'? Installed: tpux-newchip, watch-plugin."
    )
    with pytest.raises(UsageError) as caught:
        Registry(enabled=["wacher"], offers=offers).check_choices()
    assert str(caught.value) == (
        "no plugin named 'wacher'. Did you mean 'watcher'? Installed: tpux-newchip, watch-plugin, watcher."
    )
    Registry(prefer=["tpux_newchip"], enabled=["watcher"], offers=offers).check_choices()


def test_ops_are_found_through_their_dialect() -> None:
    dialect = Dialect("t", {"Weight": "tests.core.ir.ops:Weight"})
    registry = Registry(offers=[offer("dialects", "t", dialect)])
    assert registry.resolve_op("t.Weight") is Weight
    assert registry.resolve_op("t.NoSuchOp") is None
    assert registry.resolve_op("nowhere.Relu") is None
