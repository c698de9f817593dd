"""Refusals: one line in one shape, for every route.

    {"error": {"message": "beam: must be at most 16", "type": "invalid_request_error", "param": "beam", "code": null}}

The shape is OpenAI's, so that its clients show the line. Failures of the server itself go to its log; a client gets
neither a path nor a traceback.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from regard.errors import RegardError

log = logging.getLogger("regard.serve")

KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 408: "timeout_error",
         429: "rate_limit_error", 500: "server_error", 503: "overloaded_error"}
WHEN = {
    400: "what was asked for cannot be done with this model",
    401: "no token, or a wrong one",
    403: "a foreign Host or Origin",
    404: "there is no such model, look or route",
    405: "the route has no such method",
    408: "the request did not arrive in time",
    413: "the body is too large",
    415: "the body is not of a type that is taken here",
    422: "the request is not of the described shape",
    429: "too many requests are waiting: try again after `Retry-After` seconds",
    431: "the request has too many headers, or too long ones",
    503: "it took too long, or could not be loaded",
}


class Mistake(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """One line, in OpenAI's shape."""

    error: Mistake


# For the OpenAPI description: the refusals of any route.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": about} for status, about in WHEN.items()}


class Refusal(Exception):
    """A refused request: the status, the line, the parameter it is about, and a code for programs."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.headers = status, message, param, code, headers

    def body(self) -> dict[str, Any]:
        kind = KINDS.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        # In ASCII, as a line may repeat what was sent, half a surrogate pair included.
        return Response(json.dumps(self.body()), self.status, self.headers, "application/json")


def refusal_of(error: Exception, request: Request) -> Refusal:
    """Return any exception as a refusal; one that is no mistake of the user's is logged."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RequestValidationError):
        return invalid(error)
    if isinstance(error, HTTPException):
        return Refusal(error.status_code, str(error.detail), headers=error.headers)
    if isinstance(error, RegardError):
        return Refusal(400, request.app.state.registry.without_paths(str(error)))
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if is_out_of_memory(error):
        return Refusal(503, "there is not enough memory for this: ask for less at once")
    return Refusal(500, "the server failed at this request; its log says why")


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"       # of torch


def invalid(error: RequestValidationError) -> Refusal:
    """Return the first fault of a request: its place, and what is wrong."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":                    # its place is that of a character, and no parameter's
        return Refusal(422, "the body is not JSON")
    where = [str(part) for part in first["loc"] if part not in ("body", "query", "path", "header")]
    name, what = ".".join(where) or None, str(first["msg"])
    return Refusal(422, f"{name}: {what}" if name else what, param=name)


def install(app: FastAPI) -> None:
    """Turn every known exception into its line; `Guard` in security.py catches the rest."""

    async def refuse(request: Request, error: Exception) -> Response:
        return refusal_of(error, request).response()

    for kind in (Refusal, RequestValidationError, HTTPException, RegardError):
        app.add_exception_handler(kind, refuse)
