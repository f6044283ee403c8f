"""Numbers that a chip or a mode cannot represent: infinities of masks, constants that keep divisors above 0."""
