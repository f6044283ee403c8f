"""`tpuc opt`: run passes on a module."""

from __future__ import annotations

from pathlib import Path

import click
from tpuc.files import check_writable

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.cli.outputs import check_output
from tpuc_driver.cli.session import check_inputs, open_session
from tpuc_driver.cli.text import columns
from tpuc_driver.cli.values import FILE, MODE, OUTPUT


@click.command(
    "opt",
    cls=Command,
    section="Look inside",
    examples=("tpuc opt net.mlir --pass canonicalize",),
)
@click.argument("file", metavar="FILE.mlir", type=FILE, required=False)
@click.option("--pass", "passes", multiple=True, metavar="TEXT", help="A pass, as NAME or NAME{option=value,...}.")
@click.option("--pipeline", "stages", multiple=True, metavar="NAME", help="All passes of a stage, before any --pass.")
@click.option("--chip", help="Chip for passes that depend on one.")
@click.option("--quantize", type=MODE, default="f32", show_default=True, help="Mode for passes that depend on one.")
@click.option("--verify-each", is_flag=True, help="Check the module after every pass.")
@click.option("--dump-after", multiple=True, metavar="PASS", help="Write the module after this pass, or after `all`.")
@click.option("--work-dir", type=FILE, metavar="DIR", help="Folder for --dump-after.")
@click.option("--timing", is_flag=True, help="Show how long each pass took.")
@click.option("--list", "listing", is_flag=True, help="List passes and pipelines.")
@click.option("-o", "output", type=OUTPUT, metavar="FILE.mlir", help="Write here instead of stdout.")
@pass_app
def command(
    app: App,
    file: Path | None,
    passes: tuple[str, ...],
    stages: tuple[str, ...],
    chip: str | None,
    quantize: str,
    verify_each: bool,
    dump_after: tuple[str, ...],
    work_dir: Path | None,
    timing: bool,
    listing: bool,
    output: Path | None,
) -> None:
    """Run passes on a module."""
    if listing:
        list_passes(app)
        return
    if file is None:
        raise click.UsageError("Missing argument 'FILE.mlir'.", click.get_current_context())
    check_inputs(file)
    if output is not None:
        check_writable(output)
    from tpuc.ir.text import print_module
    from tpuc.ir.text.files import weight_file_of
    from tpuc.schedule import PassContext, PassManager

    context = PassContext(
        registry=app.registry,
        chip=app.registry.get("tpuc.chips", chip) if chip is not None else None,
        options={"quantize": quantize},
        work_dir=work_dir,
        log=app.log,
    )
    manager = PassManager(context, pipelines=app.pipelines, verify_each=verify_each, dump_after=dump_after)
    built = [manager.build(text) for text in passes]
    session = open_session(app)
    module = session.load(file)
    weights = weight_file_of(module)
    if output is not None and weights is not None:
        check_output("-o", output, [file.parent / weights])
    module.verify()
    for stage in stages:
        manager.run_pipeline(stage, module)
    manager.run(module, built)
    if output is None:
        app.result(print_module(module).rstrip("\n"))
    else:
        session.save(module, output)
        if module.weights.missing is not None:
            app.remark(f"{module.weights.missing}: no such npz; the text is written without weights.")
    if timing:
        rows = [(item.name, f"{item.seconds * 1000:.1f} ms") for item in manager.report.passes]
        for line in columns(rows).splitlines():
            app.remark(line)


def list_passes(app: App) -> None:
    """Passes with their packages, then stages with their passes. Imports none."""
    passes = [(row.name, f"{row.package} {row.version}") for row in app.registry.describe("tpuc.passes")]
    app.table([("pass", "package"), *passes])
    app.result("")
    app.table([("pipeline", "passes"), *((stage, " ".join(texts)) for stage, texts in app.pipelines.items())])
