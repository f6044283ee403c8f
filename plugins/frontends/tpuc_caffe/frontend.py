"""The front end as registered; protobuf is imported when a file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from tpuc.api import Frontend, ImportOptions, Module


class CaffeFrontend(Frontend):
    """Reads a `.prototxt` of any version of the format, with the weights given by `--model-data`."""

    name = "caffe"
    suffixes = (".prototxt",)
    others: ClassVar = {
        ".caffemodel": "this file contains the weights of a Caffe network; pass its .prototxt, and this file with "
        "--model-data"
    }

    def read(self, path: Path, options: ImportOptions, registry: Any) -> Module:
        """Return a TOP module with weights. Raises InvalidModel or Unsupported."""
        from tpuc_caffe.layers import read_network
        from tpuc_caffe.loading import load_text, load_weights
        from tpuc_caffe.translation import translate

        net, unknown = load_text(path)
        weights = None if options.model_data is None else load_weights(options.model_data)
        return translate(read_network(net, path), weights, unknown, options, registry)


FRONTEND = CaffeFrontend()
