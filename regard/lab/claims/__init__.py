"""One claim a file. Each has an EXPERIMENT; add a file and it is found."""
