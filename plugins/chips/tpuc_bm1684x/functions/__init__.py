"""CPU layers of the vendor's library for TOP ops, one file each."""
