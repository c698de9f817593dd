"""`regard lab` on small experiments of one's own: runs, flips and reports, and what is said of them."""

import json
import re

import pytest

from regard.lab import find, folders

FILE = '''"""{name}."""
from regard.lab.experiment import Arm, Chart, Experiment, Line, Rule

def run(setting):
    return {{"x": {flipped} if setting.flipped else 2.0 + setting.seed / 100}}

EXPERIMENT = Experiment(
    "{name}", {number}, "Title of {name}", "It is more than one.", "nowhere", "x > 1", "less", "takes it away",
    (Arm("a", run),), (Rule("x is", lambda seed: seed["a"]["x"], above=1),),
    lambda seeds: [Chart("x", "place", "amount", [Line("a", [1], [[seed["a"]["x"]] for seed in seeds])])])
'''


@pytest.fixture
def own(here, monkeypatch):
    """A folder of two experiments, of which only one changes when it is flipped; ours are left out, to be quick."""
    folder = here / "own"
    folder.mkdir()
    (folder / "caused.py").write_text(FILE.format(name="caused", number=101, flipped=0.0))
    (folder / "chance.py").write_text(FILE.format(name="chance", number=102, flipped=2.0))
    monkeypatch.setattr(find, "_ours", list)
    return folder


def lab(regard, *arguments):
    more = ["--workers", 1] if arguments[0] in ("run", "flip") else []
    return regard("lab", *arguments, "--from", "own", *more)


def test_flipping_all_says_how_many_verdicts_changed_and_names_the_others(regard, own):
    assert "to compare with, run as they are at the same size: caused, chance" in lab(regard, "flip", "all").done()
    lab(regard, "run", "all").done()
    said = lab(regard, "flip", "all").done()
    assert "holds -> fails\n" in said and "holds -> holds: flipping did not change it" in " ".join(said.split())
    assert said.endswith("1 of 2 verdicts changed\nflipping did not change: chance\n")
    told = {each["name"]: each for each in json.loads(lab(regard, "flip", "all", "--json").done())}
    assert told["caused"]["verdict"] == "fails" and told["chance"]["unflipped"] == "holds"


def test_a_quick_run_tells_its_own_verdict_and_leaves_the_card(regard, own):
    lab(regard, "run", "caused").done()
    said = lab(regard, "run", "caused", "--quick").done()
    assert "Verdict: holds" in said and "What is kept goes on telling of the larger run (full, 5 seeds)." in said
    listed = {each["name"]: each for each in json.loads(lab(regard, "list", "--json").done())}
    assert listed["caused"]["verdicts"] == {"cpu": "holds"} and listed["caused"]["quick"] == []
    lab(regard, "run", "chance", "--quick").done()
    assert re.search(r"102 +chance +holds \(cpu, quick\)", lab(regard, "list").done())


def test_a_report_is_made_from_what_is_kept_of_a_device_that_is_not_here(regard, own, here):
    lab(regard, "run", "all").done()
    lab(regard, "flip", "caused", "--quick").done()
    (here / "lab" / "results" / "cpu").rename(here / "lab" / "results" / "cuda")
    (here / "lab" / "results" / "cuda" / "caused-1.svg").unlink()
    lab(regard, "report", "lab.html").done()
    page = (here / "lab.html").read_text()
    assert "fails (quick, 3 seeds); not run at that size as it is" in page and "--device cuda" in page
    assert (here / "lab" / "results" / "cuda" / "caused-1.svg").exists()
    assert "Verdict: holds" in lab(regard, "run", "caused", "--device", "cuda").done()


def test_code_that_changes_after_the_last_arm_is_told(regard, own, monkeypatch):
    from regard.lab import runner

    file, carried_out = own / "caused.py", runner.run

    def run(*arguments):
        left = carried_out(*arguments)
        file.write_text(file.read_text() + "# edited\n")
        return left

    monkeypatch.setattr(runner, "run", run)
    told = lab(regard, "run", "caused", "--quiet")
    assert told.code == 0 and told.out == "" and told.err.startswith("caused: its code changed during the run")


def test_one_broken_file_is_one_line_for_every_command(regard, own):
    (own / "broken.py").write_text("import nothing_of_this_name\n")
    for command in (["list"], ["run", "caused"], ["explain", "caused"]):
        line = lab(regard, *command).mistake()
        assert re.match(r"own/broken\.py cannot be loaded: ModuleNotFoundError: No module named", line), line


def test_a_report_of_nothing_says_how_results_come(regard, own, monkeypatch):
    monkeypatch.setattr(folders, "came_with", lambda: None)
    assert "run some with `regard lab run all`" in lab(regard, "report", "lab.html").mistake()
