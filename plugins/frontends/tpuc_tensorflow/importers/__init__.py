"""Operators of TensorFlow as TOP, most of them as the TFLite operators that TensorFlow's converter makes of them."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_tensorflow.importers.common import TABLE

import_modules(__name__)

__all__ = ["TABLE"]
