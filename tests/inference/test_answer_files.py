"""Inference over files: a line out for each line in, in order, whoever answers and however often it is interrupted."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.corpora import stories
from regard.data import workers
from regard.data.workers import WorkerError
from regard.errors import DataError, RunError, SettingError
from regard.inference import answer_files as over
from regard.inference import answer_parts, answer_worker
from regard.inference.answer_files import answer_files
from regard.inference.placement import Rank, count_workers, device_of_rank, place_workers, this_rank
from regard.trained import list_gpus
from tests import served_runs
from tests.training.ranks import run_ranks

LINES = ["le chat dort .", "", "   ", "où est la gare ?", "un livre rouge", "\u2028 le chien", "x" * 30,
         "le chat " * 90, "la petite fille voit le chien .", "bonjour", "", "deux chats", "un chien noir", "le lait"]
QUIET = {"device": "cpu", "say": lambda text: None}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    folder = served_runs.shared_folder(tmp_path_factory)
    served_runs.train(folder, ["phrasebook", "stories-transformer", "shapes"])
    return folder / "runs"


@pytest.fixture(scope="session")
def masked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    (folder / "text.txt").write_text("".join(f"{story}\n" for story in stories.generate(60)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        regard.train(str(folder / "text.txt"), task="masked", steps=2, out=str(folder / "run"), device="cpu",
                     quiet=True, settings={"tokenizer": {"kind": "word"}, "model": {"width": 16, "heads": 2}})
    return folder / "run"


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(over, "PIECE", 4)
    answer_worker.open_answerer.cache_clear()


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "in.fr"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


# ------------------------------------------------------------------------------------------------ answers


def test_each_line_has_one_line_in_its_place_and_it_is_the_translation_of_that_line(runs, text, tmp_path):
    said: list[str] = []
    written = answer_files(runs / "phrasebook", [text], tmp_path / "out.en", beam=2, device="cpu", say=said.append)
    assert written == [tmp_path / "out.en"]
    model = regard.load(runs / "phrasebook", device="cpu")
    assert lines_of(written[0]) == [each.text for each in model.translate(LINES, beam=2)]
    assert lines_of(written[0])[1:3] == ["", ""]
    assert any("1 line longer than" in line for line in said)
    assert not (tmp_path / "out.en.parts").exists()


def test_samples_are_those_of_the_lines_in_the_whole_file(runs, text, tmp_path):
    answer_files(runs / "phrasebook", [text], tmp_path / "out", sample=True, seed=3, as_json=True, **QUIET)
    model = regard.load(runs / "phrasebook", device="cpu")
    from regard.decoding.sampling import Sampling

    whole = [each.text for each in model.translate(LINES, sampling=Sampling(1.0, seed=3))]
    assert [json.loads(line)["text"] for line in lines_of(tmp_path / "out")] == whole


def test_a_folder_gives_a_folder_with_a_file_for_each_file(runs, tmp_path):
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("le chat\n\nle chien\n")
    (folder / "sub" / "b.txt.gz").write_bytes(gzip.compress(b"bonjour\n" * 9))
    (folder / "c.txt").write_text("")
    (folder / "d.jsonl").write_text("{}\n")
    written = answer_files(runs / "phrasebook", [folder], tmp_path / "out", beam=1, **QUIET)
    assert {str(path.relative_to(tmp_path / "out")): len(lines_of(path)) for path in written} == {
        "a.txt": 3, "c.txt": 0, "sub/b.txt": 9}
    model = regard.load(runs / "phrasebook", device="cpu")
    assert lines_of(tmp_path / "out" / "a.txt") == [
        each.text for each in model.translate(["le chat", "", "le chien"], beam=1)]


def test_lines_are_scored_in_place_empty_ones_too(runs, tmp_path):
    (tmp_path / "a.txt").write_text("Tom had a dog.\n\nRosa lost her kite.\n")
    (tmp_path / "b.txt").write_text("The end.\n")
    answer_files(runs / "stories-transformer", [tmp_path / "a.txt", tmp_path / "b.txt"], tmp_path / "out.jsonl",
                 as_json=True, **QUIET)
    rows = [json.loads(line) for line in lines_of(tmp_path / "out.jsonl")]
    model = regard.load(runs / "stories-transformer", device="cpu")
    expected = model.score_lines(["Tom had a dog.", "", "Rosa lost her kite.", "The end."]).tolist()
    assert [row["log_prob"] for row in rows] == pytest.approx(expected, rel=1e-5)
    assert rows[1]["tokens"] == 1                                            # its end


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".jsonl"])
def test_vectors_have_a_row_for_each_line_an_empty_one_too(masked, tmp_path, suffix):
    lines = ["Tom had a dog.", "", *(f"Rosa lost {n} kites." for n in range(7))]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    out = tmp_path / f"out{suffix}"
    answer_files(masked, [tmp_path / "a.txt"], out, normalise=True, rows=suffix != ".jsonl", **QUIET)
    if suffix == ".npy":
        found = np.load(out)
    elif suffix == ".safetensors":
        from safetensors.numpy import load_file

        found = load_file(out)["vectors"]
    else:
        found = np.array([json.loads(line)["vector"] for line in lines_of(out)], np.float32)
    wanted = regard.load(masked, device="cpu").vectors(lines, normalise=True).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert found.shape == (9, 16) and found.any(1).all()                     # an empty line has its end


def test_pictures_of_a_folder_have_a_line_each_and_a_bad_one_has_an_empty_caption(runs, tmp_path):
    folder = tmp_path / "pictures"
    from regard.corpora import shapes

    shapes.write(folder, 6)
    (folder / "bad.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"1 of 7 have no answer, .*pictures 7: .*bad.png"):
        answer_files(runs / "shapes", [folder], tmp_path / "out.txt", beam=1, **QUIET)
    rows = [line.split("\t") for line in lines_of(tmp_path / "out.txt")]
    assert [Path(name).name for name, _ in rows] == sorted(path.name for path in folder.glob("*.png"))
    model = regard.load(runs / "shapes", device="cpu")
    assert rows[6][1] == "" and rows[3][1] == model.caption([rows[3][0]], beam=1)[0].text


def test_a_picture_with_line_breaks_in_its_name_has_one_line(runs, tmp_path):
    from regard.corpora import shapes

    shapes.write(tmp_path / "drawn", 1)
    (tmp_path / "pictures").mkdir()
    (picture,) = (tmp_path / "drawn").glob("*.png")
    picture.rename(tmp_path / "pictures" / "a\n\tb.png")
    (tmp_path / "pictures" / "c\nd.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match="1 of 2 have no answer"):
        answer_files(runs / "shapes", [tmp_path / "pictures"], tmp_path / "out.txt", beam=1, **QUIET)
    assert [line.split("\t")[0] for line in lines_of(tmp_path / "out.txt")] == [
        str(tmp_path / "pictures" / name) for name in ("a\\n\\tb.png", "c\\nd.png")]


# ------------------------------------------------------------------------------------------- interruptions


class Stopped(BaseException):
    """Stands for Ctrl-C."""


def stop_after(number, monkeypatch):
    done = []

    def counted(order):
        if len(done) == number:
            raise Stopped
        done.append(order["path"])
        return answer_worker.answer(order)

    monkeypatch.setattr(over, "answer", counted)
    return done


def test_an_interrupted_job_goes_on_and_ends_with_the_same_bytes(runs, text, tmp_path, monkeypatch):
    options = {"beam": 2, "as_json": True, **QUIET}
    answer_files(runs / "phrasebook", [text], tmp_path / "whole", **options)
    done = []
    for number in (1, 2):
        some = stop_after(number, monkeypatch)
        with pytest.raises(Stopped):
            answer_files(runs / "phrasebook", [text], tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()
        done += some
    rest = stop_after(99, monkeypatch)
    said: list[str] = []
    answer_files(runs / "phrasebook", [text], tmp_path / "out", **options | {"say": said.append})
    assert len(done) + len(rest) == len({*done, *rest}) == 4 and len(rest) == 1
    assert said[0].startswith("going on: 3 parts")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_damaged_part_is_made_again(runs, text, tmp_path, monkeypatch):
    answer_files(runs / "phrasebook", [text], tmp_path / "whole", beam=1, **QUIET)
    (first, *_) = stop_after(3, monkeypatch), None
    with pytest.raises(Stopped):
        answer_files(runs / "phrasebook", [text], tmp_path / "out", beam=1, **QUIET)
    damaged = Path(first[1])
    damaged.write_bytes(damaged.read_bytes().replace(b"e", b"i"))
    again = stop_after(99, monkeypatch)
    answer_files(runs / "phrasebook", [text], tmp_path / "out", beam=1, **QUIET)
    assert str(damaged) in again
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize(("change", "differs"), [
    ({"beam": 3}, "options"), ({"text": "autre\n"}, "inputs"), ({"run": "stories-transformer"}, "run, task, options")])
def test_unfinished_work_is_not_mixed_with_another_job(runs, text, tmp_path, monkeypatch, change, differs):
    stop_after(1, monkeypatch)
    with pytest.raises(Stopped):
        answer_files(runs / "phrasebook", [text], tmp_path / "out", beam=1, **QUIET)
    text.write_text(change.get("text", text.read_text("utf-8")), encoding="utf-8")
    options = {} if "run" in change else {"beam": change.get("beam", 1)}
    with pytest.raises(RunError, match=rf"unfinished work of another command \(other: {differs}"):
        answer_files(runs / change.get("run", "phrasebook"), [text], tmp_path / "out", **options, **QUIET)


def test_a_line_that_fails_is_an_empty_line_and_is_named(runs, text, tmp_path, monkeypatch):
    from regard.tasks.translate.trained import TrainedTranslator

    translate = TrainedTranslator.translate

    def fails(self, lines, **options):
        if "bonjour" in lines:
            raise RuntimeError("a kernel\nfailed")
        return translate(self, lines, **options)

    monkeypatch.setattr(TrainedTranslator, "translate", fails)
    with pytest.raises(DataError, match=r"1 of 14 have no answer, .*in.fr 10: RuntimeError: a kernel\)$"):
        answer_files(runs / "phrasebook", [text], tmp_path / "out", beam=1, **QUIET)
    lines = lines_of(tmp_path / "out")
    model = regard.load(runs / "phrasebook", device="cpu")
    monkeypatch.undo()
    assert len(lines) == 14 and lines[9] == "" and lines[8] == model.translate([LINES[8]], beam=1)[0].text


def test_a_model_that_fails_on_every_line_stops_the_job(runs, text, tmp_path, monkeypatch):
    from regard.tasks.translate.trained import TrainedTranslator

    def fails(self, lines, **options):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(TrainedTranslator, "translate", fails)
    with pytest.raises(RuntimeError, match="no such kernel"):
        answer_files(runs / "phrasebook", [text], tmp_path / "out", beam=1, **QUIET)


# ------------------------------------------------------------------------------------- several processes


def test_two_workers_give_the_bytes_of_one_process(runs, text, tmp_path):
    answer_files(runs / "phrasebook", [text], tmp_path / "one", beam=2, **QUIET)
    answer_files(runs / "phrasebook", [text], tmp_path / "two", beam=2, workers=2, **QUIET)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_a_worker_meets_is_one_line_and_what_was_done_is_kept(runs, text, tmp_path):
    text.write_bytes(b"le chat\n" * 9 + b"bad \xff\n")
    with pytest.raises(DataError, match=r"in.fr line 10, byte 5 \(0xff\) is not UTF-8"):
        answer_files(runs / "phrasebook", [text], tmp_path / "out", beam=1, workers=2, **QUIET)
    answer_files(runs / "phrasebook", [text], tmp_path / "out", beam=1, on_bad_text="replace", **QUIET)
    assert len(lines_of(tmp_path / "out")) == 10


def run_killed(whom, run, folder, out, ranks=0):
    """Translate a folder by the command, of which a process is killed; return its exit code and what it said."""
    start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
    command = [sys.executable, *start, "-m", "tests.inference.killed_command", whom, "translate", run, folder, "--out",
               out, "--beam", "1", "--device", "cpu", *([] if ranks else ["--workers", 1])]
    done = subprocess.run(list(map(str, command)), timeout=120, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"})
    return done.returncode, done.stderr


def test_a_killed_job_goes_on_whoever_answers_next_and_ends_with_the_same_bytes(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(over, "PIECE", 5)
    folder, run, out = tmp_path / "in", runs / "phrasebook", tmp_path / "out"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("".join("\n" if n % 9 == 4 else f"le chat numéro {n}\n" for n in range(60)))
    (folder / "b.txt").write_text("")
    (folder / "sub" / "c.txt").write_text("un chien noir\n" * 41 + "sans fin de ligne")
    answer_files(run, [folder], tmp_path / "whole", beam=1, **QUIET)

    def parts():
        return {path.name for path in (tmp_path / "out.parts").iterdir() if path.name[0].isdigit()}

    assert run_killed("main", run, folder, out)[0] == -9 and not out.exists()
    first, options = parts(), json.loads((tmp_path / "out.parts" / "job.json").read_text())["options"]
    with monkeypatch.context() as patch:
        kill_at_order(3, patch)
        with pytest.raises(WorkerError, match=r"worker \d of 2 was ended by signal 9, perhaps for want of memory"):
            answer_files(run, [folder], out, workers=2, **options, **QUIET)
    second = parts()
    assert run_killed("rank", run, folder, out, ranks=2)[0] == 1
    third = parts()
    assert len(first) == 2 and first < second < third and len(third) < 21
    code, err = run_killed("nobody", run, folder, out, ranks=2)
    assert code == 0, err
    names = ["a.txt", "b.txt", "sub/c.txt"]
    assert [len(lines_of(out / name)) for name in names] == [60, 0, 42]
    for name in names:
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "out.parts").exists()


def kill_at_order(number, patch):
    """Kill the worker that gets this order, before it can read it."""
    ask, asked = workers.Worker.ask, []

    def counted(self, order):
        asked.append(order)
        if len(asked) == number:
            self.process.kill()
            self.process.wait()
        return ask(self, order)

    patch.setattr(workers.Worker, "ask", counted)


def test_workers_get_a_gpu_each_and_share_the_threads(monkeypatch):
    from regard.inference import placement

    monkeypatch.setattr(placement, "cores", lambda: 8)
    assert [each["CUDA_VISIBLE_DEVICES"] for each in place_workers(3, ["2", "5"])] == ["2", "5", "2"]
    assert {each["OMP_NUM_THREADS"] for each in place_workers(3, [])} == {"2"}
    assert all("CUDA_VISIBLE_DEVICES" not in each for each in place_workers(2, []))
    assert (count_workers(None, []), count_workers(None, ["0", "1"]), count_workers(3, ["0"])) == (1, 2, 3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert list_gpus("auto") == ["4", "7"] and list_gpus("cpu") == []


def test_what_ranks_are_refused_is_one_line_of_the_first(runs, text, tmp_path):
    run = runs / "phrasebook"
    (tmp_path / "taken.en.parts").mkdir()
    (tmp_path / "taken.en.parts" / "job.json").write_text('{"run": "another"}')
    for name, arguments, line in (
            ("none", [tmp_path / "none", text], "there is no run at"),
            ("taken.en", [run, text], "holds the unfinished work of another command"),
            ("many.en", [run, text, "--workers", 2], "torchrun started 2 processes already")):
        ended = run_ranks(2, ["-m", "regard", "translate", *arguments, "--out", tmp_path / name, "--device", "cpu"])
        assert [code for code, _, _ in ended] == [1, 1], ended
        told = [each for _, _, err in ended for each in err.splitlines()]
        assert len(told) == 1 and told[0].startswith("regard: ") and line in told[0], told


def test_a_rank_takes_the_gpu_of_its_number():
    rank = this_rank({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"})
    assert rank == Rank(5, 8, 1, 4) and this_rank({}) == Rank()
    assert device_of_rank("auto", rank, ["0", "1"]) == "cuda:1" and device_of_rank("cpu", rank, []) == "cpu"
    with pytest.raises(SettingError, match="--nproc-per-node=1"):
        device_of_rank("auto", rank, ["0"])


# ------------------------------------------------------------------------------------------------ mistakes


def test_wrong_use_is_one_clear_line(runs, masked, text, tmp_path):
    run = runs / "phrasebook"
    for arguments, options, message in [
            (([text], tmp_path / "o"), {"beems": 2}, "beems means nothing here: did you mean beam"),
            (([text], text), {}, "would be written over"),
            (([text, text], tmp_path / "o"), {}, "two of the files would be written to"),
            (([text], tmp_path / "o"), {"workers": 0}, "--workers 0: must be at least 1"),
            (([text], tmp_path / "o"), {"on_bad_text": "drop"}, "unknown on_bad_text 'drop'"),
            (([tmp_path / "none.txt"], tmp_path / "o"), {}, "does not exist")]:
        with pytest.raises((SettingError, DataError), match=message):
            answer_files(run, *arguments, **options, **QUIET)
    with pytest.raises(SettingError, match="would be written over"):
        answer_files(runs / "stories-transformer", [text], text, **QUIET)
    assert not (tmp_path / "o.parts").exists()


def test_parts_of_arrays_without_rows_make_an_empty_array(tmp_path):
    answer_parts.join(tmp_path / "out.npy", [])
    assert np.load(tmp_path / "out.npy").shape == (0, 0)
