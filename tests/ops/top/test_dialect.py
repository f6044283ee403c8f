"""The tables of the bundled dialects."""

from __future__ import annotations

import importlib
import subprocess
import sys

from tpuc.api import Dialect, op_fields

from tests.families import each

DIALECTS = ("top", "tpu", "quant")


def dialect(name: str) -> Dialect:
    return importlib.import_module(f"tpuc_ops.{name}").DIALECT


@each("name", DIALECTS)
def test_table_imports_without_numpy(name: str) -> None:
    code = f"import sys, tpuc_ops.{name} as m; assert m.DIALECT.name == {name!r}; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@each("name", DIALECTS)
def test_every_op_loads_under_its_own_name(name: str) -> None:
    table = dialect(name)
    assert list(table.names())
    for op_name in table.names():
        op = table.op(op_name)
        assert op is not None
        assert op.name == f"{name}.{op_name}"
        op_fields(op)
