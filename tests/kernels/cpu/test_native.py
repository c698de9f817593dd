"""Kernels in C: each against its definition, and everything as before where they cannot be had."""

import os
import shutil
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch

from regard import storage
from regard.contract import Memory
from regard.decoding.beam import BeamOptions, beam_search
from regard.decoding.fast.fast_paths import describe_fast_paths
from regard.families import FAMILIES
from regard.families.translate import PairTransformerSettings, Vocabularies, build_transformer, example_source
from regard.kernels import attend_next, attend_source
from regard.kernels.cpu import native, packing, private
from regard.layers.cache import Followed, KeyValueCache
from regard.layers.cross_attention import CrossAttention, SourceKeys
from regard.layers.self_attention import SelfAttention
from regard.watching import watch

needed = pytest.mark.skipif(bool(native.why_not()), reason=native.why_not() or "they are here")
BATCH, SLOTS = 5, 700


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def given(heads=4, key_heads=4, width=24, slots=SLOTS):
    """Queries, keys and values as a product gives them, side by side; a cache, and how far each row is."""
    both = torch.randn(BATCH, heads + 2 * key_heads, width)
    q, k, v = both.split([heads, key_heads, key_heads], 1)
    keys, values = torch.randn(2, BATCH, slots, key_heads, width)
    return q, k, v, keys, values, torch.randint(slots, (BATCH,))


TRIALS = {"plain": {}, "grouped": dict(key_heads=2), "odd": dict(heads=3, key_heads=3, width=7),
          "wide": dict(width=256), "short": dict(slots=1), "single": dict(heads=1, key_heads=1, width=1)}


def agree(values, slopes=None, rates=None, spoil=lambda keys: None, rtol=1e-4):
    q, k, v, keys, written, count = values
    own_keys, own_written = keys.clone(), written.clone()
    wanted, _ = attend_next.by_definition(q, k, v, keys, written, count, slopes, rates)
    spoil(own_keys)
    found = attend_next.natively(q, k, v, own_keys, own_written, count, slopes, rates)
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=0.02 * rtol)
    torch.testing.assert_close(own_keys, keys, rtol=1e-5, atol=1e-6)
    assert torch.equal(own_written, written)


@needed
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["none", "sloped", "turned"])
@pytest.mark.parametrize("trial", TRIALS)
def test_a_new_token_reads_what_the_definition_says(trial, kind, threads):
    torch.set_num_threads(threads)
    values = given(**TRIALS[trial])
    heads, width = values[0].shape[1:]
    if kind == "turned" and width % 2:
        pytest.skip("pairs of channels are turned")
    agree(values, torch.rand(heads) if kind == "sloped" else None, torch.rand(width // 2) if kind == "turned" else None)


@needed
def test_large_scores_do_not_overflow_and_a_wrong_key_is_caught():
    q, *others = given()
    agree((100 * q, *others), rtol=1e-2)                                               # scores are as exact as large
    with pytest.raises(AssertionError):
        agree((q, *others), spoil=lambda keys: keys[:, 0].add_(1.0))


@needed
@pytest.mark.parametrize("beams", [1, 3])
def test_a_token_reads_its_source_as_the_definition_says(beams):
    both = torch.randn(4, 300, 2, 2, 16)
    keys, values = (each.transpose(1, 2) for each in both.unbind(2))                   # as a product gives them
    lengths = torch.tensor([300, 1, 0, 77])
    for q in (torch.randn(4 * beams, 2, 16), torch.randn(4 * beams, 16, 2).transpose(1, 2)):
        wanted = attend_source.by_definition(q, keys, values, lengths)
        torch.testing.assert_close(attend_source.natively(q, keys, values, lengths), wanted, rtol=1e-4, atol=2e-6)
        assert not wanted[2 * beams:3 * beams].any()                                   # of nothing, nothing
        assert not torch.allclose(attend_source.natively(q, keys, values, lengths - (lengths > 1).long()), wanted)


@needed
def test_nothing_is_read_or_written_beyond_what_there_is():
    q, k, v, keys, values, count = given(slots=3)
    for beyond in (3, -1, 2**40):
        count[2] = beyond
        before = keys.clone()
        with pytest.raises(IndexError):
            attend_next.natively(q, k, v, keys, values, count)
        assert torch.equal(keys, before)
    with pytest.raises(IndexError):
        attend_source.natively(q, *torch.randn(2, BATCH, 4, 9, 24), torch.tensor([9, 9, 10, 9, 9]))
    layer = SelfAttention(32, heads=4).eval()
    state = layer.start(2, 1)
    _, state = layer(torch.randn(2, 1, 32), state)
    _, state = layer(torch.randn(2, 1, 32), state)                                     # into the bin for pads
    with pytest.raises(IndexError):
        layer(torch.randn(2, 1, 32), state)


@needed
def test_what_they_cannot_do_is_known():
    x = torch.randn(2, 3, 4, 8)
    assert native.can(x) and attend_next.can(x) and not attend_next.can(x.transpose(0, 1))
    assert not native.can(x.double()) and not native.can(x.to("meta"))
    assert not attend_next.can(torch.zeros(1, 1, 1, 257))
    with torch.enable_grad():
        assert not native.can(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not native.can(x)


# ------------------------------------------------------------------------------------------------- followed


def steps(layer, follows, x, orders):
    """What a layer writes while its rows change places, with its cache moved or followed."""
    state, outputs = layer.start(len(x[0]), len(x)), []
    state.follows = follows
    for now, order in zip(x, orders, strict=True):
        y, state = layer(now[:, None], state)
        outputs.append(y)
        state = state.reorder(torch.tensor(order))
    return outputs, state


ORDERS = [[0, 0, 1, 1, 2, 2], [1, 0, 1, 5, 4, 3], [0, 0, 0, 0, 0, 5], [5, 4, 1, 2], [3, 3, 3, 0], [1, 0], [1]]


@needed
@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_beams_that_are_followed_read_what_beams_that_move_read(positions, monkeypatch):
    layer = SelfAttention(32, heads=4, kv_heads=2, positions=positions).eval()
    sizes = [3, *(len(order) for order in ORDERS[:-1])]
    x = [torch.randn(size, 32) for size in sizes]
    moved, cache = steps(layer, False, x, ORDERS)
    followed, state = steps(layer, True, x, ORDERS)
    assert isinstance(cache, KeyValueCache) and isinstance(state, Followed)
    torch.testing.assert_close(followed, moved, rtol=1e-4, atol=1e-5)
    reorder = Followed.reorder
    monkeypatch.setattr(Followed, "reorder", lambda self, rows, sources=None: reorder(self, torch.arange(len(rows))))
    with pytest.raises(AssertionError):                                                # planted: nobody changes places
        torch.testing.assert_close(steps(layer, True, x, ORDERS)[0], moved, rtol=1e-4, atol=1e-5)


@needed
def test_a_followed_cache_can_do_what_every_state_can():
    layer, x = SelfAttention(32, heads=4).eval(), [torch.randn(3, 32), torch.randn(6, 32)]
    _, cache = steps(layer, False, x, ORDERS[:2])
    _, state = steps(layer, True, x, ORDERS[:2])
    for name, tensor in cache.tensors().items():
        torch.testing.assert_close(state.tensors()[name], tensor)
    rows, more = torch.tensor([4, 1]), torch.randn(6, 3, 32)
    cache.keys = torch.cat((cache.keys, torch.zeros_like(cache.keys)), 1)              # room for what comes
    cache.values = torch.cat((cache.values, torch.zeros_like(cache.values)), 1)
    state.keys, state.values = (torch.cat((each, torch.zeros_like(each)), 1) for each in (state.keys, state.values))
    state.rows = torch.cat((state.rows, state.rows), 1)
    wanted, _ = layer(more, cache.clone())
    torch.testing.assert_close(layer(more, state)[0], wanted)                          # several tokens at once
    torch.testing.assert_close(layer(more[rows], state.select(rows))[0], wanted[rows])
    wide = torch.arange(6).repeat_interleave(2)
    torch.testing.assert_close(layer(more[wide], state.reorder(wide))[0], wanted[wide])


@needed
def test_rows_that_have_read_unequally_much_and_layers_that_bend_scores_move():
    layer = SelfAttention(32, heads=4).eval()
    _, state = layer(torch.randn(2, 3, 32), layer.start(2, 9), torch.tensor([3, 2]))
    assert isinstance(state.reorder(torch.tensor([1, 0])), KeyValueCache)
    bent = SelfAttention(32, heads=4, softcap=5.0).eval()
    _, state = bent(torch.randn(2, 1, 32), bent.start(2, 9))
    assert isinstance(state.reorder(torch.tensor([1, 0])), KeyValueCache)


@needed
def test_dropout_is_not_left_out(monkeypatch):
    monkeypatch.setattr(native, "call", lambda *_: pytest.fail("without dropout"))
    layer, x = SelfAttention(32, heads=4, dropout=0.5).train(), torch.randn(2, 1, 32)
    layer(x, layer.start(2, 4))
    cross = CrossAttention(32, 32, heads=4, dropout=0.5).train()
    cross(x, cross.start(2, None, Memory(torch.randn(2, 3, 32), torch.tensor([3, 2]))))


@needed
def test_who_watches_changes_no_number_and_sees_all_weights():
    layer, memory = CrossAttention(32, 32, heads=4).eval(), torch.randn(2, 9, 32)
    keys, values = layer.kv(memory).unflatten(-1, (2, 4, -1)).unbind(2)
    state = SourceKeys(keys.transpose(1, 2), values.transpose(1, 2), torch.tensor([9, 4]))
    x = torch.randn(6, 1, 32)                                                          # three beams each
    alone, _ = layer(x, state)
    with watch() as seen:
        watched, _ = layer(x, state)
    weights = seen.of("weights")[0].values
    assert torch.equal(alone, watched) and weights.shape == (6, 4, 1, 9)
    read = torch.einsum("bhtl,bhlk->bthk", weights, state.values.repeat_interleave(3, 0)).flatten(2)
    torch.testing.assert_close(layer.out(read), alone, rtol=1e-4, atol=1e-5)


@needed
def test_who_watches_beams_that_are_followed_changes_no_number():
    layer, x = SelfAttention(32, heads=4).eval(), [torch.randn(size, 32) for size in (3, 6, 6)]

    def last(watched):
        state = layer.start(3, 4)
        for now, order in zip(x, ORDERS[:2], strict=False):
            state = layer(now[:, None], state)[1].reorder(torch.tensor(order))
        assert isinstance(state, Followed)
        with watch() if watched else nullcontext() as seen:
            return layer(x[2][:, None], state)[0], seen

    (alone, _), (watched, seen) = last(False), last(True)
    weights = seen.of("weights")[0].values
    assert torch.equal(alone, watched) and not weights[..., 3:].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(6, 4, 1))


@needed
@pytest.mark.parametrize("settings", [dict(placement="post", positions="sinusoidal"), dict(positions="rotary")])
def test_a_search_finds_by_them_what_it_finds_without(settings, monkeypatch):
    model = build_transformer(
        PairTransformerSettings(layers=2, width=32, heads=4, context=32, dropout=0.0, **settings),
        Vocabularies(40, 40)).eval()
    torch.nn.init.normal_(model.head.weight, std=0.3)
    options = dict(limits=[9, 12], options=BeamOptions(4, n_best=3), begin=1, end=2, banned=(0, 1, 3))
    used = []
    call = native.call
    monkeypatch.setattr(native, "call", lambda name, *values: used.append(name) or call(name, *values))
    found = beam_search(model, example_source(), **options)
    assert set(used) == {"attend_next", "attend_source"}
    monkeypatch.setattr(native, "can", lambda x: False)
    for own, plain in zip(found, beam_search(model, example_source(), **options), strict=True):
        assert [each.tokens for each in own] == [each.tokens for each in plain]
        assert [each.log_prob for each in own] == pytest.approx([each.log_prob for each in plain], abs=1e-4)


# ------------------------------------------------------------------------------------------ where they come from


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """As if nothing had been built."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    native._loaded.cache_clear()
    yield tmp_path
    native._loaded.cache_clear()


def kept_file():
    return private.folder_of("kernels") / f"{native._key(native._openmp())}.sealed"


def asked_again():
    native._loaded.cache_clear()
    return native.why_not()


@needed
def test_they_are_built_once_and_kept(fresh, monkeypatch, capfd):
    assert not native.why_not()
    assert [path.name for path in private.folder_of("kernels").iterdir()] == [kept_file().name]
    assert kept_file().stat().st_mode & 0o777 == 0o600 and kept_file().parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(native, "_build", lambda *_: pytest.fail("built again"))
    assert not asked_again() and not capfd.readouterr().err
    agree(given())


@needed
@pytest.mark.parametrize("damage", ["flipped", "a page less", "empty", "other", "folder"])
def test_one_that_is_damaged_is_built_again(fresh, damage, capfd):
    native.why_not()
    whole, path = kept_file().read_bytes(), kept_file()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes({"flipped": whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:], "other": b"half of it",
                          "a page less": whole[:-4096], "empty": b""}[damage])
        path.chmod(0o600)
    assert not asked_again() and (damage == "folder" or path.read_bytes() == whole)
    told = capfd.readouterr().err
    assert told.startswith("(kernels in C are built again: in ") and told.count("\n") == 1
    agree(given())


@needed
def test_one_that_is_cut_short_kills_nobody(fresh):
    """In a process of its own: half a library, once loaded, ends it by SIGBUS."""
    native.why_not()
    whole, path = kept_file().read_bytes(), kept_file()
    os.truncate(path, len(whole) // 2)
    told = subprocess.run([sys.executable, "-c", "from regard.kernels.cpu import native; print(native.why_not())"],
                          capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, "\n") and f"{path.name} is damaged" in told.stderr
    assert path.read_bytes() == whole


# ------------------------------------------------------------------------------------------ no one else's code


@pytest.fixture
def planted(fresh):
    """A library that leaves a mark when it is loaded, as bytes; and the mark, looked for at the end."""
    mark, source, library = fresh / "it ran", fresh / "evil.c", fresh / "evil.so"
    source.write_text("#include <stdio.h>\n__attribute__((constructor)) static void run(void) {\n"
                      f'  FILE *file = fopen("{mark}", "w"); if (file) fclose(file);\n}}\n'
                      "int attend_next(void) { return 0; }\nint attend_source(void) { return 0; }\n")
    subprocess.run([shutil.which("cc") or "gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    yield library.read_bytes()
    assert not mark.exists(), "a planted library was loaded"


def sealed(data):
    """As we would keep it: whoever can write the folder can write the hash."""
    return storage.digest(data).encode() + b"\n" + data


@needed
def test_the_planted_library_does_leave_a_mark(fresh, planted):
    native._load(planted)
    (fresh / "it ran").unlink()


@needed
@pytest.mark.parametrize("name", ["{key}.so", "{key}.sealed", "user-{user}/{key}.so", "user-{user}/{key}.sealed"])
def test_another_library_under_our_name_is_not_loaded(fresh, planted, name):
    key = native._key(native._openmp())
    path = fresh / "cache" / "kernels" / name.format(key=key, user=os.geteuid())
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(planted)
    assert not native.why_not()
    agree(given())


def in_a_folder_for_all(path, data):
    path.write_bytes(sealed(data))
    path.parent.chmod(0o777)


def in_a_folder_of_the_group(path, data):
    path.write_bytes(sealed(data))
    path.parent.chmod(0o770)


def in_a_cache_for_all(path, data):
    path.write_bytes(sealed(data))
    path.parents[2].chmod(0o777)


def in_a_sticky_cache(path, data):
    path.write_bytes(sealed(data))
    path.parents[1].chmod(0o1777)


def below_a_folder_for_all(path, data):
    path.write_bytes(sealed(data))
    path.parents[3].chmod(0o777)


def by_a_link(path, data):
    (path.parents[2] / "elsewhere").write_bytes(sealed(data))
    path.symlink_to(path.parents[2] / "elsewhere")


def by_a_linked_folder(path, data):
    path.write_bytes(sealed(data))
    path.parent.rename(path.parents[2] / "elsewhere")
    path.parent.symlink_to(path.parents[2] / "elsewhere")


def that_the_group_may_write(path, data):
    path.write_bytes(sealed(data))
    path.chmod(0o660)


def of_another_user(path, data):
    path.write_bytes(sealed(data))
    os.chown(path, 12345, 12345)


def in_a_folder_of_another_user(path, data):
    path.write_bytes(sealed(data))
    os.chown(path.parent, 12345, 12345)


@needed
@pytest.mark.parametrize("plant", [
    in_a_folder_for_all, in_a_folder_of_the_group, in_a_cache_for_all, in_a_sticky_cache, below_a_folder_for_all,
    by_a_link, by_a_linked_folder, that_the_group_may_write, of_another_user, in_a_folder_of_another_user])
def test_a_library_that_others_could_have_written_is_not_loaded(fresh, planted, plant, capfd):
    if "another_user" in plant.__name__ and os.geteuid():
        pytest.skip("only root gives files away")
    path = kept_file()
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o700)
    plant(path, planted)
    assert not native.why_not()
    agree(given())
    assert capfd.readouterr().err.startswith("(kernels in C are built ")
    assert not asked_again()                                                           # the next process, too


@needed
def test_a_pipe_in_its_place_makes_nobody_wait(fresh):
    kept_file().parent.mkdir(parents=True, mode=0o700)
    os.mkfifo(kept_file(), 0o600)
    assert not native.why_not() and kept_file().is_file()


@needed
def test_a_system_that_loads_nothing_from_memory_gets_a_private_copy(fresh, monkeypatch):
    def refused(name):
        raise PermissionError(1, "not here")

    monkeypatch.setattr(os, "memfd_create", refused)
    assert not native.why_not()
    agree(given())


@needed
def test_a_cache_that_cannot_be_written_to_is_done_without(fresh, monkeypatch):
    (fresh / "cache").write_text("in the way")
    assert not native.why_not()
    agree(given())


def test_without_a_compiler_torch_does_it_and_the_reason_is_told(fresh, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    why = native.why_not()
    assert why and not native.can(torch.zeros(1))
    if sys.platform == "linux" and native._openmp() is not None:
        assert "no C compiler" in why
    layer = SelfAttention(32, heads=4).eval()
    y, state = layer(torch.randn(2, 1, 32), layer.start(2, 4))
    assert y.isfinite().all() and isinstance(state.reorder(torch.tensor([1, 0])), KeyValueCache)


@needed
def test_a_compiler_that_fails_is_told_in_one_line(fresh, monkeypatch):
    broken = fresh / "broken.c"
    broken.write_text("int main( {")
    monkeypatch.setattr(native, "SOURCE", broken)
    assert native.why_not().startswith("kernels in C could not be built: ") and "\n" not in native.why_not()


@needed
def test_what_is_taken_is_said(monkeypatch):
    assert describe_fast_paths(torch.device("cpu")).endswith("; attention in C")
    monkeypatch.setattr(native, "why_not", lambda: "no C here")
    monkeypatch.setattr(packing, "why_not", lambda threads: "no library")
    assert describe_fast_paths(torch.device("cpu")) == "weights as they are: no library; attention by torch: no C here"


def test_the_environment_keeps_them_out():
    told = subprocess.run([sys.executable, "-c", "from regard.kernels.cpu import native; print(native.why_not())"],
                          env={**os.environ, "REGARD_KERNELS": "torch"}, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "REGARD_KERNELS = torch says so"


@needed
def test_a_family_with_attention_writes_by_them(monkeypatch):
    from regard.decoding.stream import generate_tokens

    model = FAMILIES["transformer"].example(torch.float32)
    used = []
    call = native.call
    monkeypatch.setattr(native, "call", lambda name, *values: used.append(name) or call(name, *values))
    by_them = list(generate_tokens(model, [[1, 2], [3, 4]], new_tokens=6))
    assert used
    monkeypatch.setattr(native, "can", lambda x: False)
    assert list(generate_tokens(model, [[1, 2], [3, 4]], new_tokens=6)) == by_them

