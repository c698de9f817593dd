"""Training: request, choices, run, loop, step, checkpoint, optimizer, report."""
