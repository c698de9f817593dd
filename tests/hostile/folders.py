"""Hostile run folders: a good one, changed by somebody who means harm. Each is a pure function of a seed."""

import json
import os
import random
import re
import shutil
import socket

from tests.fixtures.runs import HERE
from tests.fuzz.mutations import ODD_TOML, ODD_VALUES, mutate

RUNS, DATA = HERE / "runs", HERE / "data"
CODE = ("import pathlib\npathlib.Path({mark!r}).write_text('it ran')\n"
        "class Layer:\n    def __init__(self, *a, **k): pathlib.Path({mark!r}).write_text('it ran')\n")
MODULES = ("evil", "regard", "torch", "numpy", "json", "sitecustomize", "conftest", "tokenizers", "modeling_evil")
KINDS = {".toml": "toml", ".json": "json", ".jsonl": "jsonl", ".safetensors": "safetensors"}
NAMES = ("run", "a run", "-o", "rün", "run\nnext", "\x1b[31mrun", "r" * 200, "run.toml", "run:Layer", "$(id)", "🙂")
SETTINGS = {
    "family": ("'evil:Layer'", "'ngram'", "'hybrid'", "'mamba'", "'../evil'", "'os:system'", "'torch.nn:Linear'"),
    "pattern": ("['evil:Layer']", "['attention', 'evil:Layer']", "[]", "['mamba'] * 9"),
    "task": ("'translate'", "'lm'", "'caption'", "'evil'", "'masked'"),
    "files": ("['/etc/passwd']", "['../outside/kept.txt']", "['https://127.0.0.1:9/x']", "['s3://a/b']", "['x\\u001b']",
              "['text.txt']"),
    "kind": ("'bpe'", "'byte'", "'../x'"), "threads": ("100000", "3", "-1"), "vocab": ("1", "13", "1048576"),
    "compile": ("'yes'", "true"), "precision": ("'float16'", "'bfloat16'", "'evil'"),
    "layers": ("1048576", "0", "-1", "3"), "width": ("1048576", "0", "17"), "context": ("1", "0", "1048576", "2"),
    "steps": ("1048576", "0", "-1"), "batch": ("1048576", "0"), "keep": ("0", "-1", "1048576"),
    "format": ("2", "-1", "'x'", "true", "99999999999999999999"),
}


class Hostile:
    """One folder: the run at `run`, and `outside`, which nobody may touch. `acts` says what was done."""

    def __init__(self, seed, name, folder):
        self.chance = random.Random(seed)
        self.here, self.outside, self.mark = folder / "here", folder / "outside", folder / "it ran"
        place_good(self.here, name)
        self.outside.mkdir()
        (self.outside / "kept.txt").write_text("the cat sat on the mat\n" * 20)
        self.run, self.acts = self.here / "run", []
        if self.chance.random() < 0.7:
            (self.run / "manifest.json").unlink(missing_ok=True)
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            act = self.chance.choice(ACTS)
            self.acts.append(act.__name__)
            act(self)
        if self.chance.random() < 0.2:
            self.acts.append("forge")
            forge(self.run, self.chance)
        self.hold_back()
        self.rename()

    def hold_back(self):
        """Training takes what its settings ask for, as SECURITY.md says: of them none asks for more than is here."""
        path = self.run / "run.toml"
        if small(path):
            text = path.read_text("utf-8", errors="surrogateescape")
            less = re.sub(r"(?m)^(batch|micro_batch|valid_every|checkpoint_every) = [1-9][0-9]{3,}$", r"\1 = 8", text)
            if less != text:
                path.write_text(less, "utf-8", errors="surrogateescape")

    def rename(self):
        self.word = "run"
        if self.chance.random() < 0.15:
            self.word = self.chance.choice(NAMES)
            self.run = self.run.rename(self.here / self.word)

    def files(self):
        return sorted(path for path in self.run.rglob("*") if small(path))

    def file(self):
        """Settings more often than others: they say the most."""
        every = self.files()
        settings = [path for path in every if path.name == "run.toml"]
        return self.chance.choice(settings if settings and self.chance.random() < 0.3 else every or [self.run / "x"])


def small(path):
    """A plain file that can be changed here: no link, and nothing that was put in its place."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size < 2**24


def place_good(here, name):
    """The texts, the run and a good one, in a folder of their own."""
    shutil.copytree(DATA, here)
    shutil.copytree(RUNS / name, here / "run")
    shutil.copytree(RUNS / name, here / "good")


# ------------------------------------------------------------------------------------------------ what is done


def change_bytes(hostile):
    path = hostile.file()
    raw = path.read_bytes() if path.exists() else b""
    path.write_bytes(mutate(raw, hostile.chance.randrange(2**30), 0, KINDS.get(path.suffix)))


def change_setting(hostile):
    path = hostile.run / "run.toml"
    if not small(path):
        return
    lines = path.read_text("utf-8", errors="replace").split("\n")
    places = [at for at, line in enumerate(lines) if " = " in line]
    named = [at for at in places if lines[at].partition(" = ")[0] in SETTINGS]
    if not places:
        return
    at = hostile.chance.choice(named if named and hostile.chance.random() < 0.7 else places)
    name = lines[at].partition(" = ")[0]
    lines[at] = f"{name} = {hostile.chance.choice(SETTINGS.get(name, ODD_TOML))}"
    path.write_text("\n".join(lines))


def name_code(hostile):
    """The run is made of a layer that lies in it, and in the folder from which it is used."""
    plant_code(hostile)
    path = hostile.run / "run.toml"
    if small(path):
        name = hostile.chance.choice(("evil:Layer", "run.evil:Layer", "evil.py:Layer", "torch:Layer", "os:system"))
        text = path.read_text("utf-8", errors="replace")
        path.write_text(re.sub(r"(?m)^family = .*$", f"family = '{name}'", text))


def plant_code(hostile):
    for place in (hostile.run, hostile.here):
        for name in hostile.chance.sample(MODULES, 3):
            (place / f"{name}.py").write_text(CODE.format(mark=str(hostile.mark)))
        (place / "evil.py").write_text(CODE.format(mark=str(hostile.mark)))


def plant_pickle(hostile):
    import pickle

    class Planted:
        def __reduce__(self):
            return exec, (CODE.format(mark=str(hostile.mark)),)

    raw = pickle.dumps(Planted())
    for name in hostile.chance.sample(("model.bin", "pytorch_model.bin", "ckpt.pt", "meta.pkl", "model.safetensors",
                                       "tokenizer.json", "training.safetensors", "baseline.safetensors"), 3):
        (hostile.run / name).write_bytes(raw)
    value = {"auto_map": {"AutoModel": "evil.Layer"}, "architectures": ["LlamaForCausalLM"], "model_type": "evil"}
    (hostile.run / "config.json").write_text(json.dumps(value))


def exchange(hostile):
    """Another file, a pipe, a device, a folder or a link in the place of one."""
    path = hostile.file()
    path.unlink(missing_ok=True)
    what = hostile.chance.choice(("zero", "pipe", "folder", "outside", "gone", "nowhere", "loop", "sparse", "empty",
                                  "socket", "kmsg", "other", "itself"))
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "sparse":
        with open(path, "wb") as file:
            file.truncate(2**40)
    elif what == "empty":
        path.write_bytes(b"")
    elif what == "socket":
        place, handle = os.getcwd(), socket.socket(socket.AF_UNIX)
        os.chdir(path.parent)
        handle.bind(path.name)
        os.chdir(place)
        handle.close()
    elif what == "other":
        other = hostile.chance.choice(sorted(each for each in RUNS.glob(f"*/{path.name}")) or [DATA / "text.txt"])
        path.write_bytes(other.read_bytes())
    elif what != "gone":
        path.symlink_to({"zero": "/dev/zero", "outside": hostile.outside / "kept.txt", "nowhere": "/nowhere/x",
                         "loop": path, "kmsg": "/proc/kmsg", "itself": "/proc/self/mem"}[what])


def change_tensors(hostile):
    """Weights of another shape or type, or that are no numbers, or under other names."""
    import torch
    from safetensors.torch import load_file, save_file

    every = [path for path in hostile.files() if path.suffix == ".safetensors"]
    if not every:
        return
    path = hostile.chance.choice(every)
    try:
        tensors = load_file(path)
    except Exception:
        return
    name = hostile.chance.choice(sorted(tensors) or ["x"])
    was = tensors.get(name, torch.zeros(2))
    tensors[name] = hostile.chance.choice((
        lambda: torch.full_like(was, float("nan") if was.is_floating_point() else -1),
        lambda: torch.full_like(was, 1e38 if was.is_floating_point() else 2**30 if was.dtype != torch.uint8 else 255),
        lambda: was.flatten(), lambda: was.flatten()[:0],
        lambda: was.double() if was.is_floating_point() else was.float(),
        lambda: torch.zeros(1), lambda: torch.zeros(()), lambda: was.to(torch.int8)))().clone().contiguous()
    what = hostile.chance.randrange(5)
    if what == 0:
        tensors[hostile.chance.choice(("../../outside/kept.txt", "\x1b[31m", "x" * 5000, ""))] = tensors.pop(name)
    elif what == 1:
        del tensors[name]
    save_file(tensors, path)


def link_folder(hostile):
    """The checkpoints, or the run itself, are somewhere else."""
    path = hostile.chance.choice((hostile.run / "checkpoints", hostile.run, hostile.run / "frames"))
    if path.is_symlink():
        return
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(hostile.here / "good" if path == hostile.run else hostile.outside)     # a run may be a link


def crowd(hostile):
    """Checkpoints, logs and strangers beyond measure."""
    chance, what = hostile.chance, hostile.chance.randrange(4)
    if what == 0:
        for at in range(1500):
            (hostile.run / "checkpoints" / str(at)).mkdir(parents=True, exist_ok=True)
    elif what == 1:
        for name in ("99999999999999999999", "-1", "0x10", "٣", "damaged-1", "x" * 200, "\x1b", "00000009"):
            (hostile.run / "checkpoints" / name).mkdir(parents=True, exist_ok=True)
    elif what == 2:
        row = {"step": chance.choice(ODD_VALUES), "x\x1b": 1, "valid_loss": chance.choice(ODD_VALUES)}
        (hostile.run / chance.choice(("metrics.jsonl", "samples.jsonl"))).write_text(f"{json.dumps(row)}\n" * 5000)
    else:
        value = [f"{chance.choice(('../', chr(27), 'x' * 300))}{at}" for at in range(2000)]
        (hostile.run / chance.choice(("labels.json", "test.json", "mixture.json"))).write_text(json.dumps(value))


def forge(run, chance):
    """A manifest whose hashes are right, and which may name what lies outside."""
    from regard.manifest import digest_values
    from regard.storage import digest

    for folder in (run, *sorted(path for path in (run / "checkpoints").glob("*") if path.is_dir())[-3:]):
        if folder.is_symlink() or not folder.is_dir() or (folder / "manifest.json").is_dir():
            continue
        files = {path.name: digest(path.read_bytes()) for path in sorted(folder.iterdir()) if small(path)
                 and path.name != "manifest.json"}
        if chance.random() < 0.3:
            files[chance.choice(("../../outside/kept.txt", "/etc/passwd", "", "..", "\x1b", "a/b"))] = "0" * 64
        values = {"format": 1, "files": files, "before": {}, "checkpointed": True}
        if folder != run:
            values = {"step": chance.choice((6, int(folder.name) if folder.name.isdigit() else 1)), "files": files}
        path = folder / "manifest.json"
        path.unlink(missing_ok=True)
        path.write_text(json.dumps({**values, "sha256": digest_values(values)}))


ACTS = (change_bytes, change_bytes, change_bytes, change_setting, change_setting, change_setting, name_code, plant_code,
        plant_pickle, exchange, exchange, change_tensors, change_tensors, link_folder, crowd)
