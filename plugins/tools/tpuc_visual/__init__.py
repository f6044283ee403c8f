"""Float and quantised network side by side in a browser: `tpuc visual`."""
