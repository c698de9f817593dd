"""Trainings of models that were drawn, on two ranks and in one process: both end with the same weights."""

import dataclasses
import json
from random import Random

from regard.families.label_families import LabelVocabularies
from regard.families.translate import Vocabularies
from tests.fixtures.runs import FILES, HERE
from tests.laws.drawn_models import FAMILIES_BY_TASK, build
from tests.training.ranks import run_ranks
from tests.training.test_ranks import EXACT, difference

LABELS = LabelVocabularies(11, 3)
NAMES = [name for name, family in FAMILIES_BY_TASK.items() if family.build and name != "classify-masked"
         and name != "tag-masked"]


def draw_training(seed):
    """A case of `rank_worker` that follows from the seed."""
    chance = Random(f"ranks {seed}")
    name = NAMES[seed % len(NAMES)]
    task, _, family = name.partition("-")
    vocab = {"translate": Vocabularies(11, 11), "classify": LABELS, "tag": LABELS}.get(task, 11)
    _, drawn = build(FAMILIES_BY_TASK[name], vocab, chance.choice)          # what a layer refuses is drawn anew
    model = dataclasses.asdict(drawn)
    model["context"] = max(16, model["context"])
    training = dict(steps=chance.choice((2, 4)), batch=chance.choice((5, 8, 16)), valid_every=2, samples=False,
                    ema=chance.choice((0.0, 0.5)), clip=chance.choice((0.1, 1.0)), compile="no",
                    optimizer=chance.choice(("adamw", "muon")), micro_batch=chance.choice((0, 3)))
    return {"name": str(seed), "task": task, "family": family, "dtype": "float64",
            "files": [str(HERE / "data" / each) for each in FILES[task]],
            "settings": {"model": model, "training": training, "tokenizer": {"kind": "word"},
                         "data": {"size": model["image"]} if task == "caption" else {}}}


def wrong_together(seeds, folder):
    """For each seed what differs between two ranks and one process, or nothing."""
    cases = [draw_training(seed) for seed in seeds]
    (folder / "cases.json").write_text(json.dumps(cases))
    ended = run_ranks(2, ["-m", "tests.training.rank_worker", folder], deadline=300)
    if any(code for code, _, _ in ended):
        said = max((err for _, _, err in ended), key=lambda err: "EndedTogether" not in err)
        return dict.fromkeys(seeds, f"a rank ended: {' | '.join(said.strip().splitlines()[-4:])}")
    errors, found = json.loads((folder / "errors.json").read_text()), {}
    for case in cases:
        name = case["name"]
        found[int(name)] = errors[name]
        if not errors[name] and (far := difference(folder / "together" / name, folder / "alone" / name)) >= EXACT:
            found[int(name)] = f"weights differ by {far:.1e}: {case['family']}, {case['settings']}"
    return found
