"""bench/scaling.py: what grows too fast is seen, what does not is left alone, and no family is forgotten.

Times are planted: a clock that moves by what a piece of work says it costs, so that nothing here depends on a machine.
"""

import itertools
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

import scaling
from scaling_parts import curve as curves_module
from scaling_parts import families, files, generation, looks, metrics, ngrams, texts
from scaling_parts.curve import Curve, Setting, Work, doubling, largest_tensor, measure

from regard.data.tokens.tokenizers import KINDS
from regard.families import FAMILIES
from regard.families.caption import CAPTION
from regard.families.masked_encoders import MASKED
from regard.families.translate import TRANSLATE

SETTING = Setting(most=1.0)
SIZES = doubling(16, 1024)


class Clock:
    """Work moves it, `seconds` reads it."""

    def __init__(self):
        self.now = 0.0
        self.disturbed: Iterator[float] = itertools.repeat(1.0)

    def seconds(self, work, device, warm):
        for _ in range(warm):
            work()
        began = self.now
        work()
        return (self.now - began) * next(self.disturbed)

    def curve(self, cost, *, allowed, held=None, allowed_held=None, fresh=False):
        """A curve whose work of size n costs `cost(n)` milliseconds and holds `held(n)` bytes."""
        def prepare(size):
            def run():
                self.now += cost(size) / 1000

            return Work(run, None if held is None else lambda: held(size))

        return Curve("planted", "size", SIZES, prepare, allowed, allowed_held, fresh)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(curves_module, "seconds", made.seconds)
    return made


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("cost, allowed, verdict", [
    (lambda n: 0.01 * n, 1.0, ""),
    (lambda n: 5 + 0.05 * n, 1.0, ""),
    (lambda n: 0.001 * n * math.log2(n), 1.0, ""),
    (lambda n: 0.0001 * n**2, 1.0, "time TOO FAST"),
    (lambda n: 5 + 0.0001 * n**2, 1.0, "time TOO FAST"),                 # the square is seen behind a fixed cost
    (lambda n: 0.0001 * n**2, 2.0, ""),
    (lambda n: 0.01 * n * (1 + (n > 256)), 1.0, ""),                     # a cache that is left behind is no growth
    (lambda n: 0.01 * n * (1 + (n > 512)), 1.0, ""),
    (lambda n: 1e-7 * n**3, 2.0, "time TOO FAST"),
    (lambda n: 0.01 * n, 0.0, "time TOO FAST"),                          # what should not grow at all
    (lambda n: 5.0, 1.0, "flat"),
    (lambda n: 5.0, 0.0, ""),
])
def test_growth_is_judged_by_its_exponent(clock, cost, allowed, verdict, fresh):
    found = measure(clock.curve(cost, allowed=allowed, fresh=fresh), SETTING)
    assert found.verdict == verdict, f"exponent {found.exponent:.2f}"
    assert found.as_dict()["too_fast"] == ("TOO FAST" in verdict)


def test_the_exponent_is_that_of_the_law():
    clock = Clock()
    for power in (0.5, 1.0, 2.0):
        found = curves_module.Found(clock.curve(lambda n: n, allowed=1.0), list(SIZES),
                                    [size**power for size in SIZES])
        assert found.exponent == pytest.approx(power)


def test_bytes_are_held_to_a_narrower_bound(clock):
    def judged(held):
        return measure(clock.curve(lambda n: 0.01 * n, allowed=1.0, held=held, allowed_held=1.0), SETTING).verdict

    assert judged(lambda n: 8 * n) == judged(lambda n: 0) == ""
    assert judged(lambda n: n**1.2) == judged(lambda n: n * n) == "bytes TOO FAST"


def test_a_moment_of_other_work_does_not_pass_for_growth(clock):
    """All calls of the two largest sizes take twice and four times as long, until they are measured again."""
    times = [1.0] * 4 * (len(SIZES) - 2) + [2.0] * 4 + [4.0] * 4             # four calls a size
    clock.disturbed = itertools.chain(times, itertools.repeat(1.0))
    found = measure(clock.curve(lambda n: 0.01 * n, allowed=1.0), SETTING)
    assert found.again and not found.slow
    clock.disturbed = itertools.repeat(1.0)
    assert measure(clock.curve(lambda n: 0.0001 * n**2, allowed=1.0), SETTING).slow           # and what is so stays so


def test_sizes_stop_where_a_call_takes_too_long_or_memory_ends(clock):
    assert measure(clock.curve(lambda n: 10 * n, allowed=1.0), SETTING).sizes == [16, 32, 64, 128]
    assert measure(clock.curve(lambda n: 10_000 * n, allowed=1.0), SETTING).sizes == [16, 32, 64]      # three, to fit

    def held(size):
        if size > 256:
            raise torch.OutOfMemoryError("no room")
        return size

    assert measure(clock.curve(lambda n: 0.01 * n, allowed=1.0, held=held), SETTING).sizes[-1] == 256


def test_doubling_gives_three_sizes_at_least():
    assert doubling(16, 1024) == (16, 32, 64, 128, 256, 512, 1024)
    assert doubling(16, 1000)[-1] == 512
    assert doubling(16, 16) == (16, 32, 64)


def test_the_largest_tensor_on_the_way_is_found():
    x = torch.zeros(100, 4)
    assert largest_tensor(lambda: (x @ x.T).sum()) == 100 * 100 * 4
    assert largest_tensor(lambda: x.sum()) < 100 * 4 * 4


# ------------------------------------------------------------------------------------------- who is there


def names(part):
    return {(curve.name, curve.along) for curve in part.curves(Setting())}


def test_every_family_is_trained_along_every_axis_and_writes():
    trained, writes = names(families), {name for name, _ in names(generation)}
    every = {"lm": FAMILIES, "masked": MASKED, "translate": TRANSLATE, "caption": CAPTION}
    assert every == families.TABLES
    ways = {"lm": ("prompt", "one token after", "all tokens of"), "masked": ("filling blanks",),
            "translate": ("beam search",), "caption": ("beam search",)}
    for task, table in every.items():
        for name, family in table.items():
            if family.build is None:
                assert any(each.startswith(f"{task} {name}: counted") for each, _ in names(ngrams))
                continue
            for axis in ("length", "batch", "width", "layers"):
                assert (f"{task} {name}: training step", axis) in trained
            for way in ways[task]:
                assert f"{task} {name}: {way}" in writes


def test_every_language_model_is_looked_at_and_every_tokenizer_encodes():
    looked, encoded = ({name for name, _ in names(part)} for part in (looks, texts))
    assert {f"lm {name}: a look" for name in FAMILIES} | {f"masked {name}: a look" for name in MASKED} <= looked
    assert {f"{kind}: encoding a text" for kind in KINDS} <= encoded


def test_names_are_names_of_one_curve_each_and_what_may_be_quadratic_exists():
    for part in (families, files, generation, looks, metrics, ngrams, texts):
        listed = [(curve.name, curve.along) for curve in part.curves(Setting())]
        assert len(listed) == len(set(listed))
    known = {kind.name for kind in families.kinds()}
    assert families.ATTENDS | families.HOLDS_PAIRS | families.CUBIC | set(looks.SHOWN) <= known


@pytest.mark.parametrize("kind", families.kinds(), ids=lambda kind: kind.name)
def test_a_step_of_every_family_runs_and_holds_something(kind):
    work = families.step(kind, "length", 8, Setting())
    work.run()
    assert work.held is not None and work.held() > 0


def test_the_command_prints_a_line_a_curve_and_writes_what_it_is_told_to(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    threads = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["scaling.py", "--quick", "--part", "texts", "--json", str(tmp_path / "made.json"),
                                      "--only", "byte: encoding one word of a"])
    try:
        scaling.main()
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
    said = capsys.readouterr().out
    assert "byte: encoding one word of accents" in said and "2 curves" in said
    assert (tmp_path / "made.json").is_file()
    monkeypatch.setattr(sys, "argv", ["scaling.py", "--part", "metrics", "--only", "no such thing"])
    with pytest.raises(SystemExit, match="nothing is called no such thing"):
        scaling.main()
