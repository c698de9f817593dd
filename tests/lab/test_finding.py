"""Experiments of the user's own: whatever is wrong with a file, one line names it."""

import pytest

from regard.errors import SettingError
from regard.lab import find
from regard.lab.find import experiments

GOOD = ('"""Mine."""\nfrom regard.lab.experiment import *\n'
        "EXPERIMENT = Experiment('mine', 100, 't', 'c', 's', 'e', 'r', [Flip('f', 'f')],\n"
        "    (Arm('a', lambda s: {'x': 1.0}),), (Rule('x', lambda s: s['a']['x'], above=0, exact=True),),\n"
        "    lambda seeds: [])\n")


@pytest.mark.parametrize("text, says", [
    ("def x(:\n", r"bad\.py cannot be loaded: SyntaxError: invalid syntax \(bad\.py, line 1\): mend it, or take"),
    ("import nothing_of_this_name\n", r"bad\.py cannot be loaded: ModuleNotFoundError: No module named"),
    ("raise SystemExit\n", r"bad\.py cannot be loaded: SystemExit"),
    ("x = 1\n", r"bad\.py has no EXPERIMENT: .* a file that others import begins with _"),
    ("EXPERIMENT = 'a string'\n", r"bad\.py has no EXPERIMENT"),
    (GOOD.replace("above=0, ", ""), r"bad\.py cannot be loaded: AssertionError: rule 'x': give one bound"),
    (GOOD.replace("'mine', 100", "'all', 101"), r"bad\.py: name 'all': use small letters, digits and dashes"),
    (GOOD.replace("'mine', 100", "'../x', 101"), r"bad\.py: name '\.\./x': use small letters"),
    (GOOD.replace("'mine', 100", "'12', 101"), r"bad\.py: name '12'"),
    (GOOD.replace("'mine', 100", "'other', 101").replace("(Arm('a', lambda s: {'x': 1.0}),)", "()"), "arms none; 1 "),
    (GOOD.replace("'mine', 100", "'other', 100"), "two experiments are of number 100: change one"),
    (GOOD.replace("'mine', 100", "'mine', 101"), "two experiments are called mine: change one"),
    (GOOD.replace("'mine', 100", "'bottleneck', 101"), "two experiments are called bottleneck"),
])
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path, text, says):
    (tmp_path / "mine.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(SettingError, match=says) as told:
        experiments(tmp_path)
    assert "\n" not in str(told.value)


def test_a_loader_that_lets_errors_through_would_be_seen(tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text("import nothing_of_this_name\n")
    monkeypatch.setattr(find, "_their", lambda file, shared: exec(file.read_text()))
    with pytest.raises(ModuleNotFoundError), pytest.raises(SettingError):
        experiments(tmp_path)


def test_files_that_others_import_are_no_experiments(tmp_path):
    (tmp_path / "_only.py").write_text("x = (")
    with pytest.raises(SettingError, match="there is no file with an experiment"):
        experiments(tmp_path)
    (tmp_path / "mine.py").write_text(GOOD)
    assert "mine" in experiments(tmp_path) and experiments(tmp_path)["mine"].about == "Mine."
    with pytest.raises(SettingError, match=r"--from .*nowhere: there is no file"):
        experiments(tmp_path / "nowhere")


def test_a_file_of_ours_without_an_experiment_is_a_bug():
    with pytest.raises(AssertionError, match="has no EXPERIMENT"):
        find._our(pytest)
