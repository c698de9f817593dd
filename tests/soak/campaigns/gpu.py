"""On a GPU: kills, numbers that are none, laws, and steps that are compiled or recorded."""

from functools import partial
from random import Random

from tests.soak.campaign import LIVES, Campaign, Failure

KNOWN = None
ALL, NAMES = [], []
BLOCK = 10                               # cases of each variant in turn
VALUES = ("nan", "memory of the device", "inf", "memory of torch", "-inf", "memory")
EAGER = ("loss", "update")               # sites in Python that a recorded step does not come by again


def warm():
    from tests.soak import on_gpu

    on_gpu.begin()
    on_gpu.warm()


def prepare(folder):
    global KNOWN
    from tests.soak import on_gpu

    KNOWN = on_gpu.Known(folder)
    ALL[:] = on_gpu.variants()


# ------------------------------------------------------------------------------------------------ kills


def kill(seed, folder):
    from tests.soak.lives import difference, live, outcome

    chance, variant, out = Random(f"gpu kills {seed}"), ALL[seed // BLOCK % len(ALL)], folder / "run"
    known = KNOWN(variant)
    if known is None:
        return None
    points, expected = known
    wanted = [1 + int(chance.random() * points), 1 + int(chance.random() * points / 2)]
    said = f"{variant.name}, killed at points {wanted} of up to {points}"
    for point in (*wanted, None):
        ended = live(variant, out, point)
        if ended.how != ("killed" if point else "done"):
            break
    if ended.how != "done":
        return Failure(f"{said}: it does not go on: {ended}")
    differs = difference(outcome(out), expected)
    return Failure(f"{said}: other bits in {differs}") if differs else None


# ------------------------------------------------------------------------------------------- not finite


def prepare_sites(folder):
    global KNOWN
    from tests.soak import on_gpu

    KNOWN = on_gpu.Known(folder)
    ALL[:] = on_gpu.variants(("capture",))
    NAMES[:] = on_gpu.variants(("no",))


def inject(seed, folder):
    """Every site with every value, of every variant in turn."""
    from tests.soak.campaigns.non_finite import SITES, check
    from tests.soak.injected import life_with
    from tests.soak.lives import run_apart

    site, value = SITES[seed % len(SITES)], VALUES[seed // len(SITES) % len(VALUES)]
    every = NAMES if site in EAGER or (site == "gradient" and "memory" in value) else ALL
    variant, step = every[seed // BLOCK % len(every)], 1 + seed % 6
    known = KNOWN(variant)
    if known is None:
        return None
    said = f"{variant.name}, {value} in {site} at step {step}"
    ended = run_apart(partial(life_with, variant, folder / "run", site, value, step))
    return check(said, variant, folder / "run", ended, site, known[1])


# ------------------------------------------------------------------------------------------------- laws


def prepare_laws(folder):
    import os

    from tests.soak import on_gpu
    from tests.soak.campaigns import laws

    on_gpu.begin()
    os.environ["REGARD_TEST_DEVICE"] = on_gpu.place()
    laws.prepare(folder)
    NAMES[:] = [each for each in laws.NAMES if each != "lm-ngram"]                     # which counts, on a CPU


def hold_law(seed, folder):
    from tests.soak.campaigns.laws import hold_one

    return hold_one(NAMES[seed % len(NAMES)], Random(f"gpu laws {seed}").choice)


def prepare_steps(folder):
    prepare_laws(folder)
    NAMES[:] = [each for each in NAMES if each.startswith(("lm-", "translate-", "caption-"))]


def take_steps(seed, folder):
    """A step compiled by torch's compiler; or one recorded as a CUDA graph, of models that write by themselves."""
    from tests.laws.drawn_models import FAMILIES_BY_TASK, READERS
    from tests.laws.drawn_steps import difference_compiled, difference_recorded

    name, chance = NAMES[seed // 2 % len(NAMES)], Random(f"gpu steps {seed}")
    task = name.partition("-")[0]
    reader, told = READERS[task](FAMILIES_BY_TASK[name], chance.choice)
    recorded = task == "lm" and name != "lm-mixture" and seed % 2 == 0
    wrong = difference_recorded(reader.thing, chance.choice) if recorded else (
        difference_compiled(reader) if name != "lm-mixture" else "")         # it looks words up on the host
    return Failure(f"{wrong}: {'recorded' if recorded else 'compiled'}, {name}, {told}") if wrong else None


OURS = ("tests/soak/on_gpu.py", *LIVES)
LAWS = ("tests/soak/on_gpu.py", "tests/soak/campaigns/laws.py", "tests/laws/drawn_models.py",
        "tests/laws/drawn_settings.py", "tests/laws/drawn_steps.py")
GPU = partial(Campaign, device="cuda", patience=300.0)
BITS = "0 differing bits of weights, optimizer, generators, metrics and samples"
CAMPAIGNS = (
    GPU("gpu-kills", "SIGKILL at a call on the disk or a step of training on a GPU, once more while it recovers",
        holds=BITS, ci=1, soak=200, run=kill, prepare=prepare, warm=warm, also=OURS),
    GPU("gpu-non-finite", "NaN, Inf or no memory on the GPU: in the loss, the gradients, the update, what is saved",
        holds="one line before an update or a file is spoilt; it goes on from the last checkpoint to the same bits",
        ci=1, soak=480, run=inject, prepare=prepare_sites, warm=warm,
        also=(*OURS, "tests/soak/injected.py", "tests/soak/campaigns/non_finite.py")),
    GPU("gpu-laws", "a law on a model of drawn settings and sizes, on the GPU", ci=1, soak=20_000, run=hold_law,
        holds="the law, as the design states it", prepare=prepare_laws, also=LAWS),
    GPU("gpu-steps", "a drawn model's step is compiled, or recorded as a CUDA graph",
        holds="the eager step's numbers to 1e-12, and the same tokens", ci=1, soak=4_000, run=take_steps,
        prepare=prepare_steps, also=LAWS),
)
