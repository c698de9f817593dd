"""Runs go to a hub and come back bit by bit; whatever a hub answers, mistakes are one line and no token is shown."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import regard
from regard.cli import main
from regard.errors import DataError, RegardError, RunError, SettingError
from regard.interop import checking, hub, pushing
from regard.interop.pulling import pull
from regard.interop.pushing import push
from regard.manifest import digest_values
from regard.run_folder import RunFolder

from .foreign_models import build
from .hub_server import LARGE, TOKEN, Answer, HubServer

huggingface_hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (regard[hub])")
from huggingface_hub import constants  # noqa: E402
from huggingface_hub.utils import _http  # noqa: E402

SMALL = {"model": dict(layers=1, width=16, heads=2, context=16, dropout=0.0), "tokenizer": dict(kind="bpe", vocab=300),
         "training": dict(steps=2, batch=4, compile="no")}
LINES = [f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11} and saw {i} kites" for i in range(400)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on a text in a folder whose name nobody needs to know."""
    folder = tmp_path_factory.mktemp("secret-place")
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "valid.txt").write_text("".join(f"{line} again\n" for line in LINES[::5]))
    settings = {**SMALL, "data": {"documents": "line", "valid": (str(folder / "valid.txt"),)}}
    regard.train(str(folder / "text.txt"), settings=settings, family="transformer", out=str(folder / "run"),
                 device="cpu", quiet=True)
    return folder / "run"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A hub that this user is logged in to; whoever asks another one fails."""
    made, elsewhere, connect = HubServer(), [], socket.socket.connect

    def connect_here(self, address):
        if not str(address[0]).startswith("127."):
            elsewhere.append(address)
            raise OSError("a test must not leave this machine")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)
    for name, value in {"ENDPOINT": made.url, "HF_URL_HOSTS": frozenset({"127.0.0.1"}),
                        "HUGGINGFACE_CO_URL_TEMPLATE": made.url + "/{repo_id}/resolve/{revision}/{filename}",
                        "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": True,
                        "HF_HUB_CACHE": str(tmp_path / "home" / "hub"), "HF_TOKEN_PATH": str(tmp_path / "home" / "t"),
                        "AGENT_HARNESSES_PATH": str(tmp_path / "home" / "a.json"), "HF_HUB_OFFLINE": False}.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(_http.time, "sleep", lambda seconds: None)               # before it tries again
    monkeypatch.setattr(checking, "LINES", 4)
    monkeypatch.chdir(tmp_path)
    yield made
    made.close()
    assert elsewhere == []


@pytest.fixture
def pushed(server, trained):
    push(trained, "me/tiny", to="run")
    return server


def files_of(path):
    return {each.relative_to(path).as_posix(): each.read_bytes() for each in Path(path).rglob("*") if each.is_file()}


def fails(words, capfd):
    """The one line that a command ends with, all that it printed having no token in it."""
    with pytest.raises(SystemExit) as end:
        main(words)
    out, err = capfd.readouterr()
    assert end.value.code == 1 and TOKEN not in out + err
    (line,) = [line for line in err.splitlines() if "next try" not in line]
    assert line.startswith("regard: ") and out == ""
    return line


# ------------------------------------------------------------------------------------------ there and back


def test_a_run_comes_back_bit_by_bit_but_for_where_its_text_lay(server, trained, tmp_path):
    push(trained, "me/tiny", to="run")
    found = pull("me/tiny", tmp_path / "back")
    before, after = files_of(trained), files_of(tmp_path / "back")
    assert set(after) == {name for name in before if not name.startswith(("checkpoints", "samples"))}
    differ = {name for name in after if after[name] != before[name]}
    assert differ == {"run.toml", "manifest.json"}
    ours, theirs = (tomllib.loads(files["run.toml"].decode()) for files in (before, after))
    assert theirs["data"].pop("files") == ["text.txt"] and theirs["data"].pop("valid") == ["valid.txt"]
    assert [Path(each).name for each in ours["data"].pop("files") + ours["data"].pop("valid")] == ["text.txt",
                                                                                                  "valid.txt"]
    assert ours == theirs and found.size == sum(map(len, after.values()))
    assert sorted(found.files) == sorted(after)
    assert list(tmp_path.glob(".part-*")) == [] and not (tmp_path / "back" / ".cache").exists()
    first, second = (regard.load(path, "cpu") for path in (trained, tmp_path / "back"))
    assert first.score("the cat sat").nats == second.score("the cat sat").nats


def test_a_run_on_names_alone_comes_back_with_every_file_as_it_was(server, tmp_path):
    Path("text.txt").write_text("".join(f"{line}\n" for line in LINES))
    regard.train("text.txt", settings={"tokenizer": SMALL["tokenizer"]}, family="ngram", out="run", quiet=True)
    push("run", "me/counted")
    pull("me/counted")
    before = files_of("run")
    assert files_of("runs/counted") == {name: data for name, data in before.items() if name != "samples.jsonl"}


def test_no_path_of_this_machine_is_in_what_is_pushed(pushed, trained):
    push(trained, "me/tiny")
    for name, data in pushed.files("me/tiny").items():
        assert b"secret-place" not in data and os.fsencode(os.getcwd()) not in data, name


def test_the_repository_opens_in_transformers_too(server, trained, tmp_path, capfd):
    transformers = pytest.importorskip("transformers")
    main(["push", str(trained), "me/both", "--json", "--message", "the first"])
    told = json.loads(capfd.readouterr().out)
    assert told["kind"] == "GPTNeoXForCausalLM" and told["checked"]["difference"] < 1e-4
    assert server.repositories["me/both"].messages[-1] == "the first" and told["url"].endswith("/me/both")
    assert sorted([*told["files"], ".gitattributes"]) == sorted(server.files("me/both"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained("me/both").eval()     # by the hub, as its users would
    ours = regard.load(pull("me/both").path, "cpu")
    tokens = torch.tensor([[1, 20, 30, 40]])
    wanted = ours.model.head(ours.model.encode(tokens)[0])
    torch.testing.assert_close(theirs(tokens).logits.log_softmax(-1), wanted, rtol=0, atol=1e-4)


def test_a_run_that_transformers_cannot_hold_is_pushed_alone_and_the_reason_is_told(server, trained, tmp_path, capfd):
    settings = {**SMALL, "model": {**SMALL["model"], "softcap": 30.0}}
    text = tomllib.loads((trained / "run.toml").read_text())["data"]["files"][0]
    regard.train(text, settings=settings, family="transformer", out="capped", device="cpu", quiet=True)
    main(["push", "capped", "me/capped", "--no-check"])
    assert "transformers will not open it: model.softcap = 30.0" in capfd.readouterr().out
    assert {name.partition("/")[0] for name in server.files("me/capped")} == {".gitattributes", "README.md", "regard"}
    assert "model.softcap = 30.0" in fails(["push", "capped", "me/other", "--to", "hf", "--no-check"], capfd)
    assert "me/other" not in server.repositories                                  # nothing was made for it


def test_a_second_push_removes_what_the_first_left_and_keeps_what_is_the_users(server, trained):
    push(trained, "me/tiny", check=False)
    server.put("me/tiny", {**server.files("me/tiny"), "picture.png": b"mine"})
    done = push(trained, "me/tiny", to="run")
    assert "config.json" in done.removed and "model.safetensors" in done.removed
    assert "picture.png" in server.files("me/tiny") and "config.json" not in server.files("me/tiny")
    again = push(trained, "me/tiny", to="run")                                    # nothing changed: no commit
    assert again.commit == done.commit and again.removed == ()


def test_a_branch_is_made_and_pulled_by_its_name_or_its_commit(server, trained, tmp_path):
    push(trained, "me/tiny", to="run")
    done = push(trained, "me/tiny", to="run", revision="next/try", message="on a branch")
    repository = server.repositories["me/tiny"]
    assert repository.branches["next/try"] == done.commit
    for number, revision in enumerate(("next/try", done.commit)):
        pull("me/tiny", tmp_path / str(number), revision=revision)
    with pytest.raises(DataError, match="has no such revision"):
        pull("me/tiny", tmp_path / "none", revision="nowhere")
    with pytest.raises(SettingError, match="name a branch, a tag or a commit"):
        pull("me/tiny", tmp_path / "none", revision="a b")


def test_a_private_repository_is_private_and_a_public_one_gets_no_private_run(server, trained, monkeypatch, tmp_path):
    push(trained, "me/mine", to="run", private=True)
    assert server.repositories["me/mine"].private
    pull("me/mine", tmp_path / "back")
    server.put("me/open", {".gitattributes": b""})
    with pytest.raises(SettingError, match="--private: me/open exists and is public"):
        push(trained, "me/open", to="run", private=True)
    assert set(server.files("me/open")) == {".gitattributes"}
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(DataError, match="shows no me/mine: check the name; if it is private, log in"):
        pull("me/mine", tmp_path / "again")
    with pytest.raises(SettingError, match="does not know you: log in by `hf auth login`"):
        push(trained, "me/mine", to="run")


def test_another_model_is_not_replaced(server, trained):
    server.put("me/gpt", {"config.json": b"{}", "pytorch_model.bin": b"x"})
    with pytest.raises(SettingError, match="me/gpt holds another model"):
        push(trained, "me/gpt", to="run")
    assert set(server.files("me/gpt")) == {"config.json", "pytorch_model.bin"}


def test_a_repository_that_changes_meanwhile_is_not_overwritten(pushed, trained):
    def plan(method, path):
        if method == "POST" and "/preupload/" in path:
            pushed.plan = lambda method, path: None
            pushed.put("me/tiny", {**pushed.files("me/tiny"), "other.txt": b"x"})

    pushed.put("me/tiny", {**pushed.files("me/tiny"), "README.md": b"by hand"})
    pushed.plan = plan
    with pytest.raises(RunError, match="changed by somebody else"):
        push(trained, "me/tiny", to="run", message="late")
    assert "late" not in pushed.repositories["me/tiny"].messages


def test_weights_that_change_while_they_are_uploaded_are_not_committed(pushed, trained, tmp_path, monkeypatch):
    files, digests = pushing.run_files(RunFolder(trained))
    monkeypatch.setattr(pushing, "run_files", lambda folder: (files, {
        **digests, "regard/model.safetensors": hashlib.sha256(b"other").hexdigest()}))
    pushed.repositories.clear()
    with pytest.raises(RunError, match="changed while it was uploaded"):
        push(trained, "me/tiny", to="run")
    assert set(pushed.files("me/tiny")) == {".gitattributes"}


# ------------------------------------------------------------------------------------------ the card


def test_the_card_tells_what_was_measured(pushed, trained):
    card = pushed.files("me/tiny")["README.md"].decode()
    figures = RunFolder(trained).read_test()
    low, high = figures["test_loss_interval"]
    assert f"| {figures['test_loss']:.4f} ({low:.4f} to {high:.4f}, 95% over documents) |" in card
    assert "regard pull me/tiny -o runs/tiny\nregard generate runs/tiny" in card
    assert "By `regard train lm text.txt --family transformer --seed 0`" in card and "one seed" in card
    assert "480 lines read: 480 kept, 0 dropped" in card or "lines read" in card
    content = tomllib.loads((trained / "run.toml").read_text())["data"]["content"]
    assert f"The hash of all that was read is `{content}`" in card
    ngram = regard.train(tomllib.loads((trained / "run.toml").read_text())["data"]["files"][0], family="ngram",
                         out="counted", quiet=True,
                         settings={"data": {"documents": "line", "valid": (str(trained.parent / "valid.txt"),)},
                                   "tokenizer": SMALL["tokenizer"]})
    wanted = RunFolder(ngram.path).read_test()["test_loss"]
    assert f"| loss of an n-gram of the same text, on the test part | {wanted:.4f} |" in card


def test_a_card_without_its_text_says_so(server, trained, tmp_path):
    push(trained, "me/tiny", to="run")
    pull("me/tiny", tmp_path / "back")
    push(tmp_path / "back", "me/again", to="run")
    card = server.files("me/again")["README.md"].decode()
    assert "not measured: its text is not here any more" in card and "dropped lines were not counted" in card
    same = {name: data for name, data in server.files("me/tiny").items() if name.startswith("regard/")}
    assert same == {name: data for name, data in server.files("me/again").items() if name.startswith("regard/")}


# ------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(("status", "code", "says"), [
    (401, "", "does not know you, or your token no longer"), (401, "RepoNotFound", "shows no me/tiny"),
    (404, "RepoNotFound", "shows no me/tiny"), (403, "GatedRepo", "is gated: ask for access"),
    (403, "", "does not allow this"), (429, "", "was asked too often"), (500, "", "500 Internal Server Error"),
    (503, "", "503 Service Unavailable"), (400, "", "refuses (400 Bad Request)"), (418, "", "refuses (418"),
    (599, "", "(599)")])
@pytest.mark.parametrize("words", [["push", "RUN", "me/tiny", "--to", "run"], ["pull", "me/tiny", "-o", "back"],
                                   ["import", "hub:me/tiny", "-o", "back"]], ids=["push", "pull", "import"])
def test_an_answer_that_is_a_refusal_is_one_line_without_the_token(words, status, code, says, pushed, trained, capfd):
    before = pushed.repositories["me/tiny"].messages[:]
    pushed.plan = lambda method, path: None if "harness" in path else Answer.error(status, code)
    assert says in fails([str(trained) if word == "RUN" else word for word in words], capfd)
    assert not Path("back").exists() and pushed.repositories["me/tiny"].messages == before
    for path in Path.cwd().rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes()


@pytest.mark.parametrize("where", ["/preupload/", "/large/", "objects/batch", "validate-yaml", "/commit/", "create"])
def test_a_server_that_fails_in_the_middle_of_a_push_is_one_line(where, server, trained, capfd):
    server.plan = lambda method, path: Answer.error(500) if where in path else None
    assert "500 Internal Server Error" in fails(["push", str(trained), "me/tiny", "--to", "run"], capfd)
    assert "Pushed" not in str([each.messages for each in server.repositories.values()])


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"id": 3}', b"<html>", b'{"id": "me/tiny", "sha": "../x"}'])
def test_an_answer_that_is_not_understood_is_one_line(body, pushed, capfd):
    pushed.plan = lambda method, path: Answer(200, body) if path == "/api/models/me/tiny" else None
    assert "gave an answer that is not understood" in fails(["pull", "me/tiny", "-o", "back"], capfd)


def test_a_wait_is_told(pushed, trained, capfd):
    asked = []

    def plan(method, path):
        if "/preupload/" in path:
            asked.append(path)
            return Answer.error(503) if len(asked) < 3 else None

    pushed.plan = plan
    main(["push", str(trained), "me/tiny", "--to", "run"])
    out, err = capfd.readouterr()
    assert err.splitlines() == ["the hub asks to wait: next try in 1 s", "the hub asks to wait: next try in 2 s"]
    assert TOKEN not in out + err


def test_no_network_and_offline_are_one_line(server, monkeypatch, capfd, trained):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))                                              # nobody listens there
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        for words in (["pull", "me/tiny"], ["push", str(trained), "me/tiny", "--to", "run"], ["import", "hub:a/b"]):
            assert "no connection to 127.0.0.1: check the network" in fails(words, capfd)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in fails(["pull", "me/tiny"], capfd)


@pytest.mark.parametrize("name", ["tiny", "me/tiny/more", "me/", "/x", "me/a b", "../x", "me/..", "me/a--b", "me/a.git",
                                  "me/" + "x" * 100, "me/.x", "https://hub/me/tiny", "me/tiny@v1", "me/a\n"])
def test_a_bad_name_is_refused_before_anything_is_asked(name, server, capfd, trained):
    for words in (["pull", name], ["push", str(trained), name], ["import", f"hub:{name}"]):
        assert "is no name on the hub: write OWNER/NAME" in fails(words, capfd)
    assert server.asked == []


def test_a_missing_package_is_one_line(server, monkeypatch, capfd, trained):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for words in (["pull", "me/tiny"], ["push", str(trained), "me/tiny"], ["import", "hub:me/tiny"]):
        assert "pip install 'regard[hub]'" in fails(words, capfd)


def test_a_path_that_exists_is_not_replaced(pushed, capfd):
    Path("back").mkdir()
    for words in (["pull", "me/tiny", "-o", "back"], ["import", "hub:me/tiny", "-o", "back"]):
        assert "exists already" in fails(words, capfd)
    assert "--revision v1: some/folder is a path" in fails(["import", "some/folder", "--revision", "v1"], capfd)


# ------------------------------------------------------------------------------------------ hostile repositories


def change(server, name="me/tiny", **files):
    """Files of the run as somebody else would have them: the hub has a hash of what it holds, whatever that is."""
    tree = server.files(name)
    for path, data in files.items():
        key = f"regard/{path.replace('__', '.')}"
        tree = {**tree, key: data(tree.get(key, b"")) if callable(data) else data}
    server.put(name, {path: data for path, data in tree.items() if data is not None})


def sealed(files, **more):
    values = {"format": 1, "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
              "before": {}, "checkpointed": True, **more}
    return json.dumps({**values, "sha256": digest_values(values)}).encode()


@pytest.mark.parametrize(("files", "says"), [
    (dict(model__safetensors=lambda data: data[:-1] + b"\1"), "model.safetensors is not the one"),
    (dict(tokenizer__json=None), "tokenizer.json and manifest.json do not agree"),
    (dict(ngram__safetensors=b"x"), "ngram.safetensors and manifest.json do not agree"),
    (dict(manifest__json=None), "has no manifest.json"), (dict(manifest__json=b"{}"), "manifest.json is damaged"),
    (dict(run__toml=None), "holds no run that was pushed")])
def test_a_run_that_is_not_as_it_was_pushed_is_refused_and_nothing_is_left(files, says, pushed, tmp_path):
    change(pushed, **files)
    with pytest.raises(RegardError, match=says):
        pull("me/tiny", tmp_path / "back")
    assert not (tmp_path / "back").exists() and list(tmp_path.glob(".part-*")) == []


def test_tensors_that_are_a_pickle_are_refused_though_the_manifest_agrees(pushed, tmp_path):
    tree = {name.removeprefix("regard/"): data for name, data in pushed.files("me/tiny").items()
            if name.startswith("regard/") and "manifest" not in name and "metrics" not in name}
    tree["model.safetensors"] = b"\x80\x04\x95\x0e\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94\x8c\x06system\x94\x93\x94."
    change(pushed, model__safetensors=tree["model.safetensors"], manifest__json=sealed(tree))
    with pytest.raises(DataError, match="no safetensors file"):
        pull("me/tiny", tmp_path / "back")
    newer = sealed(tree, format=99)
    change(pushed, manifest__json=newer)
    with pytest.raises(RunError, match="update Regard"):
        pull("me/tiny", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_only_the_files_of_a_run_are_fetched(pushed, tmp_path):
    change(pushed, **{"evil__py": b"import os", "pickle__bin": b"x", "../../outside": b"x", "run__toml.bak": b"x"})
    pushed.asked.clear()
    pull("me/tiny", tmp_path / "back")
    fetched = {path.rpartition("/")[2] for method, path in pushed.asked if "/resolve/" in path}
    assert fetched == {"run.toml", "tokenizer.json", "model.safetensors", "test.json", "manifest.json", "metrics.jsonl"}
    assert set(files_of(tmp_path / "back")) == fetched and not (tmp_path / "outside").exists()


def test_a_layer_of_its_author_is_named_and_not_fetched(pushed, tmp_path, capfd):
    tree = {name.removeprefix("regard/"): data for name, data in pushed.files("me/tiny").items()
            if name.startswith("regard/") and "manifest" not in name and "metrics" not in name}
    tree["run.toml"] = tree["run.toml"].replace(b'family = "transformer"', b'family = "evil:Layer"')
    change(pushed, run__toml=tree["run.toml"], manifest__json=sealed(tree), evil__py=b"raise SystemExit('ran')")
    main(["pull", "me/tiny", "-o", "back"])
    assert "it is made of evil:Layer, code that was not fetched" in capfd.readouterr().out
    with pytest.raises(RunError, match="say --trust"):
        regard.load("back", "cpu")


def test_bytes_that_are_not_those_of_the_listing_are_refused(pushed, tmp_path):
    def plan(method, path):
        if method == "GET" and path.endswith("metrics.jsonl"):                    # which the manifest does not know
            data = pushed.files("me/tiny")["regard/metrics.jsonl"]
            return Answer(200, data.replace(b"0", b"1"))

    pushed.plan = plan
    with pytest.raises(DataError, match="did not arrive as it is on the hub"):
        pull("me/tiny", tmp_path / "back")


def test_a_file_that_promises_to_be_huge_is_not_fetched(pushed, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "LARGEST_TEXT", 100)
    with pytest.raises(DataError, match="no such file is so large"):
        pull("me/tiny", tmp_path / "back")


@pytest.mark.parametrize("path", ["/etc/x.safetensors", "a/../../x.safetensors", "..\\x.safetensors"])
def test_a_name_outside_the_folder_is_refused(path, server):
    with pytest.raises(DataError, match="outside its folder"):
        hub.Hub("me/tiny", print).check_path(path, hub.HubFile(1))


# ------------------------------------------------------------------------------------------ import hub:


def test_a_model_of_transformers_comes_from_the_hub_without_its_code_and_pickles(server, tmp_path, capfd):
    pytest.importorskip("transformers")
    build("gpt2", tmp_path / "gpt2")
    (tmp_path / "gpt2" / "chat_template.jinja").write_text("{{ messages }}")
    here = files_of(tmp_path / "gpt2")
    assert max(map(len, here.values())) > LARGE
    server.put("them/gpt2", {**here, "pytorch_model.bin": b"x", "modeling_evil.py": b"raise SystemExit",
                             "sub/model.safetensors": b"x", "training_args.bin": b"x"})
    main(["import", "hub:them/gpt2"])
    assert "runs/gpt2  gpt2 as transformer" in capfd.readouterr().out
    fetched = {path.rpartition("/")[2] for method, path in server.asked if "/resolve/" in path}
    assert "model.safetensors" in fetched and fetched <= set(here)
    regard.import_model(tmp_path / "gpt2", "local")
    ours, theirs = files_of("local"), files_of("runs/gpt2")
    assert ours == theirs and list(Path("runs").iterdir()) == [Path("runs/gpt2")]
    assert not any(each.suffix in (".bin", ".py") for each in tmp_path.rglob("*"))


def test_what_cannot_be_imported_is_one_line_that_names_the_model(server, pushed, capfd):
    server.put("them/pickled", {"config.json": b"{}", "pytorch_model.bin": b"x"})
    assert "them/pickled has its weights in pytorch_model.bin only, a pickle" in fails(
        ["import", "hub:them/pickled"], capfd)
    assert "regard pull me/tiny" in fails(["import", "hub:me/tiny"], capfd)
    server.put("them/empty", {"README.md": b""})
    assert "them/empty has no model.safetensors" in fails(["import", "hub:them/empty"], capfd)
    assert "them/empty holds no run that was pushed" in fails(["pull", "them/empty"], capfd)
    server.put("them/lying", {"config.json": b'{"model_type": "gpt2"}', "model.safetensors": b"x" * 20})
    line = fails(["import", "hub:them/lying"], capfd)
    assert "hub:them/lying" in line and ".part-" not in line
    assert not list(Path("runs").glob("*")) if Path("runs").exists() else True


# ------------------------------------------------------------------------------------------ as a user has it


def test_the_commands_work_by_the_variables_of_the_hub(server, trained, tmp_path):
    """In a process of its own: nothing is set but what a user sets."""
    for words in (["push", str(trained), "me/tiny", "--to", "run"], ["pull", "me/tiny", "-o", "back"]):
        done = subprocess.run([sys.executable, "-m", "regard", *words], capture_output=True, text=True, cwd=tmp_path,
                              env={**os.environ, "HF_ENDPOINT": server.url, "HF_TOKEN": TOKEN, "HF_DEBUG": "1",
                                   "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "own-home"),
                                   "PYTHONPATH": os.pathsep.join(sys.path)})
        assert done.returncode == 0, done.stderr
        assert TOKEN not in done.stdout + done.stderr
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert f"Bearer {TOKEN}" in server.tokens
