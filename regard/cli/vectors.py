"""`regard vectors`: a vector for each line of text, or the lines most like a given one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from regard.cli.options import BAD_TEXT, DEVICE, WORKERS, answer_over_files, is_over_files, print_json

ARRAYS = (".npy", ".safetensors")
BATCH = 1024                   # lines at once, where they are streamed


@click.command("vectors")
@click.argument("run")
@click.argument("files", nargs=-1, metavar="[FILES]...")
@click.option("--out", metavar="FILE", help="Write one array (N, D) to this .npy or .safetensors file.")
@click.option("--normalise", is_flag=True, help="Scale vectors to length one.")
@click.option("--similar", metavar="TEXT", help="List the lines nearest to this text instead.")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many of them.")
@BAD_TEXT
@WORKERS
@DEVICE
@click.option("--json", "as_json", is_flag=True, help="With --similar: one JSON object per line.")
def command(
    run: str, files: tuple[str, ...], out: str | None, normalise: bool, similar: str | None, top: int,
    on_bad_text: str, workers: int | None, device: str, as_json: bool,
) -> None:
    """One vector for each line of FILES (or of stdin) by the masked model in the folder RUN; empty lines are left out.

    Without --out each line comes back as a JSON object with its text and its vector. With --workers no line is left
    out, --out may be a .jsonl file, and an interrupted job goes on.
    """
    from regard.errors import SettingError
    from regard.trained import load

    if similar is None and is_over_files((), workers):
        if Path(out or ".jsonl").suffix not in (*ARRAYS, ".jsonl"):
            raise SettingError(f"--out {out}: vectors are written to a .npy, .safetensors or .jsonl file")
        answer_over_files(run, files, out, workers=workers, task="masked", device=device, on_bad_text=on_bad_text,
                          normalise=normalise, rows=Path(out or "").suffix in ARRAYS)
        return
    if out is not None and Path(out).suffix not in ARRAYS:
        raise SettingError(f"--out {out}: vectors are written to a .npy or .safetensors file")
    model = load(run, device, task="masked")
    lines = read_lines(files or ("-",), on_bad_text)
    if similar is not None:
        texts = list(lines)
        for score, place in model.similar(similar, texts, top=top):
            if as_json:
                print_json({"similarity": score, "line": place + 1, "text": texts[place]})
            else:
                click.echo(f"{score:7.4f}  {texts[place]}")
    elif out is not None:
        save(Path(out), [model.vectors(batch, normalise=normalise) for batch in batches(lines)])
    else:
        for batch in batches(lines):
            for text, vector in zip(batch, model.vectors(batch, normalise=normalise).tolist(), strict=True):
                print_json({"text": text, "vector": vector})


def read_lines(files: Sequence[str], on_bad_text: str) -> Iterator[str]:
    """Return the lines of the files that are not empty; a folder, a JSONL file or an embedded corpus will do too."""
    from regard.data.reading.corpus import read_documents
    from regard.data.reading.readers import ReadSettings

    return read_documents(files, ReadSettings("line", on_bad_text))


def batches(lines: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(lines, BATCH)):
        yield batch


def save(path: Path, parts: list[Any]) -> None:
    """Save the vectors as one array; in a .safetensors file its name is `vectors`."""
    import io

    import numpy as np
    import torch

    from regard import storage
    from regard.run_folder import pack

    vectors = torch.cat(parts)
    if path.suffix == ".safetensors":
        storage.write_file(path, pack({"vectors": vectors}))
        return
    buffer = io.BytesIO()
    np.save(buffer, vectors.numpy())
    storage.write_file(path, buffer.getvalue())
