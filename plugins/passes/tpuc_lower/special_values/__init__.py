"""Numbers that a chip or a mode cannot hold: infinities of masks, constants that keep divisors above 0."""
