"""Work on npz files: `tpuc npz`."""
