"""Modules of tpuc in Model Explorer: an adapter for `.mlir`, and a command that writes errors and cycles of nodes."""
