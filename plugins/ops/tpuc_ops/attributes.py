"""Attribute types of the TPU dialect beyond those that every plugin has."""

from __future__ import annotations

import dataclasses
from typing import Annotated, get_args

from tpuc.api import RoundMode

# An enumeration as `RoundMode` is one, under another mnemonic.
PoolMode = Annotated[str, dataclasses.replace(get_args(RoundMode)[1], mnemonic="pool_mode")]
ActiveMode = Annotated[str, dataclasses.replace(get_args(RoundMode)[1], mnemonic="active_mode")]
PadMode = Annotated[str, dataclasses.replace(get_args(RoundMode)[1], mnemonic="Pad_Mode")]
