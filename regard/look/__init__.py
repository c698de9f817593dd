"""Looking at a model: one run on one input, and every number it read by, whatever its family."""

from regard.look.look import Look, LookSide, Prediction, Request, Token, look
from regard.look.track import Track

__all__ = ["Look", "LookSide", "Prediction", "Request", "Token", "Track", "look"]
