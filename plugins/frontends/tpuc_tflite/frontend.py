"""The front end as registered; flatbuffers are imported when a file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpuc.api import Frontend, ImportOptions, Module


class TfliteFrontend(Frontend):
    """Reads `.tflite` files of schema version 3."""

    name = "tflite"
    suffixes = (".tflite",)
    specializes_by = frozenset({"input_names", "fixed_inputs"})

    def read(self, path: Path, options: ImportOptions, registry: Any) -> Module:
        """Return a TOP module with weights. Raises InvalidModel or Unsupported."""
        from tpuc_tflite.loading import load_graph
        from tpuc_tflite.ordering import needed_part
        from tpuc_tflite.specializing import specialized
        from tpuc_tflite.spectra import without_spectra
        from tpuc_tflite.states import with_states
        from tpuc_tflite.translation import translate
        from tpuc_tflite.variables import without_variables

        graph = specialized(without_variables(load_graph(path), options.output_names), options)
        graph = with_states(needed_part(without_spectra(graph), options.output_names))
        return translate(graph, options, registry)


FRONTEND = TfliteFrontend()
