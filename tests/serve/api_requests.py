"""Requests to every route, drawn from its own description, against it, and as bytes that are hardly HTTP.

The server serves a run of each kind of task, and two that are damaged. Half of the requests name what there is: all
others would end at a 404.
"""

import shutil
import socket
from contextlib import suppress

import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks as judged

from regard.serve.app import make_app
from regard.serve.registry import Registry
from tests.fixtures.runs import HERE
from tests.fuzz.mutations import mutate

from .conftest import Running

SERVED = ("lm-transformer", "lm-ngram", "lm-mamba", "translate-rnn-attention-additive", "summarise-transformer",
          "caption-transformer", "classify-lstm", "tag-transformer", "masked-transformer")
DAMAGED = ("damaged-weights", "damaged-settings")
METHODS = ("get", "post")
ENDLESS = "/api/runs/{id}/events"                            # a stream that follows a run
MODES = ("positive", "negative", "raw")
AT_ONCE = 20                                                 # requests of a case
RAW_AT_ONCE = 8                                              # some are waited for
NO_VERDICT = (413, 429, 503)                                 # too large or too busy: refused before it was looked at
ANSWERS = [judged.status_code_conformance, judged.content_type_conformance, judged.response_schema_conformance]


def case_number(body):
    """A number that follows from a body, to choose by."""
    return len(repr(body))


class Attacked:
    """A server in this process, and its description; `close` ends it."""

    def __init__(self, folder):
        runs = [shutil.copytree(HERE / "runs" / name, folder / name) for name in SERVED]
        runs += [shutil.copytree(HERE / "runs" / "lm-transformer", folder / name) for name in DAMAGED]
        with open(folder / DAMAGED[0] / "model.safetensors", "r+b") as file:
            file.truncate(100)
        (folder / DAMAGED[1] / "run.toml").write_text('[run]\ntask = "lm"\nfamily = [1]\n')
        (folder / SERVED[0] / "metrics.jsonl").write_text('{"step": NaN}\n[]\n{"step": 1, "valid_loss": Infinity}\n')
        self.registry = Registry(runs, device="cpu")
        for name in SERVED:
            assert self.registry.get(name).trained
        self.server = Running(make_app(self.registry))
        self.schema = schemathesis.openapi.from_url(f"{self.server.url}/openapi.json")
        described = self.schema.raw_schema["paths"]
        self.routes = [(method, path) for path, own in sorted(described.items()) for method in METHODS
                       if method in own and path != ENDLESS]
        self.look = ""

    def close(self):
        self.server.stop()

    def held_look(self):
        """The id of a look that the server holds; it is asked for again each time, as others take its room."""
        import httpx2

        answer = httpx2.post(f"{self.server.url}/api/look", json={"model": SERVED[0], "text": "a cat"}, timeout=60)
        return answer.json()["id"] if answer.status_code == 200 else "0" * 32

    def attack(self, method, path, mode, seed):
        """Send the requests of a case; what is wrong with an answer, or nothing."""
        if "/api/look/" in path:
            self.look = self.held_look()
        try:
            if mode == "raw":
                self.send_bytes(method, path, seed)
            else:
                self.send_described(method, path, schemathesis.GenerationMode(mode), seed)
        except Unsatisfiable:
            return ""                                        # whatever is sent fits the description
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return f"{method} {path}, {mode}: " + " | ".join(str(error).split("\n"))[:1200]
        return ""

    def send_described(self, method, path, mode, seed):
        wanted = ANSWERS + ([judged.negative_data_rejection] if mode is schemathesis.GenerationMode.NEGATIVE else [])

        @settings(max_examples=AT_ONCE, deadline=None, database=None, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck))
        @hypothesis.seed(seed)
        @given(case=self.schema[path][method.upper()].as_strategy(generation_mode=mode))
        def each(case):
            self.name_what_there_is(case, wrong=len(wanted) > len(ANSWERS))
            answer = case.call()
            assert answer.status_code < 500 or answer.status_code == 503, (answer.status_code, answer.text, case.body)
            if answer.status_code not in NO_VERDICT:
                case.validate_response(answer, checks=wanted)

        each()

    def name_what_there_is(self, case, wrong):
        """Change half of the requests: a model, a run, a look; and the number of tokens, as this is not about speed.
        Where a request is meant to be wrong, an id may be what is wrong with it, and stays."""
        body, places = case.body, case.path_parameters or {}
        known = (*SERVED, *DAMAGED)
        if isinstance(body, dict):
            if isinstance(body.get("model"), str) and len(body["model"]) in (2, 4, 6, 8):
                body["model"] = known[(len(body["model"]) + case_number(body)) % len(known)]
            for name, most in (("max_tokens", 12), ("new_tokens", 12)):
                if isinstance(body.get(name), int) and not isinstance(body[name], bool):
                    body[name] = min(body[name], most)
        given_id = places.get("id", places.get("model"))
        if isinstance(given_id, str) and len(given_id) % 2 and not wrong:
            name = "id" if "id" in places else "model"
            places[name] = self.look if "/api/look/" in case.path else known[len(given_id) // 2 % len(known)]

    def send_bytes(self, method, path, seed):
        """Requests that are bytes changed at random: each is answered, or the connection is closed."""
        for number in range(RAW_AT_ONCE):
            filled = path.replace("{id}", self.look or SERVED[0]).replace("{track}", "attention").replace(
                "{form}", "map").replace("{model}", SERVED[0]).replace("{name}", "rnn")
            body = b'{"model": "lm-transformer", "text": "a cat", "prompt": "a", "max_tokens": 2, "q": "un chat"}'
            head = (f"{method.upper()} {filled} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n").encode()
            said = mutate(head + body, number, seed)
            status = self.ask(said)
            assert status is None or 200 <= status < 500 or status == 503, (status, said)
        health = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        assert self.ask(health, 30) == 200, "/health is not answered"

    def ask(self, said, seconds=1.0):
        """The status of the answer to these bytes; None where the connection was closed, or more is waited for."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection, suppress(
                ConnectionError, TimeoutError):
            connection.sendall(said)
            connection.settimeout(0.2 if b"\r\n\r\n" not in said else seconds)
            while piece := connection.recv(65536):
                answer += piece
        return int(answer.split()[1]) if answer else None
