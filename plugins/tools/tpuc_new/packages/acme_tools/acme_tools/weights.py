"""`tpuc weights`: what makes a module large."""

from __future__ import annotations

from pathlib import Path

import click
from tpuc_driver.api.command import App, Command, pass_app


@click.command("weights", cls=Command)
@click.argument("file", metavar="FILE.mlir", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, file: Path, as_json: bool) -> None:
    """List the constants of a module, the largest first."""
    from tpuc.api import Constant, parse_module  # late: `tpuc --help` imports nothing heavy

    module = parse_module(file.read_text(encoding="utf-8"), app.registry.resolve_op, str(file))
    constants = [operation.result for operation in module.walk() if isinstance(operation.op, Constant)]
    rows = sorted(((value.tensor.size_bytes, value.name) for value in constants), key=lambda row: (-row[0], row[1]))
    if as_json:
        app.result_json({name: size_bytes for size_bytes, name in rows})
        return
    for size_bytes, name in rows:
        app.result(f"{size_bytes:10}  {name}")
