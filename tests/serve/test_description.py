"""The OpenAPI description is true: whatever is sent by it or against it, no answer is a failure of the server."""

import os
import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from regard.serve.app import make_app
from regard.serve.refusals import WHEN
from regard.serve.registry import Registry

from .conftest import NAMES, Running

schemathesis = pytest.importorskip("schemathesis", reason="sends what the description allows, and what it does not")

EXAMPLES = int(os.environ.get("REGARD_FUZZ", 25))                 # a route and kind of data; more for a long run
NO_VERDICT = (413, 429, 503)       # too large or too busy: refused before it was looked at

# A reader that follows a run has no end; its tests are in test_training.
ENDLESS = "/api/runs/{id}/events"
METHODS = ("get", "post")


def paths():
    """The routes, known without a model: each is a test of its own."""
    described = make_app(Registry([])).openapi()["paths"]
    return [(method, path) for path, own in sorted(described.items()) for method in METHODS if method in own]


@pytest.fixture(scope="module")
def schema(runs, tmp_path_factory):
    """As a real server gives it that serves a damaged run, too."""
    damaged = tmp_path_factory.mktemp("runs") / "damaged"
    shutil.copytree(runs / "stories-transformer", damaged)
    with open(damaged / "model.safetensors", "r+b") as file:
        file.truncate(100)
    for name in ("metrics.jsonl", "samples.jsonl"):
        (damaged / name).write_text('{"step": NaN}\n[]\n{"step": 1, "text": "\\ud800", "valid_loss": Infinity}\n')
    registry = Registry([*(runs / name for name in NAMES), damaged], device="cpu")
    for name in NAMES:
        assert registry.get(name).trained
    server = Running(make_app(registry))
    yield schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    server.stop()


def fuzz(schema, method, path, mode):
    """Requests of this kind; each answer is held to the description."""
    operation = schema[path][method.upper()]

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
              phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    def each(case):
        meant(case)
        answer = case.call()
        assert answer.status_code < 500 or answer.status_code == 503, (answer.status_code, answer.text)
        if answer.status_code not in NO_VERDICT:
            case.validate_response(answer, checks=checks)

    checks = [schemathesis.checks.status_code_conformance, schemathesis.checks.content_type_conformance,
              schemathesis.checks.response_schema_conformance]
    if mode is schemathesis.GenerationMode.NEGATIVE:
        checks.append(schemathesis.checks.negative_data_rejection)
    try:
        given(case=operation.as_strategy(generation_mode=mode))(each)()
    except Unsatisfiable:
        assert method == "get", "a body can always be wrong"
        pytest.skip("whatever is sent fits the description")


def meant(case):
    """Half of the requests name a model that there is: otherwise nearly all of them would end at a 404."""
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("model"), str) and len(body["model"]) % 2 == 0:
        body["model"] = ("stories-ngram", "stories-transformer", "phrasebook", "damaged")[len(body["model"]) // 2 % 4]
    if case.path.startswith("/api/runs/{id}"):
        case.path_parameters["id"] = ("stories-transformer", "damaged")[len(case.path_parameters["id"]) % 2]
    if isinstance(body, dict) and isinstance(body.get("max_tokens"), int):
        body["max_tokens"] = min(body["max_tokens"], 20)               # this is not about speed


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("method", "path"), paths())
def test_no_request_makes_the_server_fail(schema, method, path, mode):
    if path == ENDLESS:
        pytest.skip("a stream without an end")
    fuzz(schema, method, path, schemathesis.GenerationMode(mode))


def test_every_route_says_how_it_may_refuse(app):
    described = app.openapi()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert {str(status) for status in WHEN} <= set(operation["responses"]), (method, path)
            assert operation.get("description") or operation.get("summary"), (method, path)
    for status in WHEN:
        told = described["paths"]["/v1/completions"]["post"]["responses"][str(status)]
        assert told["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody")


def test_nothing_is_described_by_pages_of_others(client):
    for path in ("/docs", "/redoc"):
        assert client.get(path).status_code == 404
