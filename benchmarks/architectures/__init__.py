"""Architectures as people export them: one line each, in tables that need none of the packages they name."""

from __future__ import annotations

from benchmarks.architectures.audio import AUDIO
from benchmarks.architectures.classification import CLASSIFICATION
from benchmarks.architectures.detection import DETECTION
from benchmarks.architectures.images import IMAGES
from benchmarks.architectures.newer import NEWER
from benchmarks.architectures.row import Architecture, Input
from benchmarks.architectures.text import TEXT

ARCHITECTURES: tuple[Architecture, ...] = (*CLASSIFICATION, *DETECTION, *IMAGES, *TEXT, *AUDIO, *NEWER)

__all__ = ["ARCHITECTURES", "Architecture", "Input"]
