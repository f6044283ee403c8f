"""Dialects: op names to definitions, imported when first asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tpuc.ir.dialect import Dialect
from tpuc.ir.op import Op, op_fields

from tests.core.ir.ops import DIALECTS, Relu


def test_ops_are_found_by_name() -> None:
    assert DIALECTS["t"].op("Relu") is Relu
    assert DIALECTS["t"].op("NoSuchOp") is None


def test_a_definition_is_imported_when_it_is_asked_for() -> None:
    dialect = Dialect("far", {"Op": "no_such_module:Op"})
    assert dialect.op("Other") is None
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        dialect.op("Op")


def test_a_field_without_an_attribute_type_is_refused() -> None:
    from tests.core.ir import untyped

    assert op_fields(Op) == ()
    with pytest.raises(TypeError, match="field 'size' of Untyped needs an attribute type such as I64 or F64Array"):
        op_fields(untyped.Untyped)


_MODULES = {
    "__init__": "",
    "base": "from tpuc.ir.op import Op\n\nclass Windowed(Op):\n    pass\n",
    "max_pool": "from wide_ops.base import Windowed\n\nclass MaxPool(Windowed):\n    name = 'wide.MaxPool'\n",
    "gelu": "from tpuc.ir.op import Op\n\nclass GELU(Op):\n    name = 'wide.GELU'\n",
    "none_": "from tpuc.ir.op import Op\n\nclass None_(Op):\n    name = 'wide.None'\n",
    "other": "from tpuc.ir.op import Op\n\nclass Other(Op):\n    name = 'far.Other'\n",
}


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dialect:
    """A dialect whose package has one module per op, and modules that define no op of their own name."""
    folder = tmp_path / "wide_ops"
    folder.mkdir()
    for name, text in _MODULES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "wide_ops"]:
        monkeypatch.delitem(sys.modules, name)
    return Dialect("wide", package="wide_ops")


def test_an_op_of_a_package_is_in_the_module_of_its_name(wide: Dialect) -> None:
    assert wide.op("MaxPool") is wide.definition("MaxPool")
    assert wide.definition("GELU").name == "wide.GELU"
    assert wide.op("None") is wide.definition("None_")
    assert "wide_ops.other" not in sys.modules


def test_a_module_of_a_package_without_an_op_of_its_name_defines_none(wide: Dialect) -> None:
    assert [wide.op(name) for name in ("base", "Other", "Absent", "maxpool")] == [None] * 4
    assert list(wide.names()) == ["GELU", "MaxPool", "None"]
    with pytest.raises(AttributeError, match="dialect 'wide' has no op class 'Absent'"):
        wide.definition("Absent")
