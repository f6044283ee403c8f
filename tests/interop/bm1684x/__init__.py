"""BM1684X against the vendor's functional model."""
