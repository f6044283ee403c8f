"""TFLite front end: `.tflite` files, float and fully quantised, become TOP modules."""

from __future__ import annotations
