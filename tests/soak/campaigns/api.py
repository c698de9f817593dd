"""Every route of the server, asked by its description, against it, and in bytes that are hardly HTTP."""

import atexit

from tests.soak.campaign import Campaign, Failure

ATTACKED = None


def prepare(folder):
    global ATTACKED
    import torch

    from tests.serve.api_requests import Attacked

    torch.set_num_threads(1)
    ATTACKED = Attacked(folder)
    atexit.register(ATTACKED.close)


def run(seed, folder):
    from tests.serve.api_requests import MODES

    mode, at = MODES[seed % 3], seed // 3
    wrong = ATTACKED.attack(*ATTACKED.routes[at % len(ATTACKED.routes)], mode, seed)
    return Failure(wrong) if wrong else None


CAMPAIGN = Campaign(
    "api", "twenty requests to one of 26 routes: by its description, against it, or of changed bytes", ci=1_350,
    soak=3_900, run=run, prepare=prepare, short="tests/serve/test_description.py", patience=300.0,
    also=("tests/serve/api_requests.py", "tests/fuzz/mutations.py"),
    holds="no failure of the server but 503; what is wrong is refused; each answer is as described")
