"""The grader names planted mistakes by what the functions do, and lets every right solution pass."""

import functools

import numpy as np
import pytest
import torch

from regard.course.grading import checks_of, grade
from regard.course.student import Slip, Student, close, tensor
from regard.course.syllabus import EXERCISES
from tests.course.bar import is_named
from tests.course.planted import BUGS, HERE, RIGHT, functions_of
from tests.course.planted import EXERCISES as NAMES
from tests.course.unseen import UNSEEN

BAR = 36                          # of the forty
# Written when the grader was finished: a right solution, and one change to it. Each has the names that would do.
LATER = [
    ("01_counting", "vectorised", "torch.full((vocab,), float(k), dtype=torch.float64)",
     "torch.zeros(vocab, dtype=torch.float64)", "k_ignored not_a_number"),
    ("01_counting", "loops", "list(context)[len(context) - n + 1:]",
     "list(context)[:n - 1]", "first_words_as_history"),
    ("01_counting", "functional", "grams[(*history, word)]", "min(grams[(*history, word)], 1)", "wrong_numbers"),
    ("02_averaging", "vectorised", "lengths.clamp(min=1)[:, None]", "x.shape[1]", "pads_counted"),
    ("02_averaging", "vectorised", "lengths.clamp(min=1)[:, None]", "lengths[:, None]", "empty_text_nan"),
    ("02_averaging", "vectorised", "torch.where(real[..., None], x, 0.0).sum(1)", "x.sum(1)", "pads_counted"),
    ("03_windows", "functional", "F.pad(x, (0, 0, n - 1, 0))",
     "F.pad(x, (0, 0, n // 2, n - 1 - n // 2))", "looks_ahead"),
    ("03_windows", "functional", ".transpose(2, 3)", "", "interleaved"),
    ("03_windows", "vectorised", "x.new_zeros(x.shape[0], n - 1, x.shape[2])",
     "x[:, :1].expand(-1, n - 1, -1)", "not_zeros_before"),
    ("04_recurrence", "vectorised", "h @ W_h.T", "h @ W_h", "W_h_transposed"),
    ("04_recurrence", "loops", "            h = h.detach()",
     "            h = h.detach() * 0", "state_reset start_ignored"),
    ("04_recurrence", "functional", ").tanh()", ").relu()", "other_nonlinearity"),
    ("05_loss", "vectorised", "/ real.sum()", "", "sum_not_mean"),
    ("05_loss", "vectorised", "/ real.sum()", "/ tokens.numel()", "pads_in_the_count"),
    ("05_loss", "loops", "range(tokens.shape[1] - 1)", "range(1, tokens.shape[1] - 1)", "first_word_forgotten"),
    ("05_loss", "vectorised", "return -(", "return (", "sign"),
    ("06_scores", "vectorised", "torch.tanh((q @ W_q.T)[:, None] + K @ W_k.T) @ v",
     "torch.tanh(((q @ W_q.T)[:, None] + K @ W_k.T) @ v)", "tanh_outside"),
    ("06_scores", "functional", 'einsum("bd,bsd->bs", q, K)',
     'einsum("bd,bsd->bs", q, K) / q.shape[-1] ** 0.5', "scaled"),
    ("07_attention", "vectorised", "/ math.sqrt(q.shape[-1])", "/ q.shape[-1]", "wrong_scale"),
    ("07_attention", "vectorised", "masked_fill(~mask, -math.inf)", "masked_fill(~mask, -2.0)", "mask_leaks"),
    ("07_attention", "vectorised", "masked_fill(~mask, -math.inf)", "mul(mask)", "mask_times_scores"),
    ("07_attention", "vectorised", "masked_fill(~mask, -math.inf)", "masked_fill(~mask, -1e9)", "empty_row_average"),
    ("07_attention", "vectorised", "return weights @ V", "return weights @ K", "values_are_keys"),
    ("08_heads", "vectorised", "diagonal=1", "diagonal=0", "mask_hides_itself"),
    ("08_heads", "vectorised", "diagonal=1", "diagonal=2", "mask_one_too_late"),
    ("08_heads", "vectorised", "(weights @ v).transpose(1, 2)", "(weights @ v)", "heads_joined_across_time"),
    ("08_heads", "vectorised", " @ W_o", "", "output_matrix_missing"),
    ("08_heads", "vectorised", "math.sqrt(width // heads)", "1.0", "no_scale"),
    ("09_positions", "vectorised", "10000 ** (i / width)", "10000 ** (2 * i / width)", "wrong_exponent"),
    ("09_positions", "functional", "np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, width)",
     "np.concatenate([np.sin(angles), np.cos(angles)], 1)", "halves_not_interleaved"),
    ("09_positions", "vectorised", "return x + sinusoids(x.shape[1], x.shape[2], first).to(x)",
     "return x + sinusoids(x.shape[1], x.shape[2]).to(x)", "first_ignored"),
    ("10_block", "vectorised", "((x - mean) ** 2).mean(-1, keepdim=True)",
     "x.var(-1, keepdim=True)", "unbiased_variance"),
    ("10_block", "vectorised", "x = norm_2(x + feed(x))",
     "x = x + norm_2(feed(x))", "wrong_numbers norm_before_adding"),
    ("10_block", "loops", "y + feed(norm_2(y))", "y + feed(norm_1(y))", "one_norm_twice"),
    ("10_block", "vectorised", "torch.rsqrt(variance + eps)", "torch.rsqrt(variance)", "no_eps not_a_number"),
    ("11_scan", "loops", "h = a[:, t] * h + b[:, t]",
     "h = a[:, t] * (h + b[:, t])", "a_times_everything wrong_numbers"),
    ("11_scan", "vectorised", "distance *= 2", "distance *= 4", "wrong_numbers"),
    ("12_beam", "loops", "(len(each[1]) - 1) ** alpha", "len(each[1]) ** alpha", "bos_counted"),
    ("12_beam", "loops", "each[0] / (len(each[1]) - 1) ** alpha",
     "each[0] * (len(each[1]) - 1) ** alpha", "multiplied_by_length"),
    ("12_beam", "loops", "finished += beam",
     "finished = finished or beam", "unfinished_dropped stops_early wrong_text"),
]


def sheet_of(path):
    name = path.parent.name if path in BUGS else path.stem
    return grade(EXERCISES[name], functions_of(path))


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_right_solution_of_any_style_passes(path):
    sheet = sheet_of(path)
    assert sheet.passed and sheet.score == 10, sheet.text()


def test_the_forty_mistakes_are_named():
    wrong = {f"{path.parent.name}/{path.stem}": sheet_of(path).mistake for path in BUGS
             if sheet_of(path).mistake != path.stem}
    assert len(BUGS) - len(wrong) >= BAR, wrong
    assert not wrong


@pytest.mark.parametrize("path", BUGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_mistake_has_one_line_and_costs_points_but_not_all(path):
    sheet = sheet_of(path)
    assert 0 < sheet.score < 10
    (first, *_) = sheet.failed
    assert 20 < len(first.message) < 300 and "\n" not in first.message


@pytest.mark.parametrize(("exercise", "style", "old", "new", "names"), LATER, ids=lambda value: str(value)[:20])
def test_mistakes_of_later_are_named_too(exercise, style, old, new, names):
    source = (HERE / "right" / style / f"{exercise}.py").read_text()
    assert old in source
    functions: dict = {}
    exec(source.replace(old, new), functions)
    sheet = grade(EXERCISES[exercise], functions)
    assert not sheet.passed and sheet.mistake in names.split(), f"{sheet.mistake}: {sheet.failed}"


@pytest.mark.parametrize("each", UNSEEN, ids=lambda each: f"{each.exercise}-{each.new[:20]}")
def test_mistakes_that_were_new_to_the_finished_grader_are_named(each):
    sheet = grade(EXERCISES[each.exercise], each.functions())
    assert not sheet.passed and is_named(each, sheet), f"{sheet.mistake}: {sheet.failed}"


def test_nothing_is_read_from_the_source_or_the_name_of_the_file():
    """Code without a file, a docstring or a comment gets the same findings."""
    for path in BUGS:
        hidden: dict = {}
        source = path.read_text().split('"""', 2)[2]
        exec(compile(source, "<nowhere>", "exec"), hidden)
        bare = {name: functools.partial(each) for name, each in hidden.items() if callable(each)}
        assert grade(EXERCISES[path.parent.name], bare).mistake == path.stem


def test_two_mistakes_at_once_are_found_one_after_the_other():
    source = (HERE / "bugs" / "07_attention" / "no_scale.py").read_text()
    both: dict = {}
    exec(source.replace("masked_fill(~mask", "masked_fill(mask"), both)
    found = [each.mistake for each in grade(EXERCISES["07_attention"], both).failed]
    assert found[0] == "no_scale" and len(found) > 2


@pytest.mark.parametrize("exercise", NAMES)
def test_a_stub_is_told_of_as_not_written_and_has_no_points(exercise):
    sheet = grade(EXERCISES[exercise], functions_of(EXERCISES[exercise].stub))
    assert sheet.mistake == "not_written" and sheet.score == 0
    assert sheet.text().count("\n") == 1


@pytest.mark.parametrize("exercise", NAMES)
def test_a_function_that_ignores_its_input_has_no_points(exercise):
    """Zeros of the right shape keep many laws; they earn nothing."""
    right = functions_of(HERE / "right" / "vectorised" / f"{exercise}.py")

    def constant(each):
        def give(*args):
            found = each(*args)
            return [2, 3] if isinstance(found, list) else tuple(map(torch.zeros_like, found)) if isinstance(
                found, tuple) else torch.zeros_like(found)

        return give

    sheet = grade(EXERCISES[exercise], {name: constant(right[name]) for name in EXERCISES[exercise].functions})
    assert sheet.score == 0, sheet.text()


@pytest.mark.parametrize("exercise", NAMES)
def test_every_check_has_a_sentence_and_the_first_one_runs(exercise):
    checks = checks_of(EXERCISES[exercise])
    assert checks[0].name == "runs" and len(checks) >= 5
    assert all(check.meaning for check in checks)


@pytest.mark.parametrize(("returned", "mistake", "words"), [
    (None, "wrong_type", "is there a return"), ("text", "wrong_type", "returns a str"), (3, "wrong_shape", "()"),
    (torch.zeros(2, 3), "wrong_shape", "(2, 3)"), ({"a": 1}, "wrong_type", "returns a dict")])
def test_a_wrong_result_is_one_line(returned, mistake, words):
    sheet = grade(EXERCISES["02_averaging"], {"average": lambda x, lengths: returned})
    assert sheet.mistake == mistake and words in sheet.failed[0].message and sheet.score == 0


def test_lists_and_arrays_are_results_too():
    assert close(tensor([1.0, 2.0], (2,), "f"), tensor(np.array([1, 2]), (2,), "f"))


def test_writing_into_the_input_is_seen():
    def average(x, lengths):
        x[:, 0] = 0.0
        return x.mean(1)

    assert grade(EXERCISES["02_averaging"], {"average": average}).mistake == "writes_into_its_input"


def test_a_crash_names_the_error_and_the_line():
    def average(x, lengths):
        return x[99]

    finding = grade(EXERCISES["02_averaging"], {"average": average}).failed[0]
    assert finding.mistake == "crashed" and "IndexError" in finding.message and "test_grader.py" in finding.message


@pytest.mark.parametrize("functions", [{}, {"average": 3}])
def test_a_missing_function_is_named(functions):
    with pytest.raises(Slip, match="average"):
        Student(functions).average()
