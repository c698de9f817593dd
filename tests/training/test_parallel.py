"""The parts of training on several ranks that need no second process."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from regard.data.batching.text_batches import Batch
from regard.errors import SettingError, TrainingStopped
from regard.layers.roles import find_roles
from regard.metrics.perplexity import held_out_loss
from regard.ranks import ALONE, Ranks
from regard.tasks.translate.task import WritingMeasure, written
from regard.tasks.translate.trained import shard_of
from regard.training import buckets
from regard.training.exchange import FIGURES, Exchange, Stopwatch, deal_matrices
from regard.training.meeting import count_ranks
from regard.training.muon import Muon, orthogonal
from regard.training.parallel import RankGroup, RankLost, RankShare, seed_noise
from regard.training.parallel_choice import choose_way
from regard.training.rank_watch import RankWatch, report_to_torchrun
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingStep
from regard.training.traffic import matrix_stacks, ring, say_bytes
from tests.toy_pairs import CONTEXT, pairs, translator


class Played(RankShare):
    """Ranks played one after another by this process; the first comes last, and puts all together."""

    def __init__(self, number, count, heard):
        super().__init__(number, count)
        self.heard = heard

    def collect(self, mine):
        self.heard.setdefault("collect", {})[self.number] = list(mine)
        parts = self.heard["collect"]
        total = sum(map(len, parts.values()))
        return [parts[n % self.count][n // self.count] for n in range(total)] if self.number == 0 else [""] * 10**6

    def total(self, values):
        self.heard.setdefault("total", []).append(values)
        return [sum(column) for column in zip(*self.heard["total"], strict=True)]


def play(count, work):
    """Return what rank 0 finds, once the others have done their parts."""
    heard = {}
    for number in reversed(range(count)):
        ranks = Played(number, count, heard)
        try:
            found = work(ranks)
        except ValueError:                                     # a rank but the first has not all texts
            assert number
    return found


def judged(number=11):
    trained = translator("rnn-attention")
    every = pairs(number)
    source = shard_of(trained.tokenizer.source, [source for source, _ in every])
    held_out = [SimpleNamespace(source=source, target=target) for source, target in every]
    corpus = SimpleNamespace(source_valid=source, tokenizer=trained.tokenizer, langs="fr-en",
                             held_out=lambda number: held_out[:number])
    return trained, corpus


@pytest.mark.parametrize("count", [2, 4])
def test_each_text_is_written_once_by_one_rank_and_they_are_those_of_one_process(count):
    trained, corpus = judged()
    alone = written(trained.model, corpus, 11, CONTEXT)
    assert len(set(alone)) > 3
    assert play(count, lambda ranks: written(trained.model, corpus, 11, CONTEXT, ranks)) == alone


def test_more_ranks_than_texts_write_them_too():
    trained, corpus = judged(2)
    alone = written(trained.model, corpus, 2, CONTEXT)
    assert play(4, lambda ranks: written(trained.model, corpus, 2, CONTEXT, ranks)) == alone
    judge = WritingMeasure("length", "length", lambda texts, references, lang: sum(map(len, texts)),
                           lambda texts, references, lang: None).judge
    assert judge(trained.model, corpus, CONTEXT) == {"valid_length": sum(map(len, alone))}


@pytest.mark.parametrize("count", [2, 3])
def test_the_held_out_loss_is_the_sum_over_all_ranks(count):
    trained, _ = judged()
    batches = [trained.hold_out(*map(list, zip(*pairs(4, seed), strict=True))) for seed in range(4)]
    every = [batch for each in batches for batch in each]
    alone = held_out_loss(trained.model, every)
    shared = play(count, lambda ranks: held_out_loss(trained.model, every, ranks=ranks))
    assert shared == pytest.approx(alone, abs=1e-12)
    assert held_out_loss(trained.model, every[::count]) != pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("rows, count", [(7, 2), (4, 4), (1, 3)])
def test_rows_are_dealt_like_cards_and_a_rank_without_one_counts_nothing(rows, count):
    tokens = torch.arange(rows * 3).view(rows, 3)
    batch = Batch(tokens, tokens, torch.tensor([3] * rows))
    parts = [RankShare(number, count).part(batch) for number in range(count)]
    counted = [part for part, share in parts if share]
    assert sorted(row for part in counted for row in part.tokens[:, 0].tolist()) == tokens[:, 0].tolist()
    assert {share for _, share in parts} <= {0.0, 1 / (3 * rows)} and len(counted) == min(rows, count)
    assert all(len(part.tokens) for part, _ in parts)
    assert ALONE.part(batch) == (batch, 1 / (3 * rows))


def test_matrices_are_dealt_by_cost():
    shapes = ((6, 64, 64), (2, 256, 64), (3, 8, 8))
    owners = deal_matrices(shapes, 4)
    load = [sum(rows * columns * min(rows, columns) for (_, rows, columns), owner in zip(shapes, owners, strict=True)
                for each in owner if each == rank) for rank in range(4)]
    assert [len(owner) for owner in owners] == [6, 2, 3]
    assert max(load) <= 256 * 64 * 64 and min(load) > 0 and deal_matrices(shapes, 1) == [[0] * 6, [0] * 2, [0] * 3]


@pytest.mark.parametrize("parts, rows", [(3, 12), ((6, 6, 2, 5), 19)], ids=str)
def test_muon_shares_out_each_matrix_and_changes_no_number(parts, rows, monkeypatch):
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(rows, 8, dtype=torch.float64)) for _ in range(5)]
    gradients = [torch.randn_like(weight) for weight in weights]

    def updated(ranks):
        own = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
        for weight, gradient in zip(own, gradients, strict=True):
            weight.grad = gradient.clone()
        Muon(dict.fromkeys(own, parts), lr=0.1, ranks=ranks).step()
        return [weight.detach() for weight in own]

    sent, worked = {}, []

    def gather(self, mine):
        sent[self.number] = mine
        return torch.stack([sent.get(rank, torch.zeros_like(mine)) for rank in range(3)])

    def counted(stack):
        worked.append(len(stack))
        return orthogonal(stack)

    monkeypatch.setattr(RankGroup, "gather", gather)
    monkeypatch.setattr("regard.training.muon.orthogonal", counted)
    alone, matrices = updated(ALONE), sum(worked)
    worked.clear()
    for number in (2, 1, 0):
        found = updated(made_group(number, 3))
    assert sum(worked) == matrices and len(sent) == 3
    for ours, theirs in zip(found, alone, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def made_group(number, count):
    group = RankGroup.__new__(RankGroup)
    RankShare.__init__(group, number, count)
    return group


def test_what_travels_is_put_back_where_it_was_and_out_of_reach_stays_without_a_gradient():
    weights = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((3, 5), (7,), (2, 2))]
    exchange = Exchange(weights, 2, weights[0])
    weights[0].grad, weights[2].grad = torch.full((3, 5), 2.0), torch.full((2, 2), 3.0)
    exchange.fill(1, torch.tensor(0.5), [1.0, 0.25, 12.0])
    assert exchange.table.tolist() == [[0.0] * 5, [0.5, 0.0, 1.0, 0.25, 12.0]] and len(FIGURES) == 5
    exchange.flat *= 2                                         # another rank found the same
    assert float(exchange.put_back()) == 1.0
    assert weights[0].grad.tolist() == [[4.0] * 5] * 3 and weights[1].grad is None
    assert weights[2].grad.tolist() == [[6.0] * 2] * 2
    weights[0].grad = torch.full((3, 5), float("nan"))
    exchange.fill(0, torch.tensor(0.5), [0.0, 0.0, 0.0])
    assert exchange.table[0].tolist() == [0.5, 1.0, 0.0, 0.0, 0.0]


def test_a_bucket_leaves_during_the_backward_pass_of_the_last_micro_batch(monkeypatch):
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 1)
    weights = [torch.nn.Parameter(torch.full((2, 2), 1.0 + number)) for number in range(4)]
    sent, waited = [], []

    def begin_sum(part):
        sent.append((part.clone(), None if weights[0].grad is None else weights[0].grad.clone()))
        part.fill_(float("nan"))                               # what others add is none of this rank's fault
        return lambda: waited.append(len(sent))

    group = SimpleNamespace(count=2, begin_sum=begin_sum)
    exchange = buckets.BucketedExchange(weights, group)

    def passed(x):                                             # the last weight is out of reach at first
        (x @ weights[0] @ weights[1] @ weights[2]).sum().backward()

    exchange.begin(2)
    passed(torch.ones(1, 2))
    assert not sent
    (torch.ones(1, 2) @ weights[3]).sum().backward()
    early = weights[0].grad.clone()
    passed(torch.ones(1, 2))
    (torch.ones(1, 2) @ weights[3]).sum().backward()           # only now can the last weight leave, and with it others
    assert len(sent) == 3 and torch.equal(weights[0].grad, 2 * early)
    for weight in weights:
        weight.grad = None
    sent.clear()
    exchange.begin(1)
    (torch.ones(1, 2) @ weights[0] @ weights[1] @ weights[2] @ weights[3]).sum().backward()
    assert [before for _, before in sent] == [None] * 3        # left before the first weight had its gradient
    exchange.fill(1, torch.tensor(0.5), [1.0, 0.25, 12.0])
    assert exchange.table.tolist() == [[0.0] * 5, [0.5, 0.0, 1.0, 0.25, 12.0]]
    exchange.add_up(group)
    assert waited == [4] * 4
    assert [part[:4].tolist() for part, _ in sent[:3]] == [weight.grad.flatten().tolist() for weight in weights[:0:-1]]
    assert sent[3][0][-64:-60].tolist() == weights[0].grad.flatten().tolist()
    assert sum(len(part) for part, _ in sent) == len(exchange.flat)
    with pytest.raises(AssertionError, match="after its bucket had left"):
        (torch.ones(1, 2) @ weights[3]).sum().backward()


@pytest.mark.parametrize("asked, compile, machines, way", [
    ("auto", "auto", 2, "buckets"), ("auto", "no", 2, "buckets"), ("auto", "yes", 2, "data"),
    ("auto", "auto", 1, "data"), ("data", "no", 2, "data"), ("buckets", "yes", 1, "buckets"),
    ("fsdp", "no", 2, "fsdp")])
def test_gradients_travel_in_buckets_between_machines_where_passes_are_eager(asked, compile, machines, way):
    said = []
    plan = SimpleNamespace(request=SimpleNamespace(parallel=asked), device=torch.device("cpu"),
                           training=TrainingSettings(steps=1, compile=compile))
    ranks = SimpleNamespace(count=2, machines=machines)
    assert choose_way(plan, None, ranks, said.append) == way
    assert bool(said) == (asked == "auto" and way == "buckets")
    assert choose_way(plan, None, SimpleNamespace(count=1, machines=1), said.append) == "data"


def test_the_noise_of_a_step_is_that_of_torch_s_own_seed():
    torch.manual_seed(2**62 + 5)
    expected = torch.rand(4)
    seed_noise(2**62 + 5)
    assert torch.equal(torch.rand(4), expected)


def test_streams_need_a_row_for_each_rank():
    with pytest.raises(SettingError, match="--batch 3: each of 4 ranks reads a row of every batch"):
        TrainingStep(SimpleNamespace(context=None), SimpleNamespace(batch_size=3), TrainingSettings(reading="streams"),
                     None, print, ranks=RankShare(0, 4))


def test_a_straggler_is_the_rank_that_takes_longest():
    watch = Stopwatch(3)
    for _ in range(10):
        watch.note([1.0, 1.1, 3.0], [100, 100, 100])
    assert watch.speeds() == [100, 91, 33]
    rank, times, more = watch.straggler()
    assert rank == 2 and times == pytest.approx(3.0 / 1.1) and more == pytest.approx(19.0)
    assert watch.straggler() == (0, 1.0, 0.0)                  # counted anew


def test_what_each_rank_says_of_a_step_is_understood():
    group = made_group(0, 2)
    group.names, group.stopwatch, group.stopping = ["rank 0 on a", "rank 1 on b"], Stopwatch(2), False
    assert group.read_figures([0.5, 0, 0, 1, 9, 0.5, 0, 0, 1, 9]) == "" and not group.stopping
    assert group.read_figures([0.5, 0, 0, 1, 9, 0.5, 1, 1, 1, 9]) == " on rank 1 on b" and group.stopping
    assert group.read_figures([float("nan"), 0, 0, 1, 9, 0.5, 1, 0, 1, 9]) == " on rank 0 on a and rank 1 on b"


def test_who_is_gone_and_who_hangs_is_told_by_beats(monkeypatch):
    watch = RankWatch.__new__(RankWatch)
    watch.number, watch.names, watch.entered, watch.patience = 0, ["rank 0", "rank 1", "rank 2"], 7, 45.0
    now = 1000.0
    monkeypatch.setattr("regard.training.rank_watch.time", SimpleNamespace(monotonic=lambda: now))
    watch.seen = {1: (b"[3, 7, false, 0]", 999.0), 2: (b"[3, 6, false, 0]", 970.0)}
    watch.accused, watch.progress = set(), {1: (0, 900.0), 2: (0, 900.0)}
    assert watch.gone(20.0) == "rank 2 is gone, killed or cut off" and watch.gone(60.0) == ""
    assert watch.hanging(since=960.0) == "" and watch.hanging(since=950.0) == "rank 2 did not come on for 45 seconds"
    assert watch.accused == {2}
    watch.progress[2] = 1, 990.0
    assert watch.hanging(since=950.0) == ""                    # it wrote a piece of a checkpoint a moment ago
    watch.progress[2], watch.seen[2] = (1, 900.0), (b"[3, 6, true, 1]", 970.0)
    assert watch.hanging(since=950.0) == ""                    # it is busy with what is its alone


class NoStore:
    """A store in which nobody has said anything."""

    def check(self, names):
        return False

    def multi_get(self, names):
        return []


def test_where_nobody_is_lost_the_reason_of_torch_is_told(monkeypatch):
    watch = RankWatch.__new__(RankWatch)
    watch.number, watch.names, watch.asked, watch.seen, watch.progress = 1, ["rank 0", "rank 1"], NoStore(), {}, {}
    monkeypatch.setattr("regard.training.rank_watch.MISSED", 0.01)
    monkeypatch.setattr("regard.training.rank_watch.BEAT", 0.001)
    group = made_group(1, 2)
    group.watch, group.training, group.stopwatch = SimpleNamespace(waiting=lambda patience: nullcontext()), True, None
    group.met = 0.0
    for reason in ("NCCL error in: NCCLUtils.cpp:1, unhandled system error\nmore of it", ""):
        def broken(reason=reason):
            raise RuntimeError(reason)
        with pytest.raises(RankLost) as lost:
            group.meet(broken, quick=False)
        line = reason.splitlines()[0] if reason else "RuntimeError"
        assert watch.explain(str(lost.value)) == f"rank 1 could not send or get a message ({line})"


def test_torchrun_is_told_the_reason_in_its_own_form(tmp_path, monkeypatch):
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    report_to_torchrun("rank 1 is gone\nwholly")
    found = ProcessFailure(0, 7, 1, str(path))
    assert found.message["extraInfo"]["py_callstack"] == "regard: rank 1 is gone wholly" and found.timestamp > 10**9


def test_weights_are_compared_whatever_their_shapes():
    group = made_group(0, 2)
    group.names = ["rank 0 on a", "rank 1 on b"]
    weights = [torch.ones(()), torch.ones(2, 3).mT, torch.ones(0, 4)]
    group.everyone = lambda value: [value, value]
    group.require_equal(weights)
    group.everyone = lambda value: [value, "another"]
    with pytest.raises(TrainingStopped, match="the weights of rank 1 on b are no longer those of rank 0 on a"):
        group.require_equal(weights)


@pytest.mark.parametrize("rank, told", [("0", True), ("1", False)])
def test_wrong_usage_is_told_by_one_rank(monkeypatch, capsys, rank, told):
    from regard.cli import main

    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("RANK", rank)
    with pytest.raises(SystemExit) as end:
        main(["train", "lm", "text.txt", "--famly", "gru"])
    assert end.value.code == 2 and ("No such option" in capsys.readouterr().err) == told


def test_a_number_of_ranks_that_is_none_is_one_line(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(SettingError, match="WORLD_SIZE='many' is no number of ranks"):
        count_ranks()


def test_one_process_keeps_what_it_is_given():
    assert isinstance(ALONE, Ranks) and ALONE.first and ALONE.count == 1 and ALONE.speeds() == {}
    assert list(ALONE.deal("abc")) == ["a", "b", "c"] and ALONE.collect(["a"]) == ["a"]
    assert ALONE.decide({"a": 1}) == {"a": 1} and ALONE.total([1.0]) == [1.0] and ALONE.trial() is ALONE
    assert list(ALONE.share_out(len, ["ab", "c"])) == [2, 1]


def test_bytes_are_those_of_a_ring_and_stacks_those_of_muon():
    assert ring(2, 1000, 4) == 1500 and ring(1, 1000, 4) == 750 and ring(2, 1000, 1) == 0
    assert [say_bytes(size) for size in (12, 1234, 4.2e6, 8.7e8, 3e9)] == ["12 bytes", "1.23 kB", "4.2 MB", "870 MB",
                                                                          "3 GB"]
    model, seen = translator("transformer").model, []
    roles = find_roles(model)
    matrices = {weight: roles[name].parts for name, weight in model.named_parameters() if roles[name].kind == "matrix"}
    for weight in matrices:
        weight.grad = torch.ones_like(weight)

    class Seen(Ranks):
        def share_out(self, work, stacks):
            for stack in stacks:
                seen.append(tuple(stack.shape))
                yield work(stack)

    Muon(matrices, lr=0.1, ranks=Seen()).step()
    assert tuple(seen) == matrix_stacks(model)


@pytest.mark.parametrize("device, local, gpus, nccl, problem", [
    ("cuda", "0", 2, True, ""), ("cuda", "2", 2, True, "it is number 3 on its machine, which has 2 GPUs"),
    ("cuda", "0", 2, False, "this torch has no NCCL"), ("cuda:1", "0", 2, True, "give --device cuda"),
    ("cpu", "7", 0, False, ""), ("gpu", "0", 0, True, "--device gpu cannot be used here")])
def test_a_rank_says_what_keeps_it_from_training(monkeypatch, device, local, gpus, nccl, problem):
    from regard.training import joining

    taken, pick = [], joining.pick_device
    monkeypatch.setenv("LOCAL_RANK", local)
    monkeypatch.setattr("torch.distributed.is_nccl_available", lambda: nccl)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(joining, "pick_device", lambda name: torch.device(name) if "cuda" in name else pick(name))
    found = joining.introduce(device)
    assert problem in found["problem"] and bool(problem) == bool(found["problem"])
    assert taken == ([int(local)] if device == "cuda" and not problem else [])
