"""The files of the page, packed and with a tag, so that a browser loads each once."""

from __future__ import annotations

import functools
import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from regard.serve.refusals import Refusal

PAGE = Path(__file__).parents[2] / "look" / "page"
MEDIA = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
         ".json": "application/json", ".txt": "text/plain; charset=utf-8"}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class PageFile:
    data: bytes
    gzipped: bytes
    etag: str


@router.api_route("/", methods=["GET", "HEAD"])
@router.api_route("/{name}", methods=["GET", "HEAD"])
async def file(request: Request, name: str = "index.html") -> Response:
    """A file of the page. Only names that are in its folder are known, so that no other can be reached."""
    path = PAGE / name
    try:
        page_file = load_file(name, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        raise Refusal(404, "there is nothing at this address") from None
    headers = {"ETag": page_file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if page_file.etag in known:
        return Response(status_code=304, headers=headers)
    gzipped = "gzip" in request.headers.get("accept-encoding", "")
    headers |= {"Content-Encoding": "gzip"} if gzipped else {}
    return Response(page_file.gzipped if gzipped else page_file.data, headers=headers, media_type=MEDIA[path.suffix])


@functools.lru_cache(maxsize=256)
def load_file(name: str, changed: int) -> PageFile:
    """Return a file of the page, loaded and packed once for each change of it."""
    if name not in {path.name for path in PAGE.iterdir() if path.is_file() and path.suffix in MEDIA}:
        raise FileNotFoundError(name)
    data = (PAGE / name).read_bytes()
    return PageFile(data, gzip.compress(data, 6, mtime=0), f'"{hashlib.sha256(data).hexdigest()[:32]}"')
