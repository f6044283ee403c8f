"""Building blocks for kernels and lowerings of several chips: window tiles, strided copies, shared lowerings."""
