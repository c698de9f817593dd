"""What the wheel says of where Regard is published: the project's addresses, and links of the README that work there.

hatchling asks this when it builds. `REGARD_HOME` is the address of the repository's page; the public CI sets it, so
that no address is written down here. Without it the wheel names none, and the README is as it lies.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parent.parent
PAGES = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")


class Published(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        home = os.environ.get("REGARD_HOME", "").rstrip("/")
        metadata["urls"] = addresses(home)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme(home)}


def addresses(home: str) -> dict[str, str]:
    """The project's addresses below the repository's page."""
    if not home:
        return {}
    if not home.startswith("https://"):
        raise ValueError(f"REGARD_HOME={home}: give the whole address of the repository's page, with https://")
    return {"Homepage": home, "Source": home, "Issues": f"{home}/issues",
            **{name: f"{home}/blob/HEAD/{page}" for name, page in PAGES.items()}}


def readme(home: str) -> str:
    """The README; with a home, its links and pictures lead there from wherever it is shown."""
    text = (ROOT / "README.md").read_text("utf-8")
    return LINK.sub(lambda link: lead_to(home, *link.groups()), text) if home else text


def lead_to(home: str, picture: str, name: str, target: str) -> str:
    return f"{picture}[{name}]({home}/{'raw' if picture else 'blob'}/HEAD/{target})"
