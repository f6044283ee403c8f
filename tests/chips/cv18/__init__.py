"""Random instructions of the family, for the tests of each of its chips."""
