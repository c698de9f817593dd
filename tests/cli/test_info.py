"""`regard info`: everything that a report of a bug needs, and nothing private."""

import importlib.metadata
import json
import platform

import torch

import regard as library
from regard import about


def test_json_has_versions_devices_kernels_packages_and_cache(regard, tmp_path):
    told = json.loads(regard("info", "--json").done())
    assert told["regard"]["version"] == library.__version__ and told["python"]["version"] == platform.python_version()
    assert told["packages"]["torch"] == torch.__version__ and told["packages"]["click"]
    assert told["devices"]["threads"] == torch.get_num_threads()
    assert told["devices"]["auto"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert set(told["kernels"]) >= {"cpu", "cpu products", "cpu bfloat16"}
    assert told["cache"]["folder"].endswith("cache") and told["cache"]["writable"] is True
    assert told["environment"]["REGARD_CACHE"].endswith("cache")


def test_the_text_has_a_line_for_each_part(regard):
    lines = regard("info").done().splitlines()
    parts = [line.split()[0] for line in lines]
    assert {"regard", "python", "system", "processor", "device", "kernels", "packages", "[web]", "cache"} <= set(parts)
    assert f"torch {torch.__version__}" in next(line for line in lines if line.startswith("packages"))


def test_packages_are_those_that_the_metadata_lists(monkeypatch):
    lines = ["torch>=2.11", "click>=8.3.3", "fastapi>=0.133; extra == 'web'", "h11>=0.16; extra == \"web\"",
             "pytest>=9; extra == 'dev'", "regard[web]; extra == 'dev'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    assert about.find_requirements() == (["torch", "click"], {"web": ["fastapi", "h11"]})


def test_what_is_not_installed_is_said(regard, monkeypatch):
    monkeypatch.setattr(about, "find_version", lambda name: None if name == "pyarrow" else "1.2.3")
    assert "[parquet]     pyarrow (not installed)" in regard("info").done()
    assert json.loads(regard("info", "--json").done())["optional"]["parquet"] == {"pyarrow": None}


def test_nothing_private_is_told(regard, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("REGARD_TOKEN", "a-secret-of-mine")
    monkeypatch.setenv("TRITON_CACHE_DIR", f"{tmp_path}/kernels")
    monkeypatch.setenv("SOMETHING_ELSE", "no concern of ours")
    for arguments in (["info"], ["info", "--json"]):
        said = regard(*arguments).done()
        assert "a-secret-of-mine" not in said and "SOMETHING_ELSE" not in said
        assert str(tmp_path) not in said
    told = json.loads(said)
    assert told["environment"]["REGARD_TOKEN"] == "(set)" and told["environment"]["TRITON_CACHE_DIR"] == "~/kernels"
    assert told["cache"]["folder"] == "~/cache"


def test_from_a_folder_that_was_never_installed_it_says_so(regard, monkeypatch):
    def none(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", none)
    assert "Regard is not installed" in regard("info").done()


def test_the_triton_back_end_is_told_where_there_is_a_gpu(monkeypatch):
    from regard import kernels

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(kernels, "reason_on", lambda device: "REGARD_KERNELS = torch says so")
    assert about.describe_kernels()["cuda"] == "torch (REGARD_KERNELS = torch says so)"
