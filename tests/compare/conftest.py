import pytest

from regard.compare import language_models, measure, trial
from regard.compare.comparison import compare
from regard.compare.plan import Wanted

TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(120))
SMALL = {"tokenizer": {"kind": "char"}, "training": {"batch": 4},
         "rnn": {"width": 8, "hidden": 12, "context": 16},
         "transformer": {"layers": 1, "width": 16, "heads": 2, "context": 64}}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)


@pytest.fixture
def quick(monkeypatch):
    """Measurements that take no time; the trials run here, not in processes of their own. Gives `compare`."""
    for name, value in (("LENGTHS", (32, 64, 128)), ("GENERATED", 6), ("SAMPLED", 12)):
        monkeypatch.setattr(measure, name, value)
    monkeypatch.setattr(language_models, "SEQUENCES", 1)
    ran: list[str] = []

    def here(folder, plan, each, stop):
        ran.append(each.name)
        trial.run_trial(folder, plan, each)

    def run(say=lambda text: None, **wanted):
        ran.clear()
        options = {"families": ("rnn", "transformer"), "seeds": 2, "steps": 2, "orders": (2, 3), "settings": SMALL,
                   "device": "cpu", "out": "out", **wanted}
        others = {"rnn", "transformer"} - set(options["families"])
        options["settings"] = {name: table for name, table in options["settings"].items() if name not in others}
        return compare(Wanted(options.pop("files", ("text.txt",)), **options), say=say, start=here)

    run.ran = ran
    return run
