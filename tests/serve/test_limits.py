"""How much at once, for how long, and what happens to work that nobody waits for."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest

from regard.serve.limits import ClientGone, FairLock, Gate, Stopped, check, current, in_turns
from regard.serve.refusals import Refusal


class Client:
    """A request whose sender leaves when told to."""

    def __init__(self, gate):
        self.left = asyncio.Event()
        self.app = type("App", (), {"state": type("State", (), {"gate": gate})})

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


@asynccontextmanager
async def entered(gate, client=None):
    gated = await gate.enter(client or Client(gate))
    try:
        yield gated
    finally:
        gated.leave()


async def settle(true):
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")


def test_so_many_run_so_many_wait_and_the_next_is_told_to_come_again():
    async def story():
        gate = Gate(running=2, queued=3)
        inside = [await gate.enter(Client(gate)) for _ in range(2)]
        waiting = [asyncio.ensure_future(gate.enter(Client(gate))) for _ in range(3)]
        await settle(lambda: len(gate.waiting) == 3)
        with pytest.raises(Refusal) as refused:
            await gate.enter(Client(gate))
        assert refused.value.status == 429 and int(refused.value.headers["Retry-After"]) > 0
        for gated in inside:
            gated.leave()
        inside = [await waiting[0], await waiting[1]]           # in the order in which they came
        assert not waiting[2].done() and gate.running == 2
        for gated in inside:
            gated.leave()
        (await waiting[2]).leave()
        assert gate.running == 0 and not gate.waiting

    asyncio.run(story())


def test_work_knows_its_job_and_who_asked_for_it_does_not_keep_it():
    async def story():
        async with entered(Gate()) as gated:
            assert await gated.run(current.get) is gated
            assert current.get() is None

    asyncio.run(story())


def test_waiting_too_long_is_over_and_leaves_no_trace():
    async def story():
        gate = Gate(running=1, queued=3, seconds=0.1)
        async with entered(gate):
            with pytest.raises(Refusal, match=r"more than the 0\.1 seconds") as refused:
                await gate.enter(Client(gate))
            assert refused.value.status == 503 and not gate.waiting
        assert gate.running == 0

    asyncio.run(story())


def test_a_client_that_leaves_the_queue_gives_its_place_to_the_next():
    async def story():
        gate = Gate(running=1, queued=2)
        async with entered(gate):
            client = Client(gate)
            first, second = (asyncio.ensure_future(gate.enter(each)) for each in (client, Client(gate)))
            await settle(lambda: len(gate.waiting) == 2)
            client.left.set()
            with pytest.raises(ClientGone):
                await first
        (await second).leave()
        assert gate.running == 0

    asyncio.run(story())


def test_work_is_stopped_when_its_client_leaves_and_keeps_its_place_until_then():
    async def story():
        gate, passes, client = Gate(running=1, queued=1), [], None
        client = Client(gate)
        may_end = threading.Event()

        def work():
            try:
                while True:
                    check()
                    passes.append(time.monotonic())
                    time.sleep(0.005)
            finally:
                may_end.wait(10)

        with pytest.raises(ClientGone):
            async with entered(gate, client) as gated:
                asyncio.get_running_loop().call_later(0.1, client.left.set)
                await gated.run(work)
        assert gate.running == 1                                # its thread is not done: nobody else may have the place
        may_end.set()
        await settle(lambda: gate.running == 0)
        done = len(passes)
        await asyncio.sleep(0.1)
        assert done > 2 and len(passes) == done

    asyncio.run(story())


def test_work_that_takes_too_long_is_503_and_ends():
    async def story():
        gate, ended = Gate(seconds=0.1), threading.Event()

        def work():
            try:
                while True:
                    check()
                    time.sleep(0.005)
            finally:
                ended.set()

        with pytest.raises(Refusal, match="ask for less") as refused:
            async with entered(gate) as gated:
                await gated.run(work)
        assert refused.value.status == 503
        await settle(ended.is_set)
        await settle(lambda: gate.running == 0)

    asyncio.run(story())


def test_a_failure_is_the_callers_and_frees_the_place():
    async def story():
        gate = Gate()

        def fails():
            raise ValueError("ours")

        with pytest.raises(ValueError, match="ours"):
            async with entered(gate) as gated:
                await gated.run(fails)
        assert gate.running == 0

    asyncio.run(story())


def test_a_cancelled_request_stops_its_work():
    async def story():
        gate, ended = Gate(), threading.Event()

        def work():
            try:
                while True:
                    check()
                    time.sleep(0.005)
            finally:
                ended.set()

        async def ask():
            async with entered(gate) as gated:
                await gated.run(work)

        task = asyncio.ensure_future(ask())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settle(ended.is_set)
        await settle(lambda: gate.running == 0)

    asyncio.run(story())


def test_watching_in_one_thread_sees_nothing_of_another():
    import torch

    from regard.watching import watch, watching

    async def story():
        gate, both = Gate(), threading.Barrier(2)

        def work(number):
            with watch() as seen:
                both.wait(10)                                  # both are watching now
                watching().add(None, "weights", torch.full((1,), number))
                both.wait(10)
                return [int(reading.values) for reading in seen.readings]

        async def ask(number):
            async with entered(gate) as gated:
                return await gated.run(work, number)

        assert await asyncio.gather(ask(1), ask(2)) == [[1], [2]]
        assert watching() is None

    asyncio.run(story())


def test_a_closed_gate_lets_nobody_in_and_ends_what_runs():
    async def story():
        gate = Gate()

        def work():
            while True:
                check()
                time.sleep(0.005)

        async with entered(gate) as gated:
            asyncio.get_running_loop().call_later(0.05, gate.close)
            with pytest.raises(Refusal, match="stopping"):
                await gated.run(work)
        with pytest.raises(Refusal, match="stopping"):
            await gate.enter(Client(gate))

    asyncio.run(story())


def test_who_waits_hears_that_the_server_stops_though_its_thread_cannot_be_stopped():
    """As while a model is loaded: nothing in there asks whether it is still wanted."""
    async def story():
        gate, end = Gate(running=1, queued=1), threading.Event()
        async with entered(gate) as gated:
            working = asyncio.ensure_future(gated.run(end.wait))
            waiting = asyncio.ensure_future(gate.enter(Client(gate)))
            await settle(lambda: len(gate.waiting) == 1)
            threading.Thread(target=gate.stop).start()
            for each in (working, waiting):
                with pytest.raises(Refusal, match="the server is stopping"):
                    await asyncio.wait_for(each, 30)
        end.set()
        gate.close()

    asyncio.run(story())


def test_outside_of_a_job_nothing_is_stopped():
    assert current.get() is None
    check()


# ---------------------------------------------------------------------------------------------- locks


def test_a_lock_is_given_in_the_order_of_asking():
    lock, order, threads = FairLock(), [], []
    lock.acquire()
    for number in range(5):
        def take(number=number):
            with lock:
                order.append(number)

        threads.append(threading.Thread(target=take))
        threads[-1].start()
        while len(lock._queue) <= number + 1:
            time.sleep(0.001)
    lock.release()
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2, 3, 4]


def test_two_texts_are_written_in_turns():
    lock, order = FairLock(), []
    first = threading.Event()

    def write(name):
        for _ in in_turns(lock, iter(range(50))):
            order.append(name)
            first.wait(10)                                     # both have begun
            time.sleep(0.0005)

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    first.set()
    for thread in threads:
        thread.join(10)
    assert len(order) == 100 and not lock.taken
    longest = max(len(run) for run in "".join(order).replace("ab", "a b").replace("ba", "b a").split())
    assert longest < 40                                        # neither had it all to itself


def test_who_gives_up_waiting_for_a_lock_does_not_keep_it():
    async def story():
        gate, lock = Gate(seconds=0.3), FairLock()
        lock.acquire()

        def work():
            with lock:
                raise AssertionError("it is taken")

        with pytest.raises(Refusal):
            async with entered(gate) as gated:
                await gated.run(work)
        await settle(lambda: gate.running == 0)
        assert len(lock._queue) == 1
        lock.release()
        assert not lock.taken

    asyncio.run(story())


def test_stopped_is_no_answer():
    assert not issubclass(Stopped, Refusal)
