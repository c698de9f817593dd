import io
import sys

import pytest

from regard.cli import main

TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80))
TINY = ["--layers", "1", "--width", "16", "--heads", "2", "--context", "16",
        "--batch", "4", "--steps", "3", "--device", "cpu"]


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def mistake(self):
        """The one line of a user's mistake: last on stderr, alone of its kind, without a traceback; exit code 1."""
        lines = self.err.splitlines()
        assert self.code == 1, (self.code, self.err)
        assert "Traceback" not in self.err and "Warning" not in self.err, self.err
        assert [line for line in lines if line.startswith("regard: ")] == lines[-1:], self.err
        assert self.out == ""
        return lines[-1].removeprefix("regard: ")

    def done(self):
        assert self.code == 0, (self.code, self.err)
        assert "Traceback" not in self.err and "Warning" not in self.err, self.err
        return self.out


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder of its own with a text in it."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "text.txt").write_text(TEXT)
    return folder


@pytest.fixture
def regard(capfd, monkeypatch):
    """Run a command in this process; what it wrote is caught at the level of files, warnings from C++ included."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capfd.readouterr()
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code or 0
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Small runs, trained once by the command itself: of characters, of words line by line, and counted."""
    folder = tmp_path_factory.mktemp("cli-runs")
    (folder / "text.txt").write_text(TEXT)
    text = str(folder / "text.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        main(["train", "lm", text, *TINY, "--out", str(folder / "transformer"), "--quiet"])
        main(["train", "lm", text, "--family", "rnn", "--tokenizer", "word", "--width", "8", "--hidden", "12",
              "--context", "8", "--steps", "3", "--device", "cpu", "--out", str(folder / "rnn"), "--quiet"])
        main(["train", "lm", text, "--family", "ngram", "--order", "3", "--out", str(folder / "ngram"), "--quiet"])
    return folder
