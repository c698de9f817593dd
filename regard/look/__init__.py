"""Looking at a model: one run on one input, and every number it read by, whatever its family."""

from regard.look.look import look
from regard.look.parts import Look, Request, Said, Side, Token, Track

__all__ = ["Look", "Request", "Said", "Side", "Token", "Track", "look"]
