"""What is planted is complete: each file answers its exercise's stub, whatever a grader says of it."""

import inspect

import pytest

from tests.course.planted import BUGS, EXERCISES, RIGHT, STUBS, STYLES, functions_of


def asked_of(exercise: str) -> dict[str, list[str]]:
    """The functions that a stub asks for, with their parameters."""
    stub = functions_of(STUBS / f"{exercise}.py")
    return {name: list(inspect.signature(each).parameters) for name, each in stub.items()
            if inspect.isfunction(each)}


def exercise_of(path) -> str:
    return path.parent.name if path in BUGS else path.stem


def test_there_are_twelve_exercises_forty_mistakes_and_three_styles_of_each_right_solution():
    assert len(EXERCISES) == 12 and len(BUGS) == 40
    assert {exercise_of(path) for path in BUGS} == set(EXERCISES)
    assert {(path.parent.name, path.stem) for path in RIGHT} == {(each, name) for each in STYLES for name in EXERCISES}
    assert len(STYLES) == 3


@pytest.mark.parametrize("path", [*BUGS, *RIGHT], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_planted_file_defines_what_its_stub_asks_for(path):
    defined = functions_of(path)
    for name, parameters in asked_of(exercise_of(path)).items():
        assert list(inspect.signature(defined[name]).parameters) == parameters
    assert path.read_text().startswith('"""Mistake: ' if path in BUGS else '"""Right: ')


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_stub_is_not_yet_a_solution(exercise):
    stub = functions_of(STUBS / f"{exercise}.py")
    for name, parameters in asked_of(exercise).items():
        with pytest.raises(NotImplementedError):
            stub[name](*parameters)
