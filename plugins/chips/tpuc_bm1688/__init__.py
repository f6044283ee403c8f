"""CV186x: a chip of the second generation, with the instructions, kernels and files of BM1684X."""
