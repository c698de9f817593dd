"""The short form of every campaign of the soak, in a fork of this process."""

import sys

import pytest

from tests.soak.campaign import find_campaigns
from tests.soak.cases import run_forked

if not hasattr(sys, "getwindowsversion"):
    SHORT = {name: each for name, each in find_campaigns().items() if each.here and each.ci and not each.short}
else:
    pytest.skip("campaigns run in forks, which are POSIX's", allow_module_level=True)


@pytest.mark.parametrize("name", SHORT)
def test_no_case_of_a_campaign_fails(name, tmp_path, monkeypatch):
    """Those for a GPU are tried on a CPU."""
    monkeypatch.setenv("REGARD_SOAK_ON", "cpu")
    campaign = SHORT[name]
    outcome = run_forked(campaign, range(campaign.ci), tmp_path)
    assert not outcome.failures, "\n".join(
        f"{seed}: {failure.why} (make soak ONLY={name} SEED={seed} COUNT=1)"
        for seed, failure in outcome.failures.items())
    assert sorted(outcome.done) == list(range(campaign.ci))
