"""The twelve exercises: their names, functions and ideas. They need no torch: `regard course list` is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.errors import SettingError, did_you_mean

POINTS = 10                                       # for each exercise
STUBS = Path(__file__).parent / "stubs"


@dataclass(frozen=True)
class CourseExercise:
    """One exercise: `name` is also the name of its stub, a file with the functions to be written."""

    name: str
    lecture: int                                  # 1 to 5: the notebook that it goes with
    idea: str
    functions: tuple[str, ...]

    @property
    def stub(self) -> Path:
        return STUBS / f"{self.name}.py"

    @property
    def checks(self) -> str:
        """The module with this exercise's checks."""
        return f"regard.course.checks.of_{self.name.partition('_')[2]}"


EXERCISES = {each.name: each for each in (
    CourseExercise("01_counting", 1, "an n-gram model is a table of counts, smoothed", ("ngram_probabilities",)),
    CourseExercise("02_averaging", 1, "a text is the mean of its word vectors", ("average",)),
    CourseExercise("03_windows", 1, "a feed-forward model reads the last n words", ("windows",)),
    CourseExercise("04_recurrence", 2, "one cell for every step, and a carried "
                                       "state", ("rnn_step", "read_in_stretches")),
    CourseExercise("05_loss", 2, "the average negative log-likelihood of the next word", ("language_model_loss",)),
    CourseExercise("06_scores", 3, "four ways to match a query with a "
                                   "key", ("dot", "bilinear", "additive", "location")),
    CourseExercise("07_attention", 3, "a weighted average of the values", ("attention",)),
    CourseExercise("08_heads", 4, "causal self-attention with several heads", ("self_attention",)),
    CourseExercise("09_positions", 4, "the order of words, added", ("sinusoids", "add_positions")),
    CourseExercise("10_block", 5, "residual connections and layer norms", ("layer_norm", "pre_norm_block",
                                                                          "post_norm_block")),
    CourseExercise("11_scan", 5, "a linear recurrence in parallel", ("combine", "scan")),
    CourseExercise("12_beam", 5, "the best text is not the one of the best words", ("beam_search",)),
)}


def find_exercise(name: str) -> CourseExercise:
    """Return the exercise of this name, or with this number or idea: 07_attention, 7 and attention are one."""
    short = name.removesuffix(".py").removesuffix(".ipynb")
    for each in EXERCISES.values():
        number, _, idea = each.name.partition("_")
        if short in (each.name, idea, number, number.lstrip("0")):
            return each
    raise SettingError(f"{name} is no exercise{did_you_mean(short, EXERCISES)}")
