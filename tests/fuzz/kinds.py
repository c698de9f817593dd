"""The kinds of files that Regard reads: a small good one of each, and what is done with it."""

import gzip
import io
import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fixtures.runs import HERE
from tests.fuzz.mutations import mutate

RUNS = HERE / "runs"
PAIRS = [("un chat dort", "a cat sleeps"), ("le chien", "the dog"), ("où est l'été ?", "where is summer?")] * 4


@dataclass(frozen=True)
class Kind:
    """A kind of file. `make(folder)` puts a good one, and what it needs, into an empty folder; it gives its path."""

    name: str
    make: Callable[[Path], Path]
    use: Callable[[Path], object]
    structure: str | None = None
    needs: str = ""                  # a package without which it cannot be made

    def path(self, folder):
        return Path((folder / "path").read_text())

    def prepare(self, folder):
        """Make the good file, once."""
        if not (folder / "path").exists():
            folder.mkdir(parents=True, exist_ok=True)
            path = self.make(folder)
            (folder / "good").write_bytes(path.read_bytes())
            (folder / "path").write_text(str(path))
        return folder

    def good(self, folder):
        return (folder / "good").read_bytes()

    def place(self, folder, raw):
        path = self.path(folder)
        path.write_bytes(raw)
        return path

    def changed(self, raw, number, seed):
        if self.name.endswith(".gz"):
            if number % 2 == 0:                                  # half of them are whole, with something else inside
                return mutate(raw, number, seed)
            try:
                inside = gzip.decompress(raw)
            except (OSError, EOFError, zlib.error):              # it was changed before
                return mutate(raw, number, seed)
            return gzip.compress(mutate(inside, number, seed), 1, mtime=0)
        return mutate(raw, number, seed, self.structure)


# ------------------------------------------------------------------------------------------------ run folders


def run_of(name, file):
    def make(folder):
        run = shutil.copytree(RUNS / name, folder / "run")
        (run / "manifest.json").unlink(missing_ok=True)          # which would show any change before it is read
        if file == "manifest.json":
            from regard.manifest import write_manifest
            from regard.run_folder import RunFolder

            write_manifest(run, RunFolder(run).adopted())
        return run / file

    return make


def load_and_use(path):
    import regard

    model = regard.load(path.parent, "cpu")
    if hasattr(model, "generate"):
        model.generate("a cat", new_tokens=2, seed=0)
        model.score_lines(["the dog"])
    elif hasattr(model, "translate"):
        model.translate(["un chat"], beam=2)
    elif hasattr(model, "classify"):
        model.classify(["a cat"])
        model.classify_by_ngrams(["a cat"]), model.majority
    else:
        model.tag("a cat")


def read_logs(path):
    from regard.compare.measure import curve, read_metrics, training_rate
    from regard.serve.run_logs import FollowedRun

    rows = read_metrics(path)
    training_rate(rows), curve(rows)
    json.dumps(FollowedRun("x", path.parent, True).about())


MIXTURE = b'{"numbers": [[0.5, 0.1], [0.2, -0.3]], "cache": [[1, 2]], "losses": {"network": 1.5}}'


def read_mixture(path):
    from regard.run_folder import RunFolder

    RunFolder(path.parent).read_mixture()


def subwords(kind):
    def make(folder):
        from regard.data.tokens.subwords import train_subwords

        text = ["the cat sat on the mat and the dog saw the cat " * 20]
        return train_subwords(kind, text, 280).save(folder / "tokenizer.json")

    return make


def foreign(folder):
    path = subwords("bpe")(folder)
    value = json.loads(path.read_text())
    value |= {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": "x"}]},
              "regard": {"specials": [0, 1, 2, 3], "size": 290}}
    path.write_text(json.dumps(value))
    return path


def use_tokenizer(path):
    from regard.data.tokens.vocabulary import Tokenizer

    tokenizer = Tokenizer.load(path)
    ids = tokenizer.encode("the dog saw a cat 12 é 漢")
    tokenizer.decode(ids), [tokenizer.token(int(id)) for id in ids]


# ------------------------------------------------------------------------------------------------ texts and pairs


def writer(name, raw):
    def make(folder):
        (folder / name).write_bytes(raw)
        return folder / name

    return make


def unit(pair):
    sides = zip(("fr", "en"), pair, strict=True)
    return "".join(f'<tuv xml:lang="{code}"><seg>{side}</seg></tuv>' for code, side in sides)


TMX = ('<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="fr"/><body>'
       + "".join(f"<tu>{unit(pair)}</tu>\n" for pair in PAIRS) + "</body></tmx>\n").encode()
PO = ('msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: en\\n"\n\n' + "".join(
    f'#: a.c:{at}\nmsgid "{at} {one}"\nmsgstr "{at} {other}"\n\n' for at, (one, other) in enumerate(PAIRS))).encode()
JSONL = "".join(
    json.dumps({"source": one, "target": other, "text": f"{one} {other}"}) + "\n" for one, other in PAIRS).encode()
LABELLED = "".join(f"{'en' if at % 2 else 'fr'}\t{one} {at}\n" for at, (one, _) in enumerate(PAIRS)).encode()
TAGGED = "".join(f"{at}/NUM the/DET dog/NOUN saw/VERB it/PRON\n" for at in range(9)).encode()
TSV = "".join(f"{one}\t{other}\n" for one, other in PAIRS).encode()


def compiled(folder):
    import polib

    (folder / "a.mo").write_bytes(polib.pofile(PO.decode()).to_binary())
    return folder / "a.mo"


def table(folder):
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    sources, targets = zip(*PAIRS, strict=True)
    parquet.write_table(arrow.table({"source": sources, "target": targets, "text": ["a cat"] * len(PAIRS)}),
                        folder / "a.parquet")
    return folder / "a.parquet"


def read_all_pairs(path):
    from regard.data.pairs.pairs import PairSettings, read_pairs

    for _ in read_pairs(PairSettings((str(path),), langs="fr-en")):
        pass


def read_all_text(path):
    from regard.data.reading.readers import ReadSettings, find_sources, read

    for _ in read(find_sources([str(path)]), ReadSettings("line")):
        pass


def read_both(path):
    read_all_pairs(path)
    read_all_text(path)


def arpa(name):
    def make(folder):
        from regard.models.ngram import NGram
        from regard.models.ngram.arpa import write_arpa

        text = np.random.default_rng(0).integers(4, 20, 300)
        write_arpa(NGram.fit(text, None, vocab=20, order=3), [f"w{id}" for id in range(20)], folder / name)
        return folder / name

    return make


def use_arpa(path):
    import torch

    from regard.models.ngram.arpa import read_arpa

    model, words = read_arpa(path)
    tokens = torch.arange(1, min(12, len(words)))[None]
    model.score(tokens[:, :-1], tokens[:, 1:])


def arrow_stream(kind):
    def make(folder):
        import pyarrow as arrow

        held = arrow.table({"text": ["a cat", "the dog", "à table"] * 4})
        maker = arrow.ipc.new_stream if kind == "arrow" else arrow.ipc.new_file
        with arrow.OSFile(str(folder / f"a.{kind}"), "wb") as sink, maker(sink, held.schema) as file:
            file.write_table(held)
        return folder / f"a.{kind}"

    return make


def of_dataset(name):
    """A file of a dataset as Hugging Face saves it."""
    def make(folder):
        from tests.data.saved import save_splits

        saved = save_splits(folder / "saved", train={"text": ["a cat", "the dog"] * 4})
        return saved / name

    return make


def use_dataset(path):
    folder = path.parents[1] if path.parent.name == "train" else path.parent
    from regard.data.reading.saved_datasets import find_splits

    find_splits(folder)
    read_all_text(folder / "train")


def read_labels(path):
    from regard.data.labels.labelled_texts import OF_TEXTS, LabelSettings, read_labelled

    list(read_labelled(LabelSettings((str(path),)), OF_TEXTS))


def read_tags(path):
    from regard.data.labels.labelled_texts import LabelSettings, read_labelled
    from regard.data.labels.tagged_sentences import OF_WORDS

    list(read_labelled(LabelSettings((str(path),)), OF_WORDS))


# ------------------------------------------------------------------------------------------------ other programs


def of_transformers(name):
    """A file of a model as transformers has it, made by our own export."""
    def make(folder):
        from regard.interop.export import export

        export(RUNS / "lm-transformer", "hf", folder / "model", check=False)
        return folder / "model" / name

    return make


def import_folder(path):
    from regard.interop.importing import import_run

    out = path.parents[1] / "imported"
    shutil.rmtree(out, ignore_errors=True)
    import_run(path.parent, out)


# ------------------------------------------------------------------------------------------------ pictures


def picture(name):
    def make(folder):
        from PIL import Image

        pixels = np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8)
        held = io.BytesIO()
        Image.fromarray(pixels).save(held, name)
        return writer(f"a.{name}", held.getvalue())(folder)

    return make


def use_picture(path):
    from regard.data.pictures.picture_files import load_picture

    load_picture(path, 16)


KINDS = {kind.name: kind for kind in (
    Kind("run.toml", run_of("lm-transformer", "run.toml"), load_and_use, "toml"),
    Kind("run.toml of a translator", run_of("translate-rnn-attention-additive", "run.toml"), load_and_use, "toml"),
    Kind("safetensors", run_of("lm-transformer", "model.safetensors"), load_and_use, "safetensors"),
    Kind("safetensors of an n-gram", run_of("lm-ngram", "model.safetensors"), load_and_use, "safetensors"),
    Kind("baseline.safetensors", run_of("classify-lstm", "baseline.safetensors"), load_and_use, "safetensors"),
    Kind("manifest.json", run_of("lm-transformer", "manifest.json"), load_and_use, "json"),
    Kind("labels.json", run_of("classify-lstm", "labels.json"), load_and_use, "json"),
    Kind("mixture.json", writer("mixture.json", MIXTURE), read_mixture, "json"),
    Kind("metrics.jsonl", run_of("lm-transformer", "metrics.jsonl"), read_logs, "jsonl"),
    Kind("tokenizer.json", run_of("lm-transformer", "tokenizer.json"), load_and_use, "json"),
    Kind("tokenizer.json of pairs of bytes", subwords("bpe"), use_tokenizer, "json"),
    Kind("tokenizer.json of pieces", subwords("unigram"), use_tokenizer, "json"),
    Kind("tokenizer.json of another program", foreign, use_tokenizer, "json"),
    Kind("ARPA", arpa("a.arpa"), use_arpa), Kind("ARPA.gz", arpa("a.arpa.gz"), use_arpa),
    Kind("TMX", writer("a.tmx", TMX), read_all_pairs),
    Kind("TMX.gz", writer("a.tmx.gz", gzip.compress(TMX)), read_all_pairs),
    Kind("PO", writer("a.po", PO), read_all_pairs), Kind("MO", compiled, read_all_pairs),
    Kind("jsonl", writer("a.jsonl", JSONL), read_both, "jsonl"), Kind("tsv", writer("a.tsv", TSV), read_both),
    Kind("parquet", table, read_both, needs="pyarrow"),
    Kind("arrow", arrow_stream("arrow"), read_all_text, needs="pyarrow"),
    Kind("feather", arrow_stream("feather"), read_all_text, needs="pyarrow"),
    *(Kind(f"{name} of a saved dataset", of_dataset(place + name), use_dataset, "json", needs="pyarrow") for place, name
      in (("", "dataset_dict.json"), ("train/", "state.json"), ("train/", "dataset_info.json"))),
    Kind("labels.tsv", writer("a.tsv", LABELLED), read_labels), Kind("tagged text", writer("a.txt", TAGGED), read_tags),
    Kind("config.json of transformers", of_transformers("config.json"), import_folder, "json"),
    Kind("tokenizer.json of transformers", of_transformers("tokenizer.json"), import_folder, "json"),
    Kind("tokenizer_config.json of transformers", of_transformers("tokenizer_config.json"), import_folder, "json"),
    Kind("safetensors of transformers", of_transformers("model.safetensors"), import_folder, "safetensors"),
    *(Kind(name, picture(name.lower()), use_picture) for name in ("PNG", "JPEG", "GIF", "WebP", "BMP")))}
