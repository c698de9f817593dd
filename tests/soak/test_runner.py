"""The runner finds what is planted, goes on where it stood, and writes its table."""

import argparse
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak import __main__ as runner
from tests.soak import page
from tests.soak.campaign import Campaign, Failure, digest_of, digest_tree, find_campaigns
from tests.soak.cases import run_forked
from tests.soak.state import REST, Done, Kept, merged


def planted(seed, folder):
    assert list(folder.iterdir()) == []
    (folder / "file").write_text("x")
    if seed == 2:
        return Failure("it is two")
    if seed == 3:
        raise ValueError("a bug")
    if seed == 4:
        os._exit(7)
    if seed == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == 6:
        time.sleep(600)
    return None


CAMPAIGN = Campaign("planted", "a case", "nothing fails", ci=9, soak=9, run=planted, patience=2.0,
                    file="tests/soak/test_runner.py")


def test_every_way_to_fail_is_seen_and_the_other_cases_go_on(tmp_path):
    outcome = run_forked(CAMPAIGN, range(9), tmp_path)
    assert sorted(outcome.done) == list(range(9)) and sorted(outcome.failures) == [2, 3, 4, 5, 6]
    for seed, why in {2: "it is two", 3: "traceback", 4: "ended with code 7", 5: "ended by signal 9",
                      6: "hung: no answer within 2 seconds"}.items():
        assert why in outcome.failures[seed].why
    assert "ValueError: a bug" in outcome.failures[3].why
    assert not list(tmp_path.glob("case-*/*")) or set(outcome.failures) & {4, 5, 6}


def test_many_at_once_are_told_one_by_one_and_a_death_among_them_is_seen(tmp_path):
    def many(seeds, folder):
        for seed in seeds:
            if seed == 3:
                os._exit(1)
            yield seed, Failure("odd") if seed % 2 else None

    outcome = run_forked(Campaign("many", "", "", 5, 5, planted, run_many=many), range(5), tmp_path)
    assert outcome.done == [0, 1, 2, -1] and "ended with code 1" in outcome.failures[-1].why


def test_a_campaign_that_cannot_be_prepared_fails(tmp_path):
    def broken(folder):
        raise OSError("no such thing")

    outcome = run_forked(Campaign("broken", "", "", 5, 5, planted, prepare=broken), range(5), tmp_path)
    assert outcome.done == [-1] and "no such thing" in outcome.failures[-1].why


def test_ranges_of_seeds_join_and_the_next_one_is_found():
    done = Done()
    for seed in (5, 0, 1, 9, 2, 6, 1):
        done.note(seed, None)
    assert done.ranges == [[0, 3], [5, 7], [9, 10]] == merged([[9, 10], [5, 7], [0, 2], [1, 3]])
    assert done.cases == 6 and [done.next_from(seed) for seed in (0, 3, 5, 9, 20)] == [3, 3, 7, 10, 20]
    done.note(1, Failure("x"))
    assert done.cases == 6 and list(done.failures) == ["1"] and not done.rests()
    done.note(1, None)                                       # run again, mended
    assert not done.failures
    for seed in range(REST):
        done.note(seed, Failure("x"))
    assert done.rests()


def test_what_was_done_is_kept_by_the_code_it_was_done_with(tmp_path, monkeypatch):
    other = replace(CAMPAIGN, name="other")
    kept, done = Kept(tmp_path, "cpu", [CAMPAIGN, other]), Done(ranges=[[0, 4]], failures={"2": {"why": "é"}})
    done.spend(7200.0, "a machine")
    kept.write(CAMPAIGN, done)
    assert kept.read(CAMPAIGN) == done and kept.read(other) == Done()
    kept.write(other, Done(ranges=[[5, 6]]))
    assert kept.read(CAMPAIGN) == done
    assert [path.name for path in tmp_path.iterdir()] == ["soak-cpu.json"]
    assert Kept(tmp_path, "cuda", [CAMPAIGN]).read(CAMPAIGN) == Done()               # another kind of machine
    codes = {"planted": "other code", "other": digest_of(other)}
    monkeypatch.setattr("tests.soak.state.digest_of", lambda campaign: codes[campaign.name])
    assert kept.read(CAMPAIGN) == Done() and kept.read(other).ranges == [[5, 6]]
    kept.write(other, Done(ranges=[[5, 7]]))                                         # what older code did is dropped
    assert list(json.loads(kept.path.read_text("utf-8"))) == ["other"]
    Kept(tmp_path, "cpu", [CAMPAIGN]).write(CAMPAIGN, done)                          # so is a campaign that went
    assert list(json.loads(kept.path.read_text("utf-8"))) == ["planted"]


def test_two_machines_add_up_their_hours_in_one_small_file(tmp_path):
    kept = Kept(tmp_path, "cpu", [CAMPAIGN])
    for first, machine in ((0, "one"), (10_000, "two"), (20_000, "one")):
        done = kept.read(CAMPAIGN)
        for seed in range(first, first + 10_000):
            done.note(seed, None)
        done.spend(3600.0, machine)
        kept.write(CAMPAIGN, done)
    found = kept.read(CAMPAIGN)
    assert (found.cases, found.seconds, found.machines) == (30_000, 10_800.0, {"one": 7200.0, "two": 3600.0})
    assert kept.path.stat().st_size < 400
    assert "3.00 hours in all, until 20" in page.about([(CAMPAIGN, found)], "cpu")
    assert "2.00 h on one; 1.00 h on two" in page.about([(CAMPAIGN, found)], "cpu")


def test_the_code_has_the_same_hash_in_any_checkout_and_another_once_it_is_changed(tmp_path):
    def write(root, content, name="a.py"):
        path = tmp_path / root / "part" / "sub" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return digest_tree("part", tmp_path / root)

    before = write("here", b"x = 1\ny = 2\n")
    for name in ("built.so", "a.pyc", "__pycache__/a.txt", ".cache/b.py", ".hidden", "x.egg-info/b.txt"):
        (tmp_path / "here" / "part" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "here" / "part" / name).write_bytes(b"built")
    assert digest_tree.__wrapped__("part", tmp_path / "here") == before
    assert write("there", b"x = 1\r\ny = 2\r\n") == before                          # a checkout on Windows
    assert len({before, write("changed", b"x = 1\ny = 3\n"), write("named", b"x = 1\ny = 2\n", "b.py")}) == 3


def test_no_hash_of_a_campaign_follows_what_the_command_writes():
    """The table, the file of what was done, and files that were found."""
    written = [page.PAGE, Path(runner.ROOT) / "bench" / "results", Path(runner.ROOT) / ".soak-state"]
    for each in find_campaigns().values():
        for name in ("regard", each.file, *each.also):
            assert (runner.ROOT / name).exists(), f"{each.name}: {name}"
            assert not any(path.is_relative_to(runner.ROOT / name) for path in written)


def test_the_table_replaces_the_one_before_and_nothing_else(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("# Before\n\ntext\n")
    done = Done(ranges=[[0, 2], [4, 5]], failures={"4": {"why": "a | b\nc", "again": ""}}, seconds=5400.0)
    page.write_page([(CAMPAIGN, Done())], "cpu", path)
    path.write_text(path.read_text() + "\nafter\n")
    for _ in range(2):
        page.write_page([(CAMPAIGN, done)], "cpu", path)
    text = path.read_text()
    assert text.startswith("# Before\n\ntext\n") and text.endswith("\nafter\n") and text.count("planted |") == 1
    assert "| planted | a case | nothing fails | 9 | 3 | 1 | 1.50 | 0–1, 4–4 |" in text
    assert "- planted, seed 4: a / b c `make soak ONLY=planted SEED=4 COUNT=1`" in text
    assert "3 cases, 1 failures, 1.50 hours in all, until " in text


@pytest.fixture
def soak(tmp_path, monkeypatch):
    """Run the real runner in folders of its own; the worker is a fork instead of a new process."""
    def follow(self, campaign, first, count, seconds, folder, saw):
        for seed, failure in sorted(run_forked(
                campaign, range(first, min(first + count, campaign.soak)), folder).failures.items()):
            saw(seed, failure)
        for seed in range(first, min(first + count, campaign.soak)):
            if str(seed) not in self.kept.read(campaign).failures:
                saw(seed, None)

    def run(**changes):
        options = argparse.Namespace(**{"minutes": 0.0, "seed": 0, "count": None, "workers": 1, "turn": 1.0,
                                        "device": "cpu"} | changes)
        kept = Kept(tmp_path / "state", "cpu", [CAMPAIGN])
        runner.Soak([CAMPAIGN], kept, options).run()
        return kept.read(CAMPAIGN)

    monkeypatch.setattr(runner.Soak, "start_and_follow", follow)
    return run


def test_one_case_is_run_again_and_then_the_rest(soak, capsys):
    done = soak(seed=2, count=1)
    assert (done.ranges, list(done.failures)) == ([[2, 3]], ["2"])
    assert "planted, seed 2: it is two\n    make soak ONLY=planted SEED=2 COUNT=1" in capsys.readouterr().out


def test_a_second_soak_goes_on_where_the_first_one_stood(soak):
    done = soak(count=2)
    again = soak(seed=2, count=1)
    assert again.ranges == [[0, 3]] and again.seconds >= done.seconds > 0 and list(again.machines) == [
        page.machine_of("cpu")]


def test_names_are_told_apart_and_an_unknown_one_is_said(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["soak", "--only", "nothing"])
    assert runner.main() == 2 and "no campaign is called nothing: there are " in capsys.readouterr().err
    assert all(Path(each.file).parts[-2] == "campaigns" for each in find_campaigns().values())
