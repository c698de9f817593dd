"""`make audit`: holes are told and fail; a database that knows nothing is no success."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "install"))

import audit

SKIPPED = {"name": "torch", "skip_reason": "not found"}
FREE = {"name": "torch", "version": "2.13.0", "vulns": []}
HOLED = {"name": "pyarrow", "version": "14.0.0", "vulns": [{"id": "CVE-2023-47248", "fix_versions": ["14.0.1"]}]}


@pytest.mark.parametrize(("answers", "code", "said"), [
    ({"pypi": [FREE, SKIPPED]}, 0, "known to the database, holes: 0"),
    ({"pypi": [FREE, HOLED]}, 1, "pyarrow 14.0.0: CVE-2023-47248, mended in 14.0.1"),
    ({"pypi": [SKIPPED], "osv": [HOLED]}, 1, "CVE-2023-47248"),
    ({"pypi": [SKIPPED], "osv": [SKIPPED]}, 1, "nothing was audited: no advisory database can be reached from here"),
    ({}, 1, "nothing was audited"),
])
def test_only_what_a_database_knows_and_finds_free_passes(answers, code, said, monkeypatch, capsys):
    monkeypatch.setattr(audit, "ask", lambda service, versions: answers.get(service, []))
    assert audit.main() == code
    assert said in capsys.readouterr().out


def test_floors_are_asked_for_as_indexes_list_them():
    floors = audit.floors()
    assert floors["torch"] == "2.11.0" and floors["pyarrow"] == "23.0.1" and floors["python-multipart"] == "0.0.31"
    assert floors["sacrebleu"] == "2.4.0" and floors["triton"] == "3.2.0"
