"""Worker processes answer in order, end with the process that started them, and tell in one line what went wrong."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from regard.data.workers import WorkerError, WorkerPool, check_workers, cores, use_workers, worker_count
from regard.errors import DataError, SettingError

ANSWERING = """
    import os, sys, time
    from regard.data.workers import serve_orders
    from regard.errors import DataError

    def answer(order):
        if order.get("mistake"):
            raise DataError(order["mistake"])
        if order.get("crash"):
            raise ValueError("ours\\nand more")
        print("this is no answer")
        time.sleep(order.get("sleep", 0))
        return {"pid": os.getpid(), "number": order["number"], "threads": os.environ["OMP_NUM_THREADS"],
                "named": os.environ.get("NAMED")}

    serve_orders(answer)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "answering.py").write_text(textwrap.dedent(ANSWERING))
    monkeypatch.syspath_prepend(str(tmp_path))
    return "answering"


def gone(pid: int, seconds: float = 10) -> bool:
    """True if a process ends within some seconds; one that nobody has waited for counts as ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_answers_come_in_the_order_of_the_orders_from_several_processes(module):
    with WorkerPool(module, 2, each=[{"NAMED": "a"}, {"NAMED": "b"}]) as pool:
        # The first order takes longest: its answer still comes first.
        answers = list(pool.answers([{"number": n, "sleep": 0.3 if n == 0 else 0} for n in range(6)]))
    assert [each["number"] for each in answers] == list(range(6))
    assert len({each["pid"] for each in answers}) == 2 and os.getpid() not in {each["pid"] for each in answers}
    assert {each["threads"] for each in answers} == {"1"} and {each["named"] for each in answers} == {"a", "b"}
    assert all(gone(each["pid"]) for each in answers)


def test_a_mistake_keeps_its_kind_and_a_crash_is_one_line_with_the_name_of_the_worker(module, capfd):
    with pytest.raises(DataError, match=r"^no such text$"), WorkerPool(module, 1) as pool:
        list(pool.answers([{"mistake": "no such text"}]))
    with pytest.raises(WorkerError, match=r"^worker 1 of 1 failed: ValueError: ours$"), WorkerPool(module, 1) as pool:
        list(pool.answers([{"crash": True}]))
    assert "Traceback" in capfd.readouterr().err


def test_a_worker_that_is_killed_is_told_of_in_one_line(module):
    with pytest.raises(WorkerError, match=r"worker 1 of 1 was ended by signal 9, perhaps for want of memory"), \
            WorkerPool(module, 1) as pool:
        for answer in pool.answers([{"number": 0}, {"number": 1, "sleep": 60}]):
            os.kill(answer["pid"], signal.SIGKILL)


@pytest.mark.skipif(not os.path.exists("/proc"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_at_once_when_the_process_that_started_them_does(module, tmp_path, how):
    code = ("import sys; from regard.data.workers import WorkerPool\n"
            "with WorkerPool('answering', 2) as pool:\n"
            "    for each in pool.answers([{'number': 0}, {'number': 1}, {'number': 2, 'sleep': 99},"
            " {'number': 3, 'sleep': 99}]):\n"
            "        print(each['pid'], flush=True)\n")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env={**os.environ, "PYTHONPATH": paths}, text=True)
    try:
        pids = {int(parent.stdout.readline()) for _ in range(2)}
        parent.send_signal(how)
        assert parent.wait(10) != 0
        assert all(gone(pid) for pid in pids)
    finally:
        parent.kill()
        parent.stdout.close()


def test_one_worker_a_core_unless_told():
    assert worker_count() == cores() >= 1
    with use_workers(3):
        assert worker_count() == 3
        with use_workers(None):
            assert worker_count() == cores()
    assert worker_count() == cores()
    with pytest.raises(SettingError, match="--workers 0: must be at least 1"):
        check_workers(0)
