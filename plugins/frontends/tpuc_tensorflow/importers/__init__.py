"""Importers of TensorFlow's operators, most of them through the TFLite operators that TensorFlow's converter would
write.
"""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_tensorflow.importers.common import TABLE

import_modules(__name__)

__all__ = ["TABLE"]
