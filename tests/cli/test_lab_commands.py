"""`regard lab` on small experiments of one's own: runs, flips and reports, and what is said of them."""

import json
import re

import pytest

from regard.lab import find, folders

FILE = '''"""{name}."""
from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule

def run(setting):
    return {{"x": {flipped} if setting.flipped else 2.0 + setting.seed / 100}}

EXPERIMENT = Experiment(
    "{name}", {number}, "Title of {name}", "It is more than one.", "nowhere", "x > 1", "less",
    [Flip("it", "takes it away")], (Arm("a", run),), (Rule("x is", lambda seed: seed["a"]["x"], above=1),),
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


def test_flipping_all_says_how_many_rules_changed_and_names_the_others(regard, own):
    said = lab(regard, "flip", "all").done()
    assert "Flip it: takes it away (full, 9 seeds): fails" in said and "x is: 2.04 -> 0: holds -> fails" in said
    assert said.endswith("1 of 2 rules changed when their cause was taken away\n"
                         "flipping did not change:\nchance: x is: holds -> holds\n")
    told = {each["name"]: each for each in json.loads(lab(regard, "flip", "all", "--json").done())}
    assert told["caused"]["flips"]["it"]["verdict"] == "fails" and told["chance"]["flips"]["it"]["verdict"] == "holds"


def test_a_cause_that_there_is_not_is_one_line(regard, own):
    assert lab(regard, "flip", "caused", "--cause", "that").mistake() == \
        "--cause that: there is no such flip; say one of it"


def test_a_quick_run_tells_its_own_verdict_and_leaves_the_card(regard, own):
    lab(regard, "run", "caused").done()
    said = lab(regard, "run", "caused", "--quick").done()
    assert "Verdict: holds" in said and "What is kept goes on telling of the larger run (full, 9 seeds)." in said
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
    assert "1 of 1 rules changed (quick, 3 seeds)" in page and "--device cuda" in page
    assert (here / "lab" / "results" / "cuda" / "caused-1.svg").exists()
    assert "Verdict: holds" in lab(regard, "run", "caused", "--device", "cuda").done()


def test_code_that_changes_after_the_last_arm_is_told(regard, own, monkeypatch):
    from regard.lab import runner

    file, carried_out = own / "caused.py", runner.run_arms

    def run(*arguments):
        left = carried_out(*arguments)
        file.write_text(file.read_text() + "EDITED = True\n")
        return left

    monkeypatch.setattr(runner, "run_arms", run)
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
