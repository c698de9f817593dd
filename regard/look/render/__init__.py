"""Maps as pictures: on the terminal, or in a file whose ending says the form."""

from regard.look.render.files import FORMS, save
from regard.look.render.terminal import show

__all__ = ["FORMS", "save", "show"]
