"""`regard check`: what it says when all is well, when a law is broken, and when it cannot even begin."""

import json
import sys

import pytest
import torch
from torch import nn

from regard.contract import LanguageModel, SequenceLayer
from regard.errors import SettingError
from regard.laws import LAYER_LAWS, MODEL_LAWS, check_class, check_layer, check_model, check_object, load_object
from regard.laws.prepared import prepared

from .honest import Decay, Speaker, Translator, a_source
from .planted_layers import ForgetsTheState, PeeksAtTheNext

LAYER = """
import torch
from torch import nn
from regard.contract import SequenceLayer, State

class Doubling(SequenceLayer):
    def __init__(self, width):
        super().__init__()
        self.d_in = self.d_out = width
        self.scale = nn.Parameter(torch.full((width,), 2.0))

    def start(self, batch, capacity=None, memory=None):
        return None

    def forward(self, x, state=None, lengths=None):
        return x * self.scale, None

class Plain(nn.Module):
    pass

def helper():
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    return tmp_path


def write(folder, name, text):
    (folder / f"{name}.py").write_text(text)
    return name


def test_an_honest_layer_gets_a_clean_verdict():
    report = check_layer(Decay())
    assert report.ok and len(report) == len(LAYER_LAWS)
    assert [verdict.law for verdict in report] == list(LAYER_LAWS)
    assert report.text().startswith("Decay: every law holds (10 tried")
    assert "  ✓ causality      nothing sees the future" in report.text()


def test_a_broken_layer_is_told_where_and_why():
    report = check_layer(ForgetsTheState)
    assert not report.ok
    text = report.text()
    assert "ForgetsTheState:" in text and "broken" in text.splitlines()[0]
    assert "  ✗ cuts" in text
    assert "failed: cut after 1 of 6: row 0, position 1 differs; the largest difference is" in text
    assert "usual cause: the state is not carried: did you use the one given, and return the next from forward" in text


def test_a_layer_that_sees_the_future_is_told_which_position_moved():
    [causality] = [verdict for verdict in check_layer(PeeksAtTheNext()) if verdict.law == "causality"]
    assert causality.outcome == "failed"
    assert "after the input at position 1 changed: row 0, position 0 differs" in causality.reason
    assert "must be bit-equal" in causality.reason


class Crashes(Decay):
    def forward(self, x, state=None, lengths=None):
        raise TypeError("I do not know\nthis shape")


class CrashesWithLengths(Decay):
    def forward(self, x, state=None, lengths=None):
        if lengths is not None:
            raise KeyError("lengths")
        return super().forward(x, state)


def test_a_crash_is_one_line_of_the_verdict_and_not_a_traceback():
    report = check_layer(Crashes())
    text = report.text()
    assert not report.ok
    assert "failed: it crashed: TypeError: I do not know this shape (test_check.py, line" in text
    assert "Traceback" not in text
    assert {verdict.outcome for verdict in report.verdicts[1:]} == {"skipped"}
    assert "it does not run yet" in text


def test_a_crash_in_one_law_leaves_the_others_to_be_tried():
    outcomes = {verdict.law: verdict.outcome for verdict in check_layer(CrashesWithLengths())}
    assert outcomes["padding"] == "failed" and outcomes["causality"] == "passed"


def test_checking_leaves_the_layer_as_it_was():
    layer = nn.Sequential(Decay(), nn.Dropout(0.5))
    check_layer(layer[0])
    assert layer[0].decay.dtype == torch.float32 and layer[0].training
    assert prepared(layer)[1].p == 0.0 and layer[1].p == 0.5


class PeeksBehindAZero(PeeksAtTheNext):
    """Its first output is zero whatever it reads, as that of a residual branch often is."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        nn.init.zeros_(self.mix.weight)


def test_weights_that_start_at_zero_hide_nothing():
    assert "causality" in [verdict.law for verdict in check_layer(PeeksBehindAZero()).failed]


def test_a_script_gets_plain_values():
    told = check_layer(PeeksAtTheNext()).as_dict()
    assert told["name"] == "PeeksAtTheNext" and told["ok"] is False
    assert json.loads(json.dumps(told))["laws"][0]["law"] == "shapes"


def test_models_are_checked_with_and_without_a_source():
    report = check_model(Speaker())
    assert report.ok and [verdict.law for verdict in report] == list(MODEL_LAWS)
    assert "– source         a model that needs a source" in report.text()
    assert "skipped: it needs no source" in report.text()
    assert check_model(Translator, source=a_source(), dtype=torch.float64).ok
    with pytest.raises(SettingError, match="Translator needs a source: give one"):
        check_model(Translator())


def test_a_layer_in_the_current_folder_is_found_built_and_checked(folder):
    name = write(folder, "mine_one", LAYER)
    report = check_object(f"{name}:Doubling")
    assert report.ok and report.name == "Doubling", report.text()
    found = load_object(f"{name}.py:Doubling")
    assert found.__name__ == "Doubling" and check_class(found(4)).ok


@pytest.mark.parametrize(("name", "message"), [
    ("mine_two", "'mine_two' does not say what to check: write module:Name"),
    ("absent_module:Layer", "there is no module absent_module: neither in this folder"),
    ("mine_two:Doublin", "mine_two has no Doublin: did you mean Doubling?"),
    ("mine_two:Plain", "mine_two:Plain is a plain nn.Module, not a SequenceLayer or a LanguageModel: derive it from"),
    ("mine_two:helper", "mine_two:helper is a function, not a SequenceLayer or a LanguageModel"),
])
def test_a_wrong_name_is_answered_in_one_clear_line(folder, name, message):
    write(folder, "mine_two", LAYER)
    with pytest.raises(SettingError) as caught:
        load_object(name)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [
    ("import not_installed_anywhere", "imports not_installed_anywhere, which is not installed"),
    ("def broken(:\n", "cannot be imported: SyntaxError"),
    ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
])
def test_a_module_that_cannot_be_imported_says_why(folder, text, message):
    name = write(folder, f"mine_{abs(hash(text))}", text)
    with pytest.raises(SettingError, match="mine_") as caught:
        load_object(f"{name}:Layer")
    assert message in str(caught.value)


class Unfinished(SequenceLayer):
    def start(self, batch, capacity=None, memory=None):
        return None


class AsksForATeapot(Decay):
    def __init__(self, teapot, kettle):
        super().__init__()


class RefusesEverything(Decay):
    def __init__(self, width):
        raise ValueError("not today")


class HasAnExample(AsksForATeapot):
    @classmethod
    def example(cls):
        return cls("teapot", "kettle")


class SaysNoWidth(Decay):
    def __init__(self):
        super().__init__()
        del self.d_out


class OddName(Decay):
    def __init__(self, breadth):
        super().__init__(breadth, breadth)


class EqualOnly(Decay):
    def __init__(self, d_in, d_out):
        if d_in != d_out:
            raise ValueError("d_in and d_out must be equal")
        super().__init__(d_in, d_out)


@pytest.mark.parametrize("cls", [Decay, HasAnExample, OddName, EqualOnly, Speaker])
def test_a_class_is_built_from_what_it_asks_for(cls):
    assert check_class(cls).ok


@pytest.mark.parametrize(("cls", "message"), [
    (Unfinished, "Unfinished cannot be built: it does not define forward yet"),
    (AsksForATeapot, "it asks for teapot, kettle, and what these should be cannot be guessed. Give it defaults, or"),
    (RefusesEverything, "with {'width': 16} it raised ValueError: not today. Give it defaults, or"),
    (SaysNoWidth, "SaysNoWidth does not say its d_out: set self.d_out in __init__"),
])
def test_a_class_that_cannot_be_built_is_told_the_cure(cls, message):
    with pytest.raises(SettingError) as caught:
        check_class(cls)
    assert message in str(caught.value)


def test_what_is_not_a_layer_or_a_model_is_refused():
    with pytest.raises(SettingError, match="a Linear is not a SequenceLayer"):
        check_layer(lambda: nn.Linear(1, 1))
    with pytest.raises(SettingError, match="a Linear is not a LanguageModel"):
        check_model(lambda: nn.Linear(1, 1))
    assert issubclass(Speaker, LanguageModel)
