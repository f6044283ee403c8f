"""Code shared by front ends: finding importers, building TOP modules, walking nodes, and reporting what cannot be
imported.
"""
