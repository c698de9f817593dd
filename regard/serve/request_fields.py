"""Fields that several requests have, and the input of a model that is made of them."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from regard.errors import DataError
from regard.serve.limits import BODY, CHARACTERS
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened


class StrictRequest(BaseModel):
    """The body of a request in which no other field may stand."""

    model_config = ConfigDict(extra="forbid")


ModelId = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=CHARACTERS)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Place = Annotated[int, Field(ge=0, lt=2**31)]
Amount = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Picture = Annotated[str, Field(max_length=BODY, description="PNG or JPEG in base64, or an example by name: "
                               "shapes-1 .. shapes-9999")]


def read_picture(image: str) -> bytes:
    """Return the file of a picture: an example by its name, or base64, with or without a data URL's beginning."""
    from regard.look.picture import example_picture

    example = example_picture(image)
    if example is not None:
        return example
    data = image.partition(",")[2] if image.startswith("data:") else image
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("the image is neither an example nor base64: send a PNG or JPEG file in base64") from None


def read_input(opened: Opened, text: str | None, image: str | None) -> Any:
    """Return what the model reads: the text, or the pixels (S, S, 3) of the picture."""
    from regard.look.picture import decoded

    if opened.card.reads != "image":
        if text is None:
            raise Refusal(422, f"{opened.id} reads a text: give one", param="text")
        return text
    if not image:
        raise Refusal(422, f"{opened.id} reads a picture: give one", param="image")
    return decoded(read_picture(image), opened.trained.size)
