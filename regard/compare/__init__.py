"""Comparisons: families side by side under one budget, and which differences are beyond the noise."""
