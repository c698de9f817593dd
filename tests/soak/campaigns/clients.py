"""Two hundred clients for some seconds: statuses, `/health`, generation that stops, memory and descriptors."""

import atexit
import time

from tests.soak.campaign import Campaign, Failure

SECONDS = 20.0
SERVER = None
FIRST = {}                                                   # memory and descriptors after the first crowds


def prepare(folder):
    global SERVER
    from tests.serve.many_clients import ServedApart, send_crowd

    SERVER = ServedApart(folder / "log")
    atexit.register(SERVER.close)
    for seed in range(3):
        send_crowd(SERVER, SECONDS, -1 - seed)
    FIRST.update(settled())


def settled():
    """Memory and descriptors once all connections are closed."""
    wait, least = time.monotonic() + 15, SERVER.descriptors()
    while time.monotonic() < wait:
        time.sleep(0.5)
        now = SERVER.descriptors()
        if now >= least and time.monotonic() > wait - 13:
            break
        least = min(least, now)
    return {"memory": SERVER.memory(), "descriptors": SERVER.descriptors()}


def run(seed, folder):
    from tests.serve.many_clients import GROWTH, HEALTH, STOPS, seconds_until_it_stops, send_crowd, wrong_answers

    crowd = send_crowd(SERVER, SECONDS, seed)
    if wrong := wrong_answers(crowd):
        return Failure(wrong)
    if max(crowd.health) > HEALTH:
        late = sum(each > HEALTH for each in crowd.health)
        return Failure(f"/health took {max(crowd.health):.2f} s at most, {late} of {len(crowd.health)} over {HEALTH} s")
    now = settled()
    if (took := seconds_until_it_stops(SERVER)) > STOPS:
        return Failure(f"generation went on for {took:.1f} s after the client had left")
    if now["memory"] > GROWTH * FIRST["memory"]:
        return Failure(f"memory grew from {FIRST['memory'] / 2**20:.1f} to {now['memory'] / 2**20:.1f} MB")
    if now["descriptors"] > FIRST["descriptors"]:
        return Failure(f"{now['descriptors']} descriptors are open, not {FIRST['descriptors']}")
    return None


CAMPAIGN = Campaign(
    "clients", "200 clients for 20 s: 40 take slowly, 40 send slowly, of the others a third goes away", ci=1, soak=720,
    run=run, prepare=prepare, alone=True, short="tests/serve/test_many_clients.py", patience=200.0,
    also=("tests/serve/many_clients.py",),
    holds="200, 429 or 503; /health within 0.2 s; generation stops within 1 s; memory within 5%, descriptors flat")
