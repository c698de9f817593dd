"""`regard serve`: the page and the HTTP API over trained models, on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.options import DEVICE, ENGINE, tell
from regard.errors import RegardError, RunError, SettingError

if TYPE_CHECKING:
    from regard.serve.registry import Prepare, Registry
    from regard.serve.stop_signals import StopSignals

SMALL_MODELS = Path(__file__).parents[1] / "serve" / "small_models"         # install/make_models.py makes them
NEEDS_WEB = "serving needs more than is installed ({missing}): pip install 'regard[web]'"


@click.command("serve")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen at; one that others can reach needs a token.")
@click.option("--token", envvar="REGARD_TOKEN",
              help="Token of 16 characters or more that every client must send; also from REGARD_TOKEN.  [default: "
                   "made if --host needs one]")
@click.option("--runs", "folder", type=click.Path(path_type=Path), metavar="DIR",
              help="Show the training of all runs in DIR; without RUN, serve them too.")
@click.option("--lab", type=click.Path(path_type=Path), metavar="DIR",
              help="Results of the lab to show.  [default: lab/results, or else those that came with Regard]")
@ENGINE
@DEVICE
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@click.option("--trust", is_flag=True, help="Import the user's own layers that runs name.")
def command(runs: tuple[str, ...], folder: Path | None, lab: Path | None, **options: Any) -> None:
    """Open a page that shows the models in the folders RUN, and serve them to other programs. Ctrl-C stops it.

    Without RUN and --runs it serves the small models that come with Regard.
    """
    from regard.serve.stop_signals import Stopping, StopSignals

    with StopSignals() as signals:                         # before anything slow, and before the first word
        with suppress(Stopping):
            start(signals, [Path(run) for run in runs], folder, lab, **options)
        signals.end()


def start(
    signals: StopSignals, runs: list[Path], folder: Path | None, lab: Path | None, *, port: int, host: str,
    token: str | None, engine: str, device: str, open_page: bool, trust: bool,
) -> None:
    """Start and serve; between two slow parts check for a signal."""
    from regard.lab.folders import find_results
    from regard.run_folder import RunFolder

    paths = runs or (find_finished(folder) if folder else find_small_models())
    for path in paths:
        RunFolder.open(path)                               # refuses a wrong name before anything slow
    try:
        from regard.serve.registry import Registry
        from regard.serve.security import Security, is_loopback, make_token
        from regard.serve.server import ServerSettings, address_of, listen, serve
    except ModuleNotFoundError as missing:
        raise missing_extra(missing) from None
    signals.check()
    prepare = None if engine == "own" else open_engines(paths, engine, device, trust, lenient=not runs)
    # Runs that were named must be good.
    registry = Registry(paths, device=device, trust=trust, lenient=not runs, prepare=prepare)
    report_problems(registry, folder)
    security = Security(token if token or is_loopback(host) else make_token(), host)
    settings = ServerSettings(security, existing(folder, "--runs"), find_results(existing(lab, "--lab")))
    listening = listen(host, port)
    address = address_of(listening, host)
    signals.check()
    print_address(address, security.token, host, len(registry) - len(registry.problems))
    if open_page:
        import webbrowser

        webbrowser.open(with_token(address, security.token))
    serve(listening, registry, settings, signals)


def open_engines(paths: list[Path], engine: str, device: str, trust: bool, *, lenient: bool) -> Prepare:
    """Export each translator for another engine now, so that what it cannot hold is said before anything listens;
    return what gives a model its engine. Models of other tasks keep Regard's own; damaged runs are told later."""
    from regard.interop.ct2_engine import open_engine
    from regard.trained import load

    def prepare(trained: Any) -> None:
        if hasattr(trained, "engine"):
            trained.engine = open_engine(trained, engine, lambda text: tell(f"({text})"))

    searching = False
    for path in paths:
        with suppress(*([RegardError] if lenient else [])):
            model = load(path, device, trust=trust)
            searching |= hasattr(model, "engine")
            prepare(model)
    if not searching:
        raise SettingError(f"--engine {engine}: it searches for translations, and no run here is a translator; "
                           "leave --engine out")
    return prepare


def print_address(address: str, token: str | None, host: str, models: int) -> None:
    from regard.serve.security import is_loopback

    click.echo(f"{models} model{'s' * (models != 1)} at {with_token(address, token)}  (Ctrl-C stops)")
    if not is_loopback(host):
        click.echo("(others can reach this: the token is in the address, and what is sent is not encrypted; put it "
                   "behind TLS where you do not trust the network)", err=True)


def report_problems(registry: Registry, folder: Path | None) -> None:
    """Print a line for each damaged run in the folder; refuse the folder only if it has no other."""
    for id, problem in registry.problems.items():
        click.echo(f"({id} is left out: {problem})", err=True)
    if registry.problems and len(registry.problems) == len(registry):
        raise RunError(f"no run in {folder} can be used: mend one, or name another folder")


def with_token(address: str, token: str | None) -> str:
    from urllib.parse import quote

    return f"{address}/" if token is None else f"{address}/?token={quote(token, safe='')}"


def find_small_models() -> list[Path]:
    """Return the runs that come with Regard, and say where they are: other commands take them, too."""
    runs = sorted(path.parent for path in SMALL_MODELS.glob("*/run.toml"))
    if not runs:
        raise RunError("no small models came with this copy of Regard: name one or more run folders, or a folder of "
                       "them with --runs")
    click.echo(f"(no run was named: these are the small models that come with Regard, in {SMALL_MODELS})", err=True)
    return runs


def find_finished(folder: Path) -> list[Path]:
    """Return the runs in a folder that have weights."""
    runs = sorted(path.parent for path in existing(folder, "--runs").glob("*/run.toml")       # type: ignore[union-attr]
                  if (path.parent / "model.safetensors").is_file())
    if not runs:
        raise RunError(f"there is no finished run in {folder}: train one with `regard train`, or check the path")
    return runs


def existing(folder: Path | None, flag: str) -> Path | None:
    if folder is not None and not folder.is_dir():
        raise SettingError(f"{flag} {folder}: there is no such folder")
    return folder


def missing_extra(missing: ModuleNotFoundError) -> RegardError | ModuleNotFoundError:
    """Return one line for an extra that is not installed; our own mistakes stay as they are."""
    name = (missing.name or "").partition(".")[0]
    return missing if name in ("", "regard") else SettingError(NEEDS_WEB.format(missing=name))
