"""A large text made into tokens by one process and by several, interrupted twice, and compared byte for byte.

    python bench/tokenise.py --megabytes 10000 --workers 2 --json bench/results/tokenise.json

Writes a synthetic text (as bench/corpus_memory.py does) and prepares it as `regard train lm` does: counted, a tokenizer
learned, both parts encoded. First in one stream, which is how smaller texts are read, then by workers, then by workers
that are killed once and interrupted once. Each run is a process of its own with a cache of its own. `seconds` are by
the clock, and other work on the machine counts in them; `cpu_seconds` are those of the process and all its workers,
and `speed_up_by_cpu` what these alone would give on a machine that does nothing else.
On a busy machine `speed_up` means nothing, for two processes get more of it than one; `load_before` tells.
Memory is the most that the process, and any one worker, held. The files of the three caches must be equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from corpus_memory import write_corpus

KEPT = ("surveys", "tokenizers", "shards")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--documents", default="file")
    parser.add_argument("--tokenizer", default="bpe")
    parser.add_argument("--folder", help="Where the text and the caches are written; they take two and a half times "
                        "the text's size.")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)            # text, cache, workers (0: a stream), out
    options = parser.parse_args()
    if options.run:
        prepare_here(options)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result = measure(Path(folder), options)
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if not result["equal"]:
        sys.exit("the results differ")


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    text = folder / "text.txt"
    began = time.perf_counter()
    write_corpus(text, options.megabytes)
    print(f"text of {text.stat().st_size / 1e6:,.0f} MB written in {time.perf_counter() - began:.0f} s", flush=True)
    content_hashes, rows = {}, {}
    for name, workers in (("stream", 0), ("several", options.workers)):
        rows[name] = run(folder, text, name, workers, options)
        content_hashes[name] = take_hashes(folder / name)
    rows["interrupted"] = run_interrupted(folder, text, options)
    content_hashes["interrupted"] = take_hashes(folder / "interrupted")
    return {
        "cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version(),
        "megabytes": options.megabytes, "documents": options.documents, "tokenizer": options.tokenizer,
        "workers": options.workers, **rows,
        "speed_up": round(rows["stream"]["seconds"] / rows["several"]["seconds"], 2),
        "speed_up_by_cpu": speed_up_by_cpu(rows["stream"], rows["several"], options.workers),
        "equal": len(set(content_hashes.values())) == 1, "hash": content_hashes["stream"]}


def speed_up_by_cpu(stream: dict[str, Any], several: dict[str, Any], workers: int) -> float:
    """The speed-up that the CPU seconds allow: those of the workers side by side, those of the process before them."""
    own = several["cpu_seconds"] - several["cpu_seconds_of_workers"]
    return round(stream["cpu_seconds"] / (own + several["cpu_seconds_of_workers"] / workers), 2)


def run(folder: Path, text: Path, name: str, workers: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run to its end."""
    out = folder / f"{name}.json"
    child = start(folder, text, name, workers, options)
    if child.wait():
        sys.exit(f"the run {name} failed")
    row = json.loads(out.read_text())
    print(f"{name}: {row}", flush=True)
    return row


def start(
    folder: Path, text: Path, name: str, workers: int, options: argparse.Namespace
) -> subprocess.Popen[bytes]:
    return subprocess.Popen([
        sys.executable, __file__, "--documents", options.documents, "--tokenizer", options.tokenizer,
        "--run", str(text), str(folder / name), str(workers), str(folder / f"{name}.json")])


def run_interrupted(folder: Path, text: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Kill a run when a third of the training part is encoded, interrupt it at two thirds, and let it end."""
    from regard.data.reading.segments import SEGMENT

    segments = 0.9 * text.stat().st_size / SEGMENT
    for share, how in ((1 / 3, signal.SIGKILL), (2 / 3, signal.SIGINT)):
        child = start(folder, text, "interrupted", options.workers, options)
        while encoded(folder / "interrupted") < share * segments:
            if child.poll() is not None:
                sys.exit("a run ended before it could be interrupted")
            time.sleep(0.02)
        child.send_signal(how)
        child.wait()
        print(f"{how.name} with {encoded(folder / 'interrupted')} segments encoded", flush=True)
    return run(folder, text, "interrupted", options.workers, options)


def encoded(cache: Path) -> int:
    """The segments that are encoded and not joined yet."""
    return sum(path.name.isdigit() for path in cache.glob("segments/*/done/*"))


def take_hashes(cache: Path) -> str:
    """One hash of all that a run made: counts, tokenizer, tokens and their seals."""
    whole = hashlib.sha256()
    for path in sorted(path for kind in KEPT for path in (cache / kind).rglob("*") if path.is_file()):
        if is_counts_of_segments(path):                      # a stream has none
            continue
        with open(path, "rb") as file:
            whole.update(f"{path.relative_to(cache)} {hashlib.file_digest(file, 'sha256').hexdigest()}".encode())
    return whole.hexdigest()


def is_counts_of_segments(path: Path) -> bool:
    return path.parent.name == "surveys" and "survey" in json.loads(path.read_bytes().partition(b"\n")[2])


def prepare_here(options: argparse.Namespace) -> None:
    """One run, in this process and its workers."""
    from regard.data.reading import in_segments
    from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
    from regard.data.workers import use_workers

    text, cache, workers, out = options.run
    load = round(os.getloadavg()[0], 2)
    if workers == "0":
        in_segments.LARGE = 2**63                            # nothing is large enough to be cut
    began, stages = time.perf_counter(), []

    def say(line: str) -> None:
        stages.append([round(time.perf_counter() - began, 2), line])
        print(f"  {stages[-1][0]:8.2f} s  {line}", flush=True)

    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(130))          # as the command does, without its words
    with use_workers(int(workers) or 1):
        corpus = prepare(DataSettings((text,), documents=options.documents), TokenizerSettings(options.tokenizer),
                         Path(cache), say)
    seconds = time.perf_counter() - began
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(out).write_text(json.dumps({
        "seconds": round(seconds, 2), "mb_per_second": round(Path(text).stat().st_size / 1e6 / seconds, 1),
        "cpu_seconds": round(own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime, 2),
        "cpu_seconds_of_workers": round(children.ru_utime + children.ru_stime, 2),
        "memory_mb": round(own.ru_maxrss / 1024), "memory_mb_of_a_worker": round(children.ru_maxrss / 1024),
        "load_before": load, "segments_reused": in_segments.usage.reused,
        "tokens": len(corpus.train) + len(corpus.valid)}))


def cpu_name() -> str:
    with open("/proc/cpuinfo") as file:
        return next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
