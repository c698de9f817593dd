"""The laws over every family and task, at sizes and settings that are drawn; compiled steps; and training on ranks."""

from itertools import count, islice
from random import Random

from tests.soak.campaign import Campaign, Failure

NAMES = []
AT_ONCE = 8                              # trainings in one start of the ranks
ALSO = ("tests/laws/drawn_models.py", "tests/laws/drawn_settings.py")


def prepare(folder):
    import torch

    from tests.laws.drawn_models import FAMILIES_BY_TASK

    torch.set_num_threads(1)
    NAMES[:] = FAMILIES_BY_TASK


def run(seed, folder):
    """The families in turns: seed s is case s // 33 of family s % 33."""
    return hold_one(NAMES[seed % len(NAMES)], Random(f"laws {seed}").choice)


def hold_one(name, choose):
    """What is wrong of a law on a model that is drawn, or nothing."""
    from regard.laws import LawBroken
    from tests.laws.drawn_models import draw_case, hold

    case = draw_case(name, choose)
    try:
        hold(case)
    except LawBroken as broken:
        return Failure(f"{broken}: {case.told}")
    except Exception as error:
        raise RuntimeError(case.told) from error
    return None


def prepare_compiling(folder):
    from regard.families import FAMILIES

    prepare(folder)
    NAMES[:] = [f"lm-{name}" for name, family in FAMILIES.items() if family.build] + [
        each for each in NAMES if each.startswith(("translate-", "caption-"))]


def run_compiled(seed, folder):
    from tests.laws.drawn_models import FAMILIES_BY_TASK, READERS
    from tests.laws.drawn_steps import difference_compiled

    name = NAMES[seed % len(NAMES)]
    reader, told = READERS[name.partition("-")[0]](FAMILIES_BY_TASK[name], Random(f"compiled {seed}").choice)
    wrong = difference_compiled(reader)
    return Failure(f"{wrong}: {name}, {told}") if wrong else None


def run_on_ranks(seeds, folder):
    """Some trainings in one start of the ranks."""
    from tests.laws.drawn_ranks import wrong_together

    seeds = iter(seeds)
    for block in count():
        if not (some := list(islice(seeds, AT_ONCE))):
            return
        own = folder / str(block)
        own.mkdir()
        for seed, wrong in wrong_together(some, own).items():
            yield seed, Failure(wrong) if wrong else None


def run_one_on_ranks(seed, folder):
    return next(run_on_ranks([seed], folder))[1]


CAMPAIGNS = (
    Campaign("laws", "a law on a model of one of 33 families, of settings, sizes and rows that are drawn", ci=990,
             soak=165_000, run=run, prepare=prepare, short="tests/laws/test_drawn_sizes.py", also=ALSO,
             holds="the law, as the design states it"),
    Campaign("laws-compiled", "a model's step is compiled, and it reads some tokens", ci=16, soak=2_000,
             run=run_compiled, prepare=prepare_compiling, short="tests/models/test_compiled_families.py",
             also=(*ALSO, "tests/laws/drawn_steps.py"), holds="one graph, the eager step's numbers to 1e-12"),
    Campaign("laws-ranks", "a drawn model of one of 29 families trains on two ranks, and in one process", ci=0,
             soak=290, run=run_one_on_ranks, run_many=run_on_ranks, prepare=prepare, patience=600.0,
             short="tests/training/test_ranks.py", also=(*ALSO, "tests/laws/drawn_ranks.py", "tests/training"),
             holds="the same weights to 1e-10 in float64"),
)
