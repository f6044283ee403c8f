"""Plan TPU ops and turn them into instructions: tiling, local memory, DDR addresses, transfer order, code."""
