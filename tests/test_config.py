from dataclasses import dataclass

import pytest

from regard.config import change, fill, parse_assignments, read_toml, write_toml
from regard.errors import SettingError
from regard.training.settings import TrainingSettings


@dataclass(frozen=True)
class Example:
    learning_rate: float = 0.1
    batch: int = 8
    tied: bool = True
    files: tuple[str, ...] = ()
    note: str | None = None


def test_values_from_the_command_line_become_the_type_of_the_setting():
    made = fill(Example, {"learning_rate": "1e-3", "batch": "16", "tied": "no", "files": "a,b"}, "training")
    assert made == Example(1e-3, 16, False, ("a", "b"))


def test_an_unknown_setting_suggests_the_near_one():
    with pytest.raises(SettingError, match=r"training.learning_rat: did you mean training.learning_rate\?"):
        fill(Example, {"learning_rat": 1}, "training")


def test_a_setting_that_is_gone_is_read_at_the_value_that_changed_nothing_and_else_refused():
    assert fill(TrainingSettings, {"subword_dropout": 0.0, "seed": 3}, "training") == TrainingSettings(seed=3)
    assert fill(TrainingSettings, {"subword_dropout": "0"}, "training") == TrainingSettings()
    with pytest.raises(SettingError, match=r"training\.subword_dropout = 0\.1: this setting is gone.*leave it out"):
        fill(TrainingSettings, {"subword_dropout": 0.1}, "training")


@pytest.mark.parametrize("name, value, expected", [
    ("batch", "many", "a whole number"), ("batch", 1.5, "a whole number"), ("batch", True, "a whole number"),
    ("learning_rate", "fast", "a number"), ("tied", "maybe", "true or false"), ("note", 3, "text"),
])
def test_a_value_of_the_wrong_type_names_the_setting_the_value_and_the_type(name, value, expected):
    with pytest.raises(SettingError, match=f"training.{name} = .*: expected {expected}"):
        fill(Example, {name: value}, "training")


def test_settings_survive_a_trip_through_toml(tmp_path):
    path = tmp_path / "run.toml"
    values = {"learning_rate": 1e-7, "batch": 3, "tied": False, "files": ["a b", 'quo"te\\', "é\u2028\x7f\n"]}
    path.write_text(write_toml({"training": values}, heading="a run"), encoding="utf-8")
    assert fill(Example, read_toml(path)["training"], "training") == fill(Example, values, "training")


def test_assignments_need_a_table_a_name_and_a_value():
    parsed = parse_assignments(("training.batch=8", "model.width = 64"))
    assert parsed == {"training": {"batch": "8"}, "model": {"width": "64"}}
    for wrong in ("batch=8", "training.batch", "=3", "training.=3"):
        with pytest.raises(SettingError, match="--set"):
            parse_assignments((wrong,))


def test_a_change_is_as_strict_as_the_first_filling():
    assert change(Example(), {"batch": "9"}, "training").batch == 9
    with pytest.raises(SettingError):
        change(Example(), {"batsch": 9}, "training")


@pytest.mark.parametrize("text", ["a = ", "loose = 1", "\x00"])
def test_a_damaged_toml_file_is_one_clear_line(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(SettingError, match=r"run\.toml"):
        read_toml(path)
