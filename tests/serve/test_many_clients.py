"""Two hundred clients at once, for a few seconds: nobody's status is anything but 200, 429 or 503."""

import pytest

pytest.importorskip("fastapi", reason="serving needs the extra `web`")

from tests.serve.many_clients import Crowd, ServedApart, send_crowd, wrong_answers


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ServedApart(tmp_path_factory.mktemp("served") / "log")
    yield server
    server.close()


def test_a_crowd_is_answered_or_told_to_come_again(server):
    crowd = send_crowd(server, 3.0, 0)
    assert wrong_answers(crowd) == ""
    assert len(crowd.health) > 1 and sum(crowd.statuses.values()) > 20


def test_what_is_wrong_with_a_crowd_is_seen():
    def met(statuses, health):
        crowd = Crowd(0, 0.0, None, health=health)
        crowd.statuses.update(statuses)
        return wrong_answers(crowd)

    assert met({200: 5, 429: 3, 503: 1}, [0.1]) == ""
    assert "500" in met({200: 5, 500: 1}, [0.1]) and "nobody" in met({429: 5}, [0.1])
    assert "1 times of 2" in met({200: 5}, [0.1, float("inf")])
