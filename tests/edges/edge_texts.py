"""Training data at the edges, for each task: one example, one word, one token a line, any script."""

import json

import numpy as np

HEBREW, ARABIC = "שלום עולם", "مرحبا بالعالم كيف حالك"
EMOJI = "👩\u200d👩\u200d👧 🇫🇷 🏴\U000e0067\U000e0062\U000e007f e\u0301 ❤\ufe0f"
SCRIPTS = [HEBREW, ARABIC, EMOJI, f"abc {HEBREW} def", f"{EMOJI} ok {ARABIC}", "\u202etfel ot thgir\u202c x"]
TEXTS = {
    "one line": ["a cat sat on the mat"],
    "one word": ["a a a a a a"] * 40,
    "one token a line": ["cat", "dog", "mat", "sun"] * 20,
    "a batch larger than the data": ["a cat sat", "the dog saw", "a mat lay", "the sun rose", "a cat saw"],
    "any script": SCRIPTS * 8,
    "empty lines": ["", "a cat sat on a mat", "", "", "the dog saw a cat", " "] * 12,
}
TASKS = ("lm", "masked", "translate", "summarise", "classify", "tag", "caption")
BLOCKS = {"lm": dict(context=16), "masked": dict(context=16), "translate": dict(context=16),
          "summarise": dict(context=16), "classify": dict(context=16), "tag": dict(context=16),
          "caption": dict(context=16, image=16, patch=8)}


def write_data(task, lines, folder):
    """Write lines as data of a task; return what `regard train` is given."""
    if task in ("lm", "masked"):
        (folder / "a.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return ["a.txt"]
    if task == "translate":
        for name, side in (("a.fr", lines), ("a.en", [line[::-1] if line.isascii() else line for line in lines])):
            (folder / name).write_text("".join(f"{line}\n" for line in side), "utf-8")
        return ["a.fr", "a.en"]
    if task == "summarise":
        rows = [{"document": line, "summary": line.split(" ")[0]} for line in lines]
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return ["a.jsonl"]
    if task == "classify":
        rows = [f"{'odd' if at % 2 else 'even'}\t{line}\n" for at, line in enumerate(lines)]
        (folder / "a.tsv").write_text("".join(rows), "utf-8")
        return ["a.tsv"]
    if task == "tag":
        rows = [" ".join(f"{word}/{'XY'[len(word) % 2]}" for word in line.split()) + "\n" for line in lines]
        (folder / "a.txt").write_text("".join(rows), "utf-8")
        return ["a.txt"]
    return write_pictures(lines, folder)


def write_pictures(lines, folder):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (len(lines), 16, 16, 3), dtype=np.uint8)
    (folder / "pictures").mkdir(exist_ok=True)
    for at, each in enumerate(pixels):
        Image.fromarray(each).save(folder / "pictures" / f"{at}.png")
    (folder / "pictures" / "captions.tsv").write_text(
        "".join(f"{at}.png\t{line}\n" for at, line in enumerate(lines)), "utf-8")
    return ["pictures"]


def train_command(task, given, out, **more):
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in {
        "width": 8, "layers": 1, "heads": 2, "steps": 2, "batch": 64, "tokenizer": "word", **BLOCKS[task],
        **more}.items()]
    return ["train", task, *given, "--family=transformer", *settings, "--device=cpu", "--quiet", f"--out={out}"]
