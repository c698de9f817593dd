"""The campaigns of the soak, one a file: see tests/soak/__init__.py for how to add one."""
