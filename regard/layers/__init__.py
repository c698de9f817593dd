"""Layers: the equations; attend.py has the one softmax over keys."""
