"""Each rule, with a request that breaks it."""

import socket
import time

import pytest
from starlette.routing import Route

from regard.errors import SettingError
from regard.serve.app import make_app
from regard.serve.routes.page import PAGE
from regard.serve.security import HEADERS, Security, host_name, is_loopback, make_token
from regard.serve.server import ServerSettings

from .conftest import Running, client_of, line_of

TOKEN = "a-token-of-the-tests-own"
ASK = {"model": "stories-ngram", "prompt": "Once", "max_tokens": 1}


@pytest.fixture
def guarded(registry):
    return client_of(registry, security=Security(TOKEN, "0.0.0.0"))


# ---------------------------------------------------------------------------------------------- hosts


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", "localhost@evil",
                                  "192.168.0.9", "[::1", "localhost:port", "::1"])
def test_a_foreign_host_is_refused(client, host):
    assert "host is not served" in line_of(client.get("/health", headers={"host": host}), 403)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "localhost."])
def test_a_loopback_host_is_served(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


def test_a_given_name_is_served_and_no_other(registry):
    client = client_of(registry, security=Security(TOKEN, "models.example"))
    assert client.get("/health", headers={"host": "models.example:8000"}).status_code == 200
    assert client.get("/health", headers={"host": "192.168.0.9"}).status_code == 403


def test_bound_everywhere_any_address_is_served_but_no_strange_name(guarded):
    assert guarded.get("/health", headers={"host": "192.168.0.9:8000"}).status_code == 200
    assert guarded.get("/health", headers={"host": "evil.example"}).status_code == 403


def test_names_in_host_headers():
    assert [host_name(h) for h in ("a:1", "[::1]:1", "[::1]", "A.", "", ":1", "a:b", "a:1:2")] == [
        "a", "::1", "::1", "a", None, None, None, None]
    assert all(map(is_loopback, ("LocalHost", "127.9.9.9", "::1"))) and not any(map(is_loopback, ("0.0.0.0", "a.b")))


# -------------------------------------------------------------------------------------------- origins


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil"])
@pytest.mark.parametrize("ask", [
    lambda client, headers: client.post("/v1/completions", json=ASK, headers=headers),
    lambda client, headers: client.post("/translate", data={"q": "Oui.", "target": "en"}, headers=headers)])
def test_a_write_from_another_origin_is_refused(client, origin, ask):
    assert "another site" in line_of(ask(client, {"origin": origin}), 403)


def test_a_write_from_the_page_itself_is_done(client):
    assert client.post("/v1/completions", json=ASK, headers={"origin": "http://127.0.0.1"}).status_code == 200


def test_a_picture_on_another_page_cannot_ask(client):
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert "another site" in line_of(client.get("/api/models", headers=foreign), 403)
    assert client.get("/", headers={**foreign, "sec-fetch-mode": "navigate"}).status_code == 200       # a link


def test_nothing_is_allowed_to_other_origins(client):
    asked = client.options("/v1/completions", headers={
        "origin": "http://127.0.0.1", "access-control-request-method": "POST"})
    assert not [name for name in asked.headers if name.startswith("access-control")]


# --------------------------------------------------------------------------------------------- tokens


def every_address(app):
    """One address of each route, whatever includes it."""
    found = []
    for path, methods in app.openapi()["paths"].items():
        found += [(method.upper(), path.replace("{", "").replace("}", "")) for method in methods]
    found += [("GET", route.path.replace("{", "").replace("}", "")) for route in app.routes if isinstance(route, Route)]
    return sorted({(method, path) for method, path in found if path != "/health"})


def test_every_route_but_health_needs_the_token(guarded):
    addresses = every_address(guarded.app)
    assert {("GET", "/api/models"), ("POST", "/v1/completions"), ("POST", "/translate")} <= {*addresses}
    hidden = [("GET", "/openapi.json"), ("GET", "/"), ("GET", "/page/main.js")]               # not in the description
    for method, path in [*addresses, *hidden, ("GET", "/index.html"), ("GET", "/nothing"), ("POST", "/health/")]:
        assert "token" in line_of(guarded.request(method, path, json={}), 401), path
    assert guarded.get("/health").status_code == 200


@pytest.mark.parametrize("header", [
    f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer ünïcode", "Bearer \x00"])
def test_a_wrong_token_is_refused(guarded, header):
    line_of(guarded.get("/api/models", headers={"authorization": header.encode("latin-1")}), 401)


def test_the_token_goes_into_the_header(guarded):
    assert guarded.get("/api/models", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200


def test_opening_the_page_with_the_token_sets_a_cookie(guarded):
    opened = guarded.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert opened.status_code == 200 and TOKEN not in opened.text
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    assert "no-store" in opened.headers["cache-control"]
    assert guarded.get("/api/models").status_code == 200               # the client keeps it
    guarded.cookies.clear()
    assert guarded.get("/api/models").status_code == 401


def test_a_wrong_token_in_the_address_sets_nothing(guarded):
    for path in ("/?token=wrong", "/api/models?token=" + TOKEN):
        refused = guarded.get(path)
        assert refused.status_code == 401 and "set-cookie" not in refused.headers


def test_a_token_is_of_256_bits_and_needed_where_others_can_reach():
    assert len(make_token()) == 43 and make_token() != make_token()
    with pytest.raises(SettingError, match="token is needed"):
        Security(None, "0.0.0.0")
    for short in ("short", "a" * 15):
        with pytest.raises(SettingError, match=f"{len(short)} characters: give at least 16"):
            Security(short)
    assert Security("a" * 16).token == "a" * 16
    assert TOKEN not in repr(Security(TOKEN))


# --------------------------------------------------------------------------------------------- bodies


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
def test_a_write_must_be_json(client, kind):
    sent = client.post("/v1/completions", content=b"{}", headers={"content-type": kind})
    assert "application/json" in line_of(sent, 415)


def test_forms_are_taken_where_their_clients_send_them(client):
    assert client.post("/translate", data={"q": "Oui.", "target": "en"}).status_code == 200
    assert client.post("/translate", files={"q": (None, "Oui."), "target": (None, "en")}).status_code == 200
    line_of(client.post("/translate", content="q=Oui.", headers={"content-type": "text/plain"}), 415)


def test_a_large_body_is_refused_by_its_length(client):
    assert "1,000,000 bytes" in line_of(client.post("/v1/completions", json={"prompt": "a" * 1_000_001}), 413)


def test_a_large_body_is_refused_as_it_arrives(client):
    sent = 0

    def pieces():
        nonlocal sent
        for _ in range(100):
            sent += 100_000
            yield b" " * 100_000

    asked = client.post("/v1/completions", content=pieces(), headers={"content-type": "application/json"})
    line_of(asked, 413)


@pytest.mark.parametrize("length", [b"Content-Length: 3000000", b"Transfer-Encoding: chunked"])
def test_the_refusal_reaches_who_first_sends_all_of_a_large_body(running, length):
    """Closed with bytes unread, a connection is reset, and what was answered on it may be lost."""
    chunked = b"chunked" in length
    with socket.create_connection(("127.0.0.1", running().port)) as connection:
        connection.settimeout(10)
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           + length + b"\r\n\r\n")
        for _ in range(30):
            connection.sendall((b"186a0\r\n" if chunked else b"") + b" " * 100_000 + (b"\r\n" if chunked else b""))
            time.sleep(0.01)
        connection.sendall(b"0\r\n\r\n" if chunked else b"")
        answer = b""
        while not answer.endswith(b"}"):
            answer += connection.recv(65536)
        assert b" 413 " in answer.splitlines()[0] and b"send less at once" in answer
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")              # and goes on
        assert b" 200 " in connection.recv(65536)


def test_a_body_that_does_not_come_is_not_waited_for(registry, running):
    server = running(ServerSettings(Security(patience=0.2)))
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 100\r\n\r\n{")
        slow.settimeout(10)
        assert b"408" in slow.recv(4096)


def test_a_body_has_its_time_in_all_however_often_a_byte_comes(registry, running):
    server = running(ServerSettings(Security(patience=5.0, seconds=0.5)))
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 10000\r\n\r\n{")
        slow.settimeout(0.05)
        answer, began = b"", time.monotonic()
        while not answer and time.monotonic() - began < 10:
            slow.sendall(b" ")
            try:
                answer = slow.recv(4096)
            except TimeoutError:
                continue
        slow.settimeout(10)
        while not answer.endswith(b"}"):                          # head and body may come apart
            answer += slow.recv(4096)
        assert b"408" in answer and b"after 0.5 seconds" in answer


# ------------------------------------------------------------------------------------------ the page


@pytest.fixture(scope="module")
def everywhere(registry):
    server = Running(make_app(registry))
    yield server
    server.stop()


@pytest.mark.parametrize("path", ["/", "/health", "/nothing", "/v1/models", "/openapi.json"])
def test_every_answer_has_the_headers(client, path):
    answer = client.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "'unsafe" not in HEADERS["Content-Security-Policy"]
    assert "server" not in answer.headers


def test_refusals_have_the_headers_too(client):
    refused = client.get("/health", headers={"host": "evil.example"})
    assert refused.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [
    "/../app.py", "/..%2fapp.py", "/%2e%2e/app.py", "/..\\app.py", "/app.py", "/__init__.py", "/page/index.html",
    "//etc/passwd", "/%2fetc%2fpasswd", "/index.html%00.js", "/.", "/..", "/%c0%ae%c0%ae/app.py", "/index.html/"])
def test_nothing_outside_the_page_can_be_reached(everywhere, path):
    with socket.create_connection(("127.0.0.1", everywhere.port)) as raw:            # as it is: clients tidy paths up
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        raw.settimeout(10)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.split()[1] in (b"404", b"307"), answer
    assert b"import" not in answer and b"root:" not in answer


def test_files_have_their_types_and_are_not_sent_twice(client):
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    for path in PAGE.iterdir():
        kind = client.get(f"/{path.name}").headers["content-type"].partition(";")[0]
        assert kind == {".html": "text/html", ".css": "text/css", ".js": "text/javascript",
                        ".svg": "image/svg+xml"}.get(path.suffix, kind)
    again = client.get("/", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304 and not again.content
    assert client.head("/").status_code == 200


def test_no_path_is_told(registry, runs, client):
    for path in ("/api/models", "/v1/models", "/openapi.json", "/languages"):
        assert str(runs.parent) not in client.get(path).text
    message = registry.without_paths(f"{runs / 'phrasebook'}/model.safetensors is damaged")
    assert message == "phrasebook/model.safetensors is damaged"


def test_a_failure_inside_is_said_without_its_reasons(registry, caplog):
    app = make_app(registry)

    @app.get("/fails")
    async def fails():
        raise RuntimeError("a secret")

    app.router.routes.insert(0, app.router.routes.pop())               # before the page, which takes every name
    from starlette.testclient import TestClient

    answer = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False).get("/fails")
    assert "secret" not in line_of(answer, 500)
    assert "a secret" in caplog.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_websockets_are_refused(client):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/health"):
        pass
