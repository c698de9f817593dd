"""Every task at the edges, through its commands: one example, one word, one token a line, any script, nothing."""

import os

import pytest
import torch

from regard.cli import main
from tests.edges.edge_texts import ARABIC, EMOJI, HEBREW, TASKS, TEXTS, train_command, write_data

LONG = "cat dog " * 300
INPUTS = {"nothing": "", "a blank": "  ", "longer than the context": LONG, "unknown words": "zzz qqq 漢字 xyz",
          "right to left": f"{HEBREW} {ARABIC}", "emoji": EMOJI}
TOO_FEW = "too little text to hold some out: "
ONE_TAG = "there is nothing to tell apart"
# What cannot be trained on is refused with this; all else is trained on.
REFUSED = {**{(task, "one line"): TOO_FEW for task in TASKS},
           ("caption", "one line"): "too few pictures to hold some out",
           **{(task, "one word"): f"{TOO_FEW}1 document" for task in ("translate", "summarise", "tag")},
           ("tag", "one token a line"): ONE_TAG}


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        torch.set_num_threads(1)
        yield


@pytest.fixture
def regard(capfd):
    """Run a command: its exit code, what it wrote, and the one line it may say when it fails."""
    def run(*words):
        capfd.readouterr()
        try:
            code = main(list(map(str, words))) or 0
        except SystemExit as ended:
            code = ended.code or 0
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        assert code == 0 or (code == 1 and err.startswith("regard: ") and err.count("\n") == 1), (code, err)
        return code, out, err

    return run


def train(regard, task, edge, folder, **more):
    os.chdir(folder)
    given = write_data(task, TEXTS[edge], folder)
    return regard(*train_command(task, given, "run", **more))


@pytest.mark.parametrize("edge", TEXTS)
@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_trained_at_the_edge_or_refused_in_one_line(regard, task, edge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = train(regard, task, edge, tmp_path, batch=512)
    if (task, edge) in REFUSED:
        assert code == 1 and REFUSED[task, edge] in err and not (tmp_path / "run" / "model.safetensors").exists()
        assert " 0 characters" not in err
    else:
        assert code == 0, err
        assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("task", ["lm", "masked", "classify", "caption"])
def test_one_example_is_learned_from_where_others_are_held_out(regard, task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = write_data(task, TEXTS["one line"], tmp_path)
    (tmp_path / "more").mkdir()
    held = write_data(task, TEXTS["a batch larger than the data"], tmp_path / "more")
    code, _, err = regard(*train_command(task, given, "run"), "--valid", *(tmp_path / "more" / each for each in held))
    assert code == 0, err


# --------------------------------------------------------------------------------------------------- using


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each task, trained on any script, made when it is first asked for."""
    made = {}

    def run(task):
        if task not in made:
            folder = tmp_path_factory.mktemp(task)
            before = os.getcwd()
            os.chdir(folder)
            try:
                main(train_command(task, write_data(task, TEXTS["any script"], folder), "run"))
            finally:
                os.chdir(before)
            made[task] = folder
        return made[task]

    return run


def uses(task, text, folder):
    """Commands that use a run of the task on a text."""
    (folder / "in.txt").write_text(f"{text}\n", "utf-8")
    file, run, look = folder / "in.txt", folder / "run", ["show", folder / "run", text[:400]]
    return {"lm": [["generate", run, "--prompt", text, "--tokens", 3], ["score", run, file], look],
            "masked": [["fill", run, f"{text} ___"], ["score", run, file], ["vectors", run, file], look],
            "translate": [["translate", run, file], ["translate", run, file, "--beam", 1], look],
            "summarise": [["summarise", run, file], look], "classify": [["classify", run, file], look],
            "tag": [["tag", run, file], look]}[task]


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("task", [task for task in TASKS if task != "caption"])
def test_any_input_is_answered_or_refused_in_one_line(regard, runs, task, given):
    folder = runs(task)
    codes = {}
    for words in uses(task, INPUTS[given], folder):
        code, out, _ = regard(*words)
        codes[words[0]] = code
        if words[0] in ("translate", "summarise", "classify", "tag") and code == 0:
            assert out.count("\n") == 1, (words[0], out)     # a line for a line, also for an empty one
    first = next(iter(codes))
    assert codes[first] == 0 or given in ("nothing", "a blank"), (first, given)


def test_a_line_of_a_million_tokens_is_read(regard, runs, tmp_path):
    """Read as a stream of bounded pieces, or refused by its length; the run reads sixteen tokens at once."""
    (tmp_path / "a.txt").write_text("a b cat dog " * 250_000 + "\n")
    code, out, _ = regard("score", runs("lm") / "run", tmp_path / "a.txt")
    assert code == 0 and "1,000,00" in out.replace("1 000 000", "1,000,000"), out
    code, _, err = regard("classify", runs("classify") / "run", tmp_path / "a.txt")
    assert code == 1 and "longer than 1,048,576 bytes" in err
