"""CV186x and BM1688: chips of the second generation, with the instructions, kernels and files of BM1684X."""
