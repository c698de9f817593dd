"""Numbers that are not finite get into no checkpoint, whoever holds them."""

from types import SimpleNamespace

import pytest
import torch

from regard.errors import TrainingStopped
from regard.training.checkpoint import find_spoilt
from regard.training.sharded_checkpoint import ShardedCheckpoints
from regard.training.step import TrainingPosition

NAN, GOOD = torch.tensor([1.0, float("nan")]), torch.ones(2)


@pytest.mark.parametrize("weights, tensors, said", [
    ({"a": GOOD}, {"optimizer/a/exp_avg": GOOD, "average/a": GOOD}, ""),
    ({"a": NAN}, {}, "a holds what is no finite number"),
    ({"a": GOOD * 1e9}, {}, "a holds what is beyond 1e+08"),
    ({"a": GOOD}, {"optimizer/a/exp_avg": NAN}, "optimizer/a/exp_avg holds what is no finite number"),
    ({"a": GOOD}, {"average/a": GOOD / 0}, "average/a holds what is no finite number"),
    ({"a": GOOD}, {"optimizer/a/exp_avg": GOOD * 1e30}, ""),
    ({"a": GOOD}, {"carried/0": GOOD / 0, "random/cpu": torch.zeros(4, dtype=torch.uint8)}, ""),
    ({"a": GOOD[:0], "b": torch.tensor(3)}, {}, ""),
])
def test_what_is_spoilt_is_named(weights, tensors, said):
    assert find_spoilt(weights, tensors) == said


@pytest.mark.parametrize("other", ["", "weights of another rank are spoilt"])
@pytest.mark.parametrize("mine", [GOOD, NAN])
def test_of_several_ranks_all_stop_before_anything_is_written(mine, other, tmp_path):
    begun = []
    group = SimpleNamespace(everyone=lambda said: [said, other])
    shards = SimpleNamespace(group=group, replicated=(), own={})
    ranks = SimpleNamespace(require_equal=lambda tensors: None, first=True, decide=begun.append)
    checkpoints = ShardedCheckpoints.__new__(ShardedCheckpoints)
    checkpoints.step = SimpleNamespace(ranks=ranks, shards=shards)
    checkpoints.folder = SimpleNamespace(begin_checkpoint=lambda step: tmp_path)
    checkpoints.tables = lambda: ({"random/cpu": GOOD}, {"weights/a": mine})
    with pytest.raises(TrainingStopped if other or mine is NAN else TypeError):
        checkpoints.save(TrainingPosition(step=3))           # the group that is played here goes no further
    assert bool(begun) == (not other and mine is GOOD)
