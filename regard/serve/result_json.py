"""Answers that are results of the library: the dataclass of a result is its JSON, and its description.

    @router.post("/beam", **answers("regard.look.beam_tree", "BeamTree"))
    async def beam(request: Request, ask: BeamRequest) -> Response:
        return await run(lambda: send(beam_tree(...)))

A route only names its result: most modules of results import torch, which is loaded when a model is first used.
`describe` imports them, when somebody asks for /openapi.json.

In JSON a number that is not finite is null, and an array is base64 of little-endian numbers. A dict of results by name
is a list of them, as each has its name in a field.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response

JSON = "application/json"
SCHEMAS = "#/components/schemas/"
RESULT = "x-result"                    # in a description: the result that `describe` puts there
SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"}, NoneType: {"type": "null"},
    float: {"type": ["number", "null"]}, Any: {},
    np.ndarray: {"type": "string", "description": "Base64, little-endian."}}


def answers(module: str, name: str) -> dict[str, Any]:
    """Options of a route that sends the result of this name."""
    schema = {RESULT: [module, name]}
    return {"response_class": Response, "responses": {
        200: {"description": "Successful Response", "content": {JSON: {"schema": schema}}}}}


def send(result: Any) -> Response:
    text = json.dumps(as_json(result), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text, media_type=JSON)


def as_json(value: Any) -> Any:
    """Return a result as values that JSON knows."""
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        named = bool(value) and all(is_dataclass(each) for each in value.values())
        return as_json(list(value.values())) if named else {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, np.ndarray):
        return base64.b64encode(np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()).decode()
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ------------------------------------------------------------------------------------------ description


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of the application, with the schemas of all results; it is made once."""
    if app.openapi_schema is None:
        described = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas: dict[str, Any] = {}
        for place in find_results(described):
            module, name = place.pop(RESULT)
            place.update(schema_of(getattr(import_module(module), name), schemas))
        described["components"]["schemas"] |= schemas
        app.openapi_schema = described
    return app.openapi_schema


def find_results(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema of a description in which a result is only named."""
    if isinstance(value, dict) and RESULT in value:
        yield value
    elif isinstance(value, dict | list):
        for each in list(value.values()) if isinstance(value, dict) else value:
            yield from find_results(each)


def schema_of(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a type; those of dataclasses in it are put into `schemas`, by name."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        if kind.__name__ not in schemas:
            hints = get_type_hints(kind)
            properties = {each.name: schema_of(hints[each.name], schemas) for each in fields(kind)}
            schemas[kind.__name__] = {"type": "object", "title": kind.__name__, "description": kind.__doc__,
                                      "properties": properties, "required": list(properties)}
        return {"$ref": f"{SCHEMAS}{kind.__name__}"}
    if isinstance(kind, type) and issubclass(kind, tuple) and kind is not tuple:             # with named places
        origin, inner = tuple, tuple(get_type_hints(kind).values())
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(each, schemas) for each in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple and Ellipsis not in inner:
        return {"type": "array", "prefixItems": [schema_of(each, schemas) for each in inner],
                "minItems": len(inner), "maxItems": len(inner)}
    if origin in (list, tuple) or (origin is dict and is_dataclass(inner[1])):
        return {"type": "array", "items": schema_of(inner[1] if origin is dict else inner[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inner[1], schemas)}
    return SIMPLE[origin]
