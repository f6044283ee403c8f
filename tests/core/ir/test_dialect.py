"""Dialects: op names to definitions, imported when first asked for."""

from __future__ import annotations

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
