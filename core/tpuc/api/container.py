"""What writers of file formats import: FlatBuffers from a table of facts."""

from __future__ import annotations

from tpuc.machine.flatbuffer import FieldFact, Record, Schema, TypeFact

__all__ = ["FieldFact", "Record", "Schema", "TypeFact"]
