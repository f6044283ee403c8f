"""From TPU ops to instructions: tiles, local memory, DDR addresses, order of loads and stores, code."""
