"""Marian's translators come in: the same probabilities and translations, and texts cut as SentencePiece cuts them."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.contract import Source
from regard.data.tokens.foreign import ADDED
from regard.errors import RegardError
from regard.interop import checking
from regard.interop.export import export
from regard.interop.found_tokenizer import found_files
from regard.interop.importing import import_run
from regard.interop.sentence_pieces import load_sentence_pieces

from .foreign_models import FRENCH, FUZZ, TEXT, build_marian

transformers = pytest.importorskip("transformers", reason="transformers is not installed, whose classes are needed")
sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")


@pytest.fixture(scope="module", params=[{}, {"scale_embedding": False, "activation_function": "gelu",
                                             "encoder_layers": 1, "decoder_layers": 2}], ids=["opus", "other"])
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    theirs = build_marian(folder / "model", **request.param)
    return theirs, regard.load(import_run(folder / "model", folder / "run").path, "cpu"), folder / "model"


def theirs_of(trained, ids, begin):
    order = trained.tokenizer.target.order
    return torch.tensor([[begin if order[id] == ADDED else int(order[id]) for id in ids]])


@torch.no_grad()
def test_all_log_probabilities_are_the_same(pair):
    theirs, trained, _ = pair
    begin, model, vocab = theirs.config.decoder_start_token_id, trained.model, trained.tokenizer.target.vocab_size
    random = np.random.default_rng(0)
    source = [*random.integers(4, vocab, 20).tolist(), 2]
    target = [1, *random.integers(4, vocab, 25).tolist()]
    wanted = theirs(input_ids=theirs_of(trained, source, begin),
                    decoder_input_ids=theirs_of(trained, target, begin)).logits[0].log_softmax(-1)
    state = model.start(1, 64, Source(torch.tensor([source]), torch.tensor([len(source)])))
    order = torch.from_numpy(trained.tokenizer.target.order)
    known = order != ADDED
    for position, id in enumerate(target):
        found, state = model.step(torch.tensor([[id]]), state)
        torch.testing.assert_close(found[0][known], wanted[position, order[known]], rtol=0, atol=1e-4)
        assert (found[0][~known].exp() == 0).all() and (~known).sum() == 1


@torch.no_grad()
def test_greedy_translations_are_the_same(pair):
    theirs, trained, folder = pair
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    line = FRENCH.splitlines()[3]
    ids = [*trained.tokenizer.source.encode(line).tolist(), 2]
    pad = theirs.config.pad_token_id
    assert theirs_of(trained, ids, 0)[0].tolist() == tokenizer(line).input_ids
    written = theirs.generate(
        torch.tensor([tokenizer(line).input_ids]), num_beams=1, do_sample=False, max_new_tokens=30,
        suppress_tokens=[pad, 1], forced_eos_token_id=None)[0, 1:].tolist()
    state, ours = trained.model.start(1, 64, Source(torch.tensor([ids]), torch.tensor([len(ids)]))), [1]
    while len(ours) < 31 and ours[-1] != 2:
        log_probs, state = trained.model.step(torch.tensor([ours[-1:]]), state)
        log_probs[:, [0, 1, 3]] = -torch.inf
        ours.append(int(log_probs[0].argmax()))
    assert theirs_of(trained, ours[1:], 0)[0].tolist() == written[:len(ours) - 1]


def test_a_text_is_cut_as_sentencepiece_cuts_it(pair):
    _, trained, folder = pair
    random = np.random.default_rng(1)
    drawn = ["".join(chr(int(code)) for code in random.integers(32, 0x250, 30)) for _ in range(200)]
    vocab = json.loads((folder / "vocab.json").read_text())
    for side, tokenizer in (("source", trained.tokenizer.source), ("target", trained.tokenizer.target)):
        made = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for text in [*FUZZ, *drawn, *FRENCH.splitlines()[:3], *TEXT.splitlines()[:3], "a</s>b<unk>c"]:
            wanted = [vocab.get(piece, vocab["<unk>"]) for piece in made.encode(text, out_type=str)]
            ids = tokenizer.encode(text)
            assert [int(tokenizer.order[id]) for id in ids] == wanted, text
            stream = tokenizer.stream()
            assert "".join(stream.push(int(id)) for id in ids) + stream.flush() == tokenizer.decode(ids)
            assert tokenizer.decode(ids) == made.decode_pieces([tokenizer.name(int(id)) for id in ids if id >= 4])


def test_the_code_of_a_language_is_one_token(pair):
    tokenizer = pair[1].tokenizer.source
    assert [tokenizer.token(int(id)) for id in tokenizer.encode(">>fr<< chat")][:1] == [">>fr<<"]


def test_lines_are_translated_with_alignments(pair):
    found = pair[1].translate(["Le chat noir dort.", "", "Où est-il ?"], beam=2, alignments=True)
    assert len(found) == 3 and found[1].text == ""
    assert found[0].weights is not None and found[0].source_pieces
    assert pair[1].languages == ("fr", "en")


def test_what_is_no_sentencepiece_model_is_one_line_and_nothing_is_written(pair, tmp_path):
    for number, raw in enumerate((b"", b"\xff" * 100, (pair[2] / "source.spm").read_bytes()[:-7], b"\x0a\x05\x0a\x03")):
        path = tmp_path / f"{number}.spm"
        path.write_bytes(raw)
        with pytest.raises(RegardError, match=r"^could not read .*: fetch it again$"):
            load_sentence_pieces(path)


@pytest.mark.parametrize("break_it, message", [
    (lambda f: (f / "source.spm").unlink(), r"could not read .*source\.spm"),
    (lambda f: (f / "vocab.json").write_text('{"</s>": 0}'), r"vocab\.json does not number 7\d pieces from 0 on"),
    (lambda f: (f / "vocab.json").rename(f / "tokenizer.json"), "use the run that it came from"),
    (lambda f: change(f, decoder_ffn_dim=40), "decoder_ffn_dim = 40: Regard has no such layer"),
    (lambda f: change(f, decoder_layers=3), "has no tensor model.decoder.layers."),
    (lambda f: change(f, normalize_before=True), "normalize_before = True"),
    (lambda f: change(f, decoder_start_token_id=1000), "decoder_start_token_id = 1000: the model has 7"),
])
def test_a_folder_that_does_not_fit_is_one_clear_line(break_it, message, pair, tmp_path):
    folder = shutil.copytree(pair[2], tmp_path / "model")
    break_it(folder)
    with pytest.raises(RegardError, match=message):
        import_run(folder, tmp_path / "out" / "run")
    assert not list((tmp_path / "out").glob("**/*"))


def change(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_it_leaves_as_it_came(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "LINES", 8)
    _, trained, folder = pair
    done = export(trained, "hf", tmp_path / "out")
    assert done.kind == "MarianMTModel" and done.checked.difference < 1e-4 and done.checked.same_text
    before, after = (load_file(each / "model.safetensors") for each in (folder, tmp_path / "out"))
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name
    for name in ("source.spm", "target.spm"):
        assert (folder / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    for name in ("vocab.json", "tokenizer_config.json"):
        assert json.loads((folder / name).read_text()) == json.loads((tmp_path / "out" / name).read_text())
    settings = [json.loads((each / "config.json").read_text()) for each in (folder, tmp_path / "out")]
    for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id", "scale_embedding", "d_model"):
        assert settings[0][name] == settings[1][name], name
    again = import_run(tmp_path / "out", tmp_path / "again").path
    tensors = regard.load(again, "cpu").model.saved_tensors()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in trained.model.saved_tensors().items())
    card = (tmp_path / "out" / "README.md").read_text()
    assert "By `regard import model`" in card and "regard train" not in card


def test_it_leaves_for_ctranslate2_and_is_searched_there(pair, tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed (regard[ct2])")
    from regard.interop.ct2_engine import open_engine

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checking, "LINES", 8)
    _, trained, folder = pair
    done = export(trained, "ct2", tmp_path / "out")
    assert done.checked.difference < 1e-4 and done.checked.same_text
    vocab = json.loads((folder / "vocab.json").read_text())
    listed = json.loads((tmp_path / "out" / "shared_vocabulary.json").read_text())
    assert {piece: id for id, piece in enumerate(listed)} == vocab
    assert (tmp_path / "out" / "source.spm").read_bytes() == (folder / "source.spm").read_bytes()
    lines = ["Le chat noir dort.", "", "Où est-il ?", "L'été, déjà vu !"]
    ours = trained.translate(lines, beam=3)
    monkeypatch.setattr(trained, "engine", open_engine(trained))
    assert [each.text for each in trained.translate(lines, beam=3)] == [each.text for each in ours]


def test_a_run_of_somebody_elses_does_not_choose_where_an_export_writes(pair, tmp_path):
    import copy

    target = copy.copy(pair[1].tokenizer.target)
    target.files = {**target.files, "../outside": "aGVsbG8=", "tokenizer_config.json": "{"}
    assert {*found_files(target, 64)} == {"source.spm", "target.spm", "vocab.json", "tokenizer_config.json"}
    for damaged in ({}, {**target.files, "source.spm": "no base64!"}):
        target.files = damaged
        with pytest.raises(RegardError, match="import it again"):
            found_files(target, 64)


def test_it_does_not_leave_where_no_file_holds_its_tokenizers(pair, tmp_path):
    with pytest.raises(RegardError, match="came with SentencePiece models"):
        export(pair[1], "onnx", tmp_path / "out")
    with pytest.raises(RegardError, match="holds no translator"):
        export(pair[1], "gguf", tmp_path / "out.gguf")
    assert not list(tmp_path.iterdir())


def test_fine_tuning_a_translator_goes_on_from_its_weights(pair, tmp_path, monkeypatch):
    from regard.training.run import TrainRequest, run_training

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for name, line in (("a.fr", "Le chat noir dort"), ("a.en", "The cat sat on")):
        (tmp_path / name).write_text("".join(f"{line} {number}.\n" for number in range(40)))
    files = (str(tmp_path / "a.fr"), str(tmp_path / "a.en"))
    settings = {"training": {"steps": 1, "batch": 200, "learning_rate": 1e-12, "samples": False, "ema": 0.0,
                             "precision": "float32"}}
    run_training(TrainRequest(files, task="translate", base=str(pair[1].path), out=str(tmp_path / "run"),
                              settings=settings, device="cpu", quiet=True))
    tuned = regard.load(tmp_path / "run", "cpu").model.saved_tensors()
    for name, tensor in pair[1].model.saved_tensors().items():
        torch.testing.assert_close(tuned[name], tensor, rtol=0, atol=1e-6)
