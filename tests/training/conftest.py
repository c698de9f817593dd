import pytest

from regard.training.run import TrainRequest, run_training

TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80))
SMALL = {"model": dict(layers=1, width=16, heads=2, context=16, dropout=0.0), "tokenizer": dict(kind="char"),
         "training": dict(steps=6, batch=4, valid_every=3, optimizer="adamw", learning_rate=3e-3)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def train(tmp_path):
    """Train something small; keyword tables change its settings."""
    text = tmp_path / "text.txt"
    text.write_text(TEXT)

    def run(out="run", family=None, files=None, resume=False, base=None, quiet=True, **tables):
        usual = SMALL if base is None else {"training": SMALL["training"]}
        settings = {name: {**usual.get(name, {}), **tables.get(name, {})} for name in {*SMALL, *tables}}
        if family is not None:
            settings["model"] = tables.get("model", {})
        return run_training(TrainRequest(tuple(files or [str(text)]), family=family, out=str(tmp_path / out),
                                         settings=settings, resume=resume, base=base, device="cpu", quiet=quiet))

    return run
