"""Live ranges of values in DDR, and which of them share an address."""
