"""From TPU ops to instructions: tiling, local memory, DDR addresses, transfer order, code."""
