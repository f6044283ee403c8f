"""Statistics of values over samples, held-out samples, and checks of the samples."""
