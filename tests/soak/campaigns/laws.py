"""The laws over every family and task, at sizes and settings that are drawn; compiled steps; and training on ranks."""

from random import Random

from tests.soak.campaign import Campaign, Failure

NAMES = []
ALSO = ("tests/laws/drawn_models.py", "tests/laws/drawn_settings.py")


def prepare(folder):
    import torch

    from tests.laws.drawn_models import FAMILIES_BY_TASK

    torch.set_num_threads(1)
    NAMES[:] = FAMILIES_BY_TASK


def run(seed, folder):
    """The families in turns: seed s is case s // 33 of family s % 33."""
    from regard.laws import LawBroken
    from tests.laws.drawn_models import draw_case, hold

    case = draw_case(NAMES[seed % len(NAMES)], Random(f"laws {seed}").choice)
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


CAMPAIGNS = (
    Campaign("laws", "a law on a model of one of 33 families, of settings, sizes and rows that are drawn", ci=990,
             soak=165_000, run=run, prepare=prepare, short="tests/laws/test_drawn_sizes.py", also=ALSO,
             holds="the law, as the design states it"),
    Campaign("laws-compiled", "a model's step is compiled, and it reads some tokens", ci=16, soak=2_000,
             run=run_compiled, prepare=prepare_compiling, short="tests/models/test_compiled_families.py",
             also=(*ALSO, "tests/laws/drawn_steps.py"), holds="one graph, the eager step's numbers to 1e-12"),
)
