"""`--deterministic`: what it sets, what it refuses, and that it is put back."""

import importlib.util
from pathlib import Path

import pytest
import torch

from regard.errors import SettingError
from regard.kernels.cuda.cublas import Shape
from regard.training import deterministic
from regard.training.run import TrainRequest, run_training
from regard.training.settings import TrainingSettings

SETTINGS = {"model": dict(width=8, hidden=8, context=8, layers=1), "tokenizer": {"kind": "char"}}
STRICT = TrainingSettings(deterministic=True)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"the cat {n} sat on mat {n * 7}\n" for n in range(60)))
    return str(path)


def run(text, out, device="cpu", **training):
    tables = SETTINGS | {"training": dict(steps=4, batch=4) | training}
    run_training(TrainRequest((text,), family="lstm", out=str(out), device=device, settings=tables, tested=False))
    return (out / "model.safetensors").read_bytes()


def test_on_a_cpu_it_changes_nothing_and_says_so(text, tmp_path, capfd):
    plain = run(text, tmp_path / "plain")
    assert "same bits" not in capfd.readouterr().err
    assert run(text, tmp_path / "strict", deterministic=True) == plain
    assert "same bits  nothing to set on a CPU" in capfd.readouterr().err
    assert "deterministic = true" in (tmp_path / "strict" / "run.toml").read_text()


def test_a_budget_of_minutes_is_refused_and_one_of_tokens_is_not(text, tmp_path):
    with pytest.raises(SettingError, match="--deterministic with a budget of 3 minutes: no two runs make equally many"):
        run(text, tmp_path / "refused", deterministic=True, minutes=3, steps=0)
    assert not (tmp_path / "refused").exists()
    assert run(text, tmp_path / "run", deterministic=True, tokens=200, steps=0)


def test_an_operation_without_an_ordered_algorithm_is_one_line(text, tmp_path, monkeypatch):
    def refuse(*given):
        raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation, but you set "
                           "'torch.use_deterministic_algorithms(True)'. You can turn off determinism ...")

    monkeypatch.setattr("regard.training.step.update_weights", refuse)
    with pytest.raises(SettingError, match="torch has no ordered algorithm for cumsum_cuda_kernel, which this model"):
        run(text, tmp_path / "run", deterministic=True)


def test_a_gpu_that_multiplied_before_is_told_what_to_set():
    with (pytest.raises(SettingError, match="set CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment"),
          deterministic.refusing_in_one_line()):
        raise RuntimeError("Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)`")
    with pytest.raises(RuntimeError, match="another"), deterministic.refusing_in_one_line():
        raise RuntimeError("another")


def test_what_is_set_for_a_gpu_is_put_back(monkeypatch):
    import torch._inductor.config as compiler

    monkeypatch.delenv(deterministic.WORKSPACE, raising=False)
    said = []
    with deterministic.kept_algorithms():
        deterministic.set_deterministic(TrainingSettings(), torch.device("cuda"), said.append)
        assert not said and not torch.are_deterministic_algorithms_enabled()
        deterministic.set_deterministic(STRICT, torch.device("cuda"), said.append)
        assert torch.are_deterministic_algorithms_enabled() and torch.backends.cudnn.deterministic
        assert compiler.deterministic and not deterministic.STRICT.fill_uninitialized_memory and len(said) == 1
        assert deterministic.os.environ[deterministic.WORKSPACE] == ":4096:8"
        with deterministic.any_order():
            assert not torch.are_deterministic_algorithms_enabled()
        assert torch.are_deterministic_algorithms_enabled()
    assert not (torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic
                or compiler.deterministic)
    assert deterministic.STRICT.fill_uninitialized_memory


def test_a_plan_that_was_timed_is_not_one_that_is_the_first_of_the_list():
    """Both may be asked for in one process, one run after the other."""
    sizes = (8, 8, 8, (False, False), (8, 8), torch.bfloat16, 1, 16, 0)
    assert Shape(*sizes).timed and Shape(*sizes) != Shape(*sizes, False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_on_a_gpu_two_runs_have_the_same_bits(text, tmp_path, monkeypatch):
    monkeypatch.setenv(deterministic.WORKSPACE, deterministic.ONE_EACH)
    runs = [run(text, tmp_path / str(n), "cuda", deterministic=True, steps=20, compile="capture") for n in range(2)]
    assert runs[0] == runs[1]


def test_the_bench_tells_equal_weights_from_others_and_from_none():
    path = Path(__file__).parents[2] / "bench" / "deterministic.py"
    spec = importlib.util.spec_from_file_location("bench_deterministic", path)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)

    def found(plain, strict, speed):
        return {"lstm": {"plain": {"sha256": plain, "tokens_a_second": 100},
                         "deterministic": {"sha256": strict, "tokens_a_second": speed}}}

    about = bench.compare([found("a", "c", 60), found("b", "c", 80)])["lstm"]
    assert about["plain: equal weights"] is False and about["deterministic: equal weights"] is True
    assert about["costs"] == 0.2
    failed = {"lstm": {"plain": {"sha256": "a"}, "deterministic": {"error": "no"}}}
    about = bench.compare([failed, failed])["lstm"]
    assert about["deterministic: equal weights"] is None and about["deterministic: errors"] == ["no", "no"]
