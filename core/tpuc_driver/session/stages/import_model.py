"""Import a network file as an optimized TOP module."""

from __future__ import annotations

from pathlib import Path

from tpuc.ir import Module
from tpuc.schedule.results import POSTPROCESS

from tpuc_driver.data import described
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.importing import keep_simplified, read_network
from tpuc_driver.session.settings import NetworkSettings


def import_model(configuration: Configuration, path: Path, settings: NetworkSettings) -> Module:
    """Import a network and optimize it; the module as imported is kept where intermediate modules are."""
    preprocess = described(settings.get("preprocess") or {}, configuration.registry, configuration.remark)
    settings = {**settings, "preprocess": preprocess}
    folder = settings.get("keep_in")
    with configuration.clock.timed("import"):
        module = configuration.laid_out(read_network(configuration.registry, path, settings))
        if folder is not None:
            keep_simplified(configuration.registry, path, settings, folder)
    configuration.keep_origin(module, folder)
    with configuration.clock.timed("optimize"):
        context = configuration.context({POSTPROCESS: settings.get("post") or ""})
        configuration.manager(context).run_pipeline("top-optimize", module)
    return module
