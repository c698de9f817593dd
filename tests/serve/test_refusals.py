"""A request with several mistakes is refused for the first of them: where it stands, and what it is."""

import pytest
from fastapi.exceptions import RequestValidationError

from regard.serve.refusals import invalid

WRONG = {"loc": ("body", "messages", 0, "text"), "msg": "Field required", "type": "missing"}
BROKEN = {"loc": ("body", 7), "msg": "JSON decode error", "type": "json_invalid"}
WHOLE = {"loc": ("body",), "msg": "Input should be a valid dictionary", "type": "dict_type"}


@pytest.mark.parametrize("errors, param, message", [
    ([WRONG], "messages.0.text", "messages.0.text: Field required"),
    ([WRONG, WHOLE], "messages.0.text", "messages.0.text: Field required"),
    ([WHOLE, WRONG], None, "Input should be a valid dictionary"),
    ([BROKEN], None, "the body is not JSON")])
def test_the_first_mistake_is_told(errors, param, message):
    refused = invalid(RequestValidationError(errors))
    assert (refused.status, refused.param, refused.message) == (422, param, message)
    assert refused.body() == {"error": {
        "message": message, "type": "invalid_request_error", "param": param, "code": None}}
