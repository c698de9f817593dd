"""Security: every request passes here before any route sees it, and one that breaks a rule is refused.

    Host             a loopback name or the address that was given: a page whose name was rebound to us has another
    Origin           this server itself, where the browser says one; nothing of another site's is answered
    token            where one is set, on every route but /health: in `Authorization: Bearer`, or in a cookie that
                     opening the address with `?token=` sets (HttpOnly, SameSite=Strict)
    headers          100 at most, of 32 kB in all
    body             JSON, and forms where LibreTranslate's clients send them; at most 1 MB, counted as it arrives,
                     within 30 seconds

It is plain ASGI: nothing stands between a streamed answer and the client, and a client that leaves is noticed. The
body is gathered here, so that a route starts with all of it, or not at all.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import SettingError
from regard.serve.limits import BODY, RETRY_AFTER
from regard.serve.refusals import Refusal, refusal_of

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/health",)                                        # needs no token
FORMS = ("/translate", "/detect")                          # take forms as well as JSON
JSON = "application/json"
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
READS = ("GET", "HEAD", "OPTIONS")
HEADERS_MOST, HEADERS_BYTES = 100, 2**15
FULL = "regard.full"                                       # of a request: every connection is taken
SHORTEST = 16                                              # characters of a token of the user's own

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
                               "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

# Opened with the token: the cookie is set, and the page is opened again without it, as a step of its own. A redirect
# would still count as coming from wherever the link stood, and a strict cookie would not be sent.
WELCOME = '<!doctype html><title>Regard</title><meta http-equiv="refresh" content="0;url=./"><a href="./">Regard</a>\n'


@dataclass(frozen=True)
class Security:
    """The rules. With no token anybody on this machine may ask."""

    token: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    body: int = BODY
    patience: float = 10.0                                 # seconds without a byte of the body
    seconds: float = 30.0                                  # for all of the body

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST:
            raise SettingError(f"--token has {len(self.token)} characters: give at least {SHORTEST}, or leave it out "
                               "to have one made")
        if self.token is None and not is_loopback(self.host):
            raise SettingError(f"--host {self.host} can be reached by others: a token is needed")

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts that may be asked for by name."""
        return (*LOOPBACK, (socket.gethostname() if is_wildcard(self.host) else self.host).lower())

    def knows_host(self, host: str) -> bool:
        """Return True for our own host; bound to every address, for any literal one: rebinding needs a name."""
        name = host_name(host)
        return name is not None and (name in self.names or (is_wildcard(self.host) and is_address(name)))

    def knows_token(self, given: str | None) -> bool:
        assert self.token is not None
        return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def make_token() -> str:
    return secrets.token_urlsafe(32)                       # 256 bits


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host.lower() == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port; None where it is none."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        port = port.removeprefix(":") if bracket else "?"
    else:
        name, _, port = host.partition(":")
    if not name or (port and not (port.isascii() and port.isdigit())):
        return None
    return name.lower().removesuffix(".")


class Guard:
    """The outermost layer: checks, gathers the body, adds the headers, and catches what went wrong inside."""

    def __init__(self, app: ASGIApp, security: Security):
        self.app, self.security = app, security

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":                      # the server's own start and stop
            await self.app(scope, receive, send)
        else:
            await self.answer(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def guarded(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            welcome = self.check(scope)
            if welcome is None:
                body = await self.gather(scope, receive)
                await self.app(scope, body, guarded)
            else:
                await welcome(scope, receive, guarded)
        except Exception as error:
            refused = refusal_of(error, Request(scope))
            if not began:                                  # else it is too late to say so: the answer ends here
                await refused.response()(scope, receive, guarded)

    # ------------------------------------------------------------------------------------- the checks

    def check(self, scope: Scope) -> Response | None:
        """Refuse a request that breaks a rule; return the welcome for one that opens the page with the token."""
        if scope.get(FULL) and scope["path"] not in OPEN:
            raise Refusal(503, f"every connection is taken: try again in {RETRY_AFTER} seconds",
                          code="too_many_requests", headers={"Connection": "close", "Retry-After": str(RETRY_AFTER)})
        check_headers(scope["headers"])
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.security.knows_host(host):
            raise Refusal(403, "this host is not served here: use the address that was printed, or start with --host",
                          code="unknown_host")
        self.check_origin(headers, host)
        if self.security.token is not None and scope["path"] not in OPEN:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]
            if scope["path"] == "/" and scope["method"] == "GET" and self.security.knows_token(given):
                return self.welcome(scope, str(given))
            self.check_token(headers, scope)
        if scope["method"] not in READS:
            check_type(headers, scope["path"])
        return None

    def check_origin(self, headers: Headers, host: str) -> None:
        origin = headers.get("origin")
        foreign = origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}")
        crossing = headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
        if foreign or crossing:
            raise Refusal(403, "a page of another site may not ask here", code="foreign_origin")

    def check_token(self, headers: Headers, scope: Scope) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        by_header = given.strip() if scheme.lower() == "bearer" else None
        if not (self.security.knows_token(by_header)
                or self.security.knows_token(cookie_parser(headers.get("cookie", "")).get(cookie_name(scope)))):
            raise Refusal(401, "a token is needed: open the address that was printed, or send it as "
                               "`Authorization: Bearer TOKEN`", code="no_token",
                          headers={"WWW-Authenticate": "Bearer"})

    def welcome(self, scope: Scope, token: str) -> Response:
        answer = HTMLResponse(WELCOME)
        answer.set_cookie(
            cookie_name(scope), token, httponly=True, samesite="strict", secure=scope["scheme"] == "https")
        return answer

    async def gather(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` that gives the body in one piece, and then waits until the client leaves."""
        check_length(Headers(scope=scope), self.security.body)
        body, more = bytearray(), True
        until = asyncio.get_running_loop().time() + self.security.seconds
        while more:
            left = until - asyncio.get_running_loop().time()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, min(left, self.security.patience)))
            except TimeoutError:
                why = (f"nothing came for {self.security.patience:g} seconds" if left > self.security.patience
                       else f"there was more to come after {self.security.seconds:g} seconds")
                raise Refusal(408, f"the body did not arrive: {why}", headers={"Connection": "close"}) from None
            if message["type"] == "http.disconnect":
                raise Refusal(499, "the client went away")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.security.body:
                raise too_large(self.security.body)
        first = True

        async def replayed() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": bytes(body), "more_body": False}
            return await receive()

        return replayed


def check_type(headers: Headers, path: str) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON or (path in FORMS and kind in FORM_TYPES):
        return
    wanted = f"{JSON} or a form" if path in FORMS else JSON
    raise Refusal(415, f"send {wanted} (the Content-Type is {kind or 'missing'})", code="wrong_type")


def check_headers(headers: list[tuple[bytes, bytes]]) -> None:
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > HEADERS_MOST or size > HEADERS_BYTES:
        raise Refusal(431, f"the request has {len(headers):,} headers of {size:,} bytes: send at most {HEADERS_MOST}, "
                           f"of {HEADERS_BYTES:,} bytes", headers={"Connection": "close"})


def check_length(headers: Headers, most: int) -> None:
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Refusal(400, "Content-Length is not a number")
    if int(length) > most:
        raise too_large(most)


def too_large(most: int) -> Refusal:
    """Return the refusal. The connection stays open: the rest of the body is read and forgotten, for as long as the
    server has patience. Closed with bytes unread, it would be reset, and the client might lose the answer."""
    return Refusal(413, f"the body has more than {most:,} bytes: send less at once", code="too_large")


def cookie_name(scope: Scope) -> str:
    """Return a cookie's name with the port in it: all ports of a host share cookies."""
    server = scope.get("server") or ("", 0)
    return f"regard-{server[1]}"
