"""From TPU ops to instructions: tiles, LMEM buffers, packed constants, DDR addresses, order of loads and stores."""
