"""How well networks do on labelled data: `tpuc eval`, its data sets, post-processing and metrics."""
