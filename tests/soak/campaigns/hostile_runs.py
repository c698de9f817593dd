"""Run folders of somebody who means harm, opened by every command: one plain line, no code, nothing outside."""

from tests.soak.campaign import Campaign, Failure

TRIAL = None


def prepare(folder):
    global TRIAL
    from tests.hostile.trying import Trial

    TRIAL = Trial(folder)


def run(seed, folder):
    from tests.hostile.trying import use_of

    wrong = TRIAL.run(seed, use_of(seed), folder)
    return Failure(wrong) if wrong else None


CAMPAIGN = Campaign(
    "hostile-runs", "a run folder is made hostile in one to three ways, and a command opens it", ci=300, soak=20_000,
    holds="done, or refused in one plain line within 1 s and 256 MB beyond a good folder's; no code of the folder "
          "runs, nothing outside it is written",
    run=run, prepare=prepare, also=("tests/hostile", "tests/fuzz/mutations.py"))
