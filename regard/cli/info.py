"""`regard info`: versions, devices, kernels, optional packages and cache, to be pasted into a report of a bug."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from regard.cli.options import JSON, print_json


@click.command("info")
@JSON
def command(as_json: bool) -> None:
    """Say what Regard runs on: versions, devices, kernels, packages, cache. Paste it into a report of a bug."""
    from regard.about import describe

    facts = describe()
    if as_json:
        print_json(facts)
        return
    for name, line in format_facts(facts):
        click.echo(f"{name:<13} {line}")


def format_facts(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a name and a line for each part."""
    python, system, devices, cache = (facts[name] for name in ("python", "system", "devices", "cache"))
    yield "regard", f"{facts['regard']['version']}, in {facts['regard']['folder']}"
    yield "python", f"{python['version']} ({python['implementation']}), {python['program']}"
    yield "system", f"{system['name']}, file names in {system['file names']}"
    yield "processor", f"{system['processor']}, {system['cores']} cores, {gigabytes(system['memory free'])} free"
    yield "device", f"{devices['auto']}, {devices['threads']} threads, torch for {devices['cuda'] or 'CPU alone'}"
    for number, gpu in enumerate(devices["gpus"]):
        yield f"gpu {number}", f"{gpu['name']}, capability {gpu['capability']}, {gigabytes(gpu['memory'])}"
    yield "kernels", " · ".join(f"{name}: {backend}" for name, backend in facts["kernels"].items())
    yield "packages", format_versions(facts["packages"]) or "(Regard is not installed: run from a folder)"
    for extra, versions in facts["optional"].items():
        yield f"[{extra}]", format_versions(versions)
    yield "cache", (f"{cache['folder']}, {cache['files']:,} files, {cache['bytes'] / 2**20:,.1f} MB"
                    + ("" if cache["writable"] else ", cannot be written to"))
    yield "environment", ", ".join(f"{name}={value}" for name, value in facts["environment"].items()) or "(nothing set)"


def format_versions(versions: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or '(not installed)'}" for name, version in versions.items())


def gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GB"
