"""The run folder: what was changed is seen, what was lost is not written over, nothing reaches outside."""

import json
import os
import shutil
import warnings

import pytest

from regard import storage
from regard.data.tokens import vocabulary
from regard.errors import RegardNote, RunError
from regard.manifest import FORMAT, MANIFEST, Manifest, digest_values, read_manifest, write_manifest
from regard.run_folder import SOURCE_TOKENIZER, RunFolder, read_log
from regard.trained import load
from tests.fixtures.runs import HERE


@pytest.fixture
def run(tmp_path):
    """A small translator with all files that a run can have, in today's format."""
    old = HERE / "runs" / "translate-transformer-separate"
    copy = RunFolder(shutil.copytree(old, tmp_path / "run"))
    with pytest.warns(RegardNote, match="has no manifest"):
        tables = copy.read_settings()
    copy.save_settings({**tables, "run": {"format": FORMAT, **tables["run"]}})
    return copy


def flip(path, bit):
    raw = bytearray(path.read_bytes())
    raw[bit // 8] ^= 1 << bit % 8
    path.write_bytes(raw)


@pytest.fixture
def strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardNote)
        yield


def test_a_whole_run_loads_without_a_note(run, strict):
    assert sorted(read_manifest(run.path).files) == ["model.safetensors", "run.toml", "source-tokenizer.json",
                                                      "tokenizer.json"]
    load(run.path, device="cpu")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "source-tokenizer.json"])
def test_a_flipped_bit_of_weights_or_tokenizers_is_refused(run, name):
    size = 8 * (run.path / name).stat().st_size
    for bit in range(3, size, size // 12):
        flip(run.path / name, bit)
        with pytest.raises(RunError, match=f"{name} is not as it was written: it was damaged or replaced; "):
            load(run.path, device="cpu")
        flip(run.path / name, bit)


def test_a_flipped_bit_of_the_settings_or_the_manifest_is_told(run):
    for name, words in ((MANIFEST, "manifest.json is damaged: the files"),
                        ("run.toml", "run.toml was changed since it was written: it is used as it is now")):
        size = 8 * (run.path / name).stat().st_size
        for bit in range(0, size, size // 25):
            flip(run.path / name, bit)
            with warnings.catch_warnings(record=True) as notes:
                warnings.simplefilter("always")
                try:
                    load(run.path, device="cpu")
                except Exception as error:                   # settings that make no sense any more
                    assert type(error).__name__ in ("RunError", "SettingError", "DataError"), error
                else:
                    assert [words in str(note.message) for note in notes].count(True) == 1, (bit, notes)
            flip(run.path / name, bit)


def test_settings_edited_by_hand_are_used_and_told(run):
    text = run.settings_path.read_text()
    run.settings_path.write_text(text.replace("context = 16", "context = 12"))
    with pytest.warns(RegardNote, match="was changed since it was written"):
        assert load(run.path, device="cpu").context == 12


def test_a_tokenizer_that_is_missing_or_was_put_there_is_refused(run):
    gone = run.path / SOURCE_TOKENIZER
    gone.rename(run.path / "elsewhere")
    with pytest.raises(RunError, match=r"source-tokenizer\.json is missing, though manifest\.json names it"):
        load(run.path, device="cpu")
    manifest = read_manifest(run.path)
    del manifest.files[SOURCE_TOKENIZER]
    write_manifest(run.path, manifest)
    (run.path / "elsewhere").rename(gone)
    with pytest.raises(RunError, match="damaged or replaced"):
        load(run.path, device="cpu")


def test_the_name_of_the_second_tokenizer_is_the_one_that_pairs_use():
    assert SOURCE_TOKENIZER == vocabulary.SOURCE


def test_a_newer_format_is_refused_and_an_older_one_read(run):
    for found, text in ((FORMAT + 1, f"has format {FORMAT + 1}, and this version of Regard reads formats up to"),
                        ("soon", "run.format 'soon' is not a whole number")):
        tables = run.read_settings()
        run.save_settings({**tables, "run": {**tables["run"], "format": found}})
        with pytest.raises(RunError, match=text):
            load(run.path, device="cpu")
        run.save_settings(tables)
    write_manifest(run.path, Manifest(format=FORMAT + 1))
    with pytest.raises(RunError, match="made by a newer one; update Regard"):
        load(run.path, device="cpu")


@pytest.mark.parametrize("operation", range(1, 10))
def test_whoever_dies_while_weights_are_replaced_leaves_old_or_new_ones_that_load(run, monkeypatch, strict, operation):
    done = []

    def die(name, path):
        done.append(name)
        if len(done) == operation:
            raise KeyboardInterrupt

    before = run.weights_path.read_bytes()
    monkeypatch.setattr(storage, "before_operation", die)
    with pytest.raises(KeyboardInterrupt):
        run.write_recorded("model.safetensors", before + b"")
        run.write_recorded("run.toml", run.settings_path.read_bytes() + b"\n# more\n")
        raise AssertionError("a replacement takes more operations")
    monkeypatch.setattr(storage, "before_operation", None)
    load(run.path, device="cpu")


# --------------------------------------------------------------------------------------------- checkpoints


def save(folder, step, keep=2):
    return folder.save_checkpoint(step, {"model.safetensors": b"weights %d" % step, "at.json": b"{}"}, keep)


def names(folder):
    return sorted(path.name for path in folder.checkpoints_path.iterdir())


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / "run")
    made.create()
    return made


def test_damaged_checkpoints_are_no_reason_to_drop_a_good_one(folder):
    """With higher steps than the good ones they used to push out every new checkpoint."""
    for step in (8, 9):
        save(folder, step)
    for step in (8, 9):
        (folder.checkpoints_path / f"{step:08d}" / "at.json").write_text("?")
    assert save(folder, 1) == ["00000009", "00000008"]
    assert names(folder) == ["00000001", "damaged-00000008", "damaged-00000009"]
    save(folder, 2)
    save(folder, 3)
    assert names(folder) == ["00000002", "00000003", "damaged-00000008", "damaged-00000009"]


def test_a_damaged_checkpoint_among_those_to_be_kept_makes_room_for_an_older_one(folder):
    for step in (1, 2):
        save(folder, step)
    (folder.checkpoints_path / "00000002" / "at.json").unlink()
    save(folder, 3)
    assert names(folder) == ["00000001", "00000003", "damaged-00000002"]


def test_steps_of_more_digits_are_newer(folder):
    for step in (99_999_999, 100_000_000, 100_000_001):
        save(folder, step)
    assert names(folder) == ["100000000", "100000001"]


def test_a_checkpoint_of_a_newer_format_is_refused_and_not_taken_for_damaged(folder):
    save(folder, 1)
    manifest = folder.checkpoints()[-1] / MANIFEST
    values = {**json.loads(manifest.read_text()), "format": FORMAT + 1}
    values.pop("sha256")
    for own in ({"sha256": digest_values(values)}, {}):      # as it is written, and as it was at first
        manifest.write_text(json.dumps({**values, **own}))
        with pytest.raises(RunError, match="update Regard"):
            folder.newest_checkpoint()


def test_a_damaged_format_of_a_checkpoint_is_damage_and_stops_no_training(folder):
    for step in (1, 2):
        save(folder, step)
    manifest = folder.checkpoints()[-1] / MANIFEST
    manifest.write_text(manifest.read_text().replace(f'"format": {FORMAT}', '"format": 9'))
    assert folder.newest_checkpoint()[1] == ["00000002"]
    save(folder, 3)
    assert names(folder) == ["00000001", "00000003", "damaged-00000002"]


def test_what_a_newer_version_writes_into_an_older_run_has_the_newer_format(run, monkeypatch):
    """Or the older version would load it without a word."""
    monkeypatch.setattr("regard.run_folder.FORMAT", FORMAT + 1)
    run.save_settings(run.read_settings())
    with pytest.raises(RunError, match="update Regard"):
        read_manifest(run.path)


def test_samples_alone_are_remains_of_a_run(folder):
    folder.samples_path.write_text("{}\n")
    assert "samples.jsonl" in folder.remains()


# --------------------------------------------------------------------------------------------------- links


@pytest.mark.parametrize("what", ["checkpoints", "metrics.jsonl", "checkpoints/00000001"])
def test_a_link_in_a_run_folder_is_refused_and_what_it_points_to_left_alone(tmp_path, what):
    theirs, ours = RunFolder(tmp_path / "theirs"), RunFolder(tmp_path / "ours")
    for folder in (theirs, ours):
        folder.create()
    theirs.metrics_path.write_text('{"step": 1}\n')
    for step in (1, 2):
        save(theirs, step)
    if (ours.path / what).exists():
        os.rmdir(ours.path / what)
    (ours.path / what).symlink_to(theirs.path / what, target_is_directory="." not in what)
    for act in (ours.create, lambda: save(ours, 7, keep=1)):
        with pytest.raises(RunError, match=f"{what} is a link, and a run is written only where it lies"):
            act()
    assert names(theirs) == ["00000001", "00000002"] and theirs.metrics_path.read_text() == '{"step": 1}\n'


def test_removing_a_link_leaves_what_it_points_to(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "kept", target_is_directory=True)
    storage.remove(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "kept" / "file").exists()


# ---------------------------------------------------------------------------------------------------- logs


def test_lines_that_are_no_rows_are_counted(tmp_path):
    log = tmp_path / "metrics.jsonl"
    log.write_bytes(b'{"step": 1}\n{"step": 2\n\n[3]\n{"step": "x"}\n\xff\xfe\n{"step": 4}\n{"ste')
    assert read_log(log) == ([{"step": 1}, {"step": 4}], 5)
    assert read_log(tmp_path / "none") == ([], 0)


def test_a_note_on_a_folder_whose_name_is_no_text_can_be_written_anywhere(tmp_path):
    name = os.fsdecode(b"caf\xff")
    old = shutil.copytree(HERE / "runs" / "lm-ngram", tmp_path / name)
    with pytest.warns(RegardNote, match=r"caf\\udcff has no manifest") as notes:
        RunFolder(old).read_settings()
    assert all(str(each.message).encode() for each in notes)


def test_what_remains_of_a_run_without_settings_is_told_unless_it_never_began(run, tmp_path):
    """A manifest that names run.toml says that a run began; one that does not, that it died before."""
    assert run.remains() == []
    run.settings_path.unlink()
    assert run.manifest().names("run.toml") and run.remains() == ["model.safetensors", "metrics.jsonl"]
    write_manifest(run.path, Manifest())
    assert run.remains() == []
