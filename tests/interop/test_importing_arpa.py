"""An n-gram as an ARPA file becomes a run, whose probabilities are those in the file."""

import math

import pytest

import regard
from regard.errors import RegardError
from regard.interop.importing import import_run

ARPA = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-99\t<s>\t-0.5
-0.8\t</s>\t0
-1.2\t<unk>\t0
-0.5\tcat\t-0.3
-0.6\tsat\t-0.2

\\2-grams:
-0.1\t<s> cat
-0.2\tcat sat
-0.3\tsat </s>

\\end\\
"""


def test_the_probabilities_are_those_of_the_file(tmp_path):
    (tmp_path / "cats.arpa").write_text(ARPA)
    done = import_run(tmp_path / "cats.arpa", tmp_path / "run")
    assert (done.kind, done.family) == ("arpa", "ngram")
    trained = regard.load(tmp_path / "run")
    (tmp_path / "text.txt").write_text("cat sat\nsat\n")
    expected = (0.1 + 0.2 + 0.3) + (0.5 + 0.6 + 0.3)      # <s> knows no sat: its back-off, then sat alone, sat </s>
    scored = trained.score_files([str(tmp_path / "text.txt")])
    assert scored.tokens == 5 and scored.loss * 5 == pytest.approx(expected * math.log(10), rel=1e-5)
    assert trained.score("cat sat").loss * 2 == pytest.approx((0.1 + 0.2) * math.log(10), rel=1e-5)
    assert trained.generate("cat", new_tokens=3, temperature=0.1, seed=0).split()[:1] == ["sat"]


def test_a_damaged_file_is_one_line_and_nothing_is_written(tmp_path):
    (tmp_path / "cats.arpa").write_text(ARPA.replace("-0.2\tcat sat", "-0.2\tcat"))
    with pytest.raises(RegardError, match=r"cats\.arpa"):
        import_run(tmp_path / "cats.arpa", tmp_path / "out" / "run")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
