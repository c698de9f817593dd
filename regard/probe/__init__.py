"""Probes: questions asked of a trained model that need reads of their own."""

from regard.probe.influence import influence

__all__ = ["influence"]
