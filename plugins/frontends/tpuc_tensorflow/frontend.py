"""The front end as registered; protobuf is imported when a file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpuc.api import Frontend, ImportOptions, Module


class TensorflowFrontend(Frontend):
    """Reads frozen graphs as `.pb` and `.pbtxt`, and a SavedModel by its folder or `saved_model.pb`."""

    name = "tensorflow"
    suffixes = (".pb", ".pbtxt")
    folder_file = "saved_model.pb"
    others = dict.fromkeys(
        (".keras", ".h5", ".hdf5"),
        "a Keras file contains Python classes besides the weights; save the network with model.export('folder') and "
        "give "
        "the folder",
    )

    def read(self, path: Path, options: ImportOptions, registry: Any) -> Module:
        """Return a TOP module with weights. Raises InvalidModel or Unsupported."""
        from tpuc_tensorflow.translation import translate

        return translate(path, options, registry)


FRONTEND = TensorflowFrontend()
