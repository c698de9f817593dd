"""A look as one HTML file, to keep and to send: GET /api/look/{id}/page.html."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from regard.serve.limits import gate, run
from regard.serve.looks import HeadPick, LayerPick, LookId, looks_of

PAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "a page that opens anywhere"}}

router = APIRouter(prefix="/api/look", tags=["looking"])


@router.get("/{id}/page.html", responses=PAGE, response_class=Response)
async def get_page(
    request: Request, id: LookId, track: str = Query("", pattern="^[a-z0-9-]{0,40}$"), layer: LayerPick = "mean",
    head: HeadPick = "mean",
) -> Response:
    """The look with all its numbers, or of a large one as many as fit, in one file that needs no server."""
    looks = looks_of(request)
    held = looks.get(id)

    def made() -> str:
        from regard.look.drawing import Drawing

        drawing = Drawing(held.look, track, layer, head, name=held.opened.name)
        if not drawing.chosen.lazy:
            return drawing.html()
        with held.opened.lock:
            return drawing.html()

    async with gate(request):
        text = await run(made)
    looks.trim()
    headers = {"Content-Disposition": f'attachment; filename="{id[:8]}.html"'}
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)
