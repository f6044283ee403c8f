"""What front ends share: finding importers, building TOP modules, walking nodes, telling what cannot be imported."""
