"""The TFLite front end: imports `.tflite` files, float and fully quantized, into TOP."""

from __future__ import annotations
