"""What may be written is the same in validation, in samples, in use and in every look: special tokens are made once."""

from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.data.batching.pair_batches import Pictures
from regard.data.pairs.pair_corpus import prepare_pairs
from regard.data.pairs.pairs import PairSettings
from regard.data.pictures.picture_corpus import PictureCorpus, caption_shard
from regard.data.reading.tally import Tally
from regard.data.tokens.tokenizers import train_tokenizer
from regard.data.tokens.vocabulary import UNK
from regard.decoding.special_tokens import pair_special_tokens, text_special_tokens
from regard.families.caption import CAPTION, CaptionAttentionSettings, CaptionTransformerSettings
from regard.look.beam_tree import beam_tree
from regard.metrics.summary_quality import measure
from regard.tasks import TASKS
from regard.tasks.caption import task as caption
from regard.tasks.caption.trained import TrainedCaptioner
from regard.tasks.summarise import task as summarise
from regard.tasks.translate import task as translate
from tests.toy_pairs import CONTEXT, says_unknown, translator

SIDE = 8
CAPTIONERS = {
    "rnn-attention": CaptionAttentionSettings(image=SIDE, patch=4, width=6, hidden=8, context=6),
    "transformer": CaptionTransformerSettings(image=SIDE, patch=4, width=8, heads=2, context=6),
}


# ---------------------------------------------------------------------------------------------- captions


@pytest.fixture(params=CAPTIONERS)
def captioner(request):
    tokenizer = train_tokenizer("word", ["a red square", "a blue square"], None)
    settings = CAPTIONERS[request.param]
    torch.manual_seed(0)
    model = says_unknown(CAPTION[request.param].build(settings, tokenizer.vocab_size).eval())
    return TrainedCaptioner(model, tokenizer, {
        "run": {"family": request.param, "task": "caption"},
        "model": {"context": settings.context, "image": SIDE, "patch": 4}})


def corpus_of(captioner, captions):
    images = np.random.default_rng(0).integers(0, 256, (len(captions), SIDE, SIDE, 3), np.uint8)
    pictures, shard = Pictures(images, np.arange(len(captions))), caption_shard(captioner.tokenizer, captions)
    return PictureCorpus(shard, shard, pictures, pictures, captioner.tokenizer, Tally(), captions)


def test_a_captioner_is_judged_and_sampled_by_what_it_says_in_use(captioner):
    images = corpus_of(captioner, ["a"] * 5).source_valid.images
    said = [each.text for each in captioner.caption(images, beam=1)]
    assert all(said) and not any("<unk>" in text for text in said)
    corpus = corpus_of(captioner, [*said[:3], "another", "another"])          # three of five are right
    assert caption.judge(captioner.model, corpus, captioner.context) == {"valid_exact": pytest.approx(60.0)}
    assert TASKS["caption"].sampler(captioner.model, corpus, captioner.context)()["text"] == said[0]
    assert UNK in captioner.special_tokens.banned
    tree = beam_tree(captioner, images[0])
    assert captioner.tokenizer.decode(tree.finished[0].tokens) == captioner.caption(images[:1])[0].text


# --------------------------------------------------------------------------------------------- sentences


@pytest.mark.parametrize("name", ["rnn-attention", "prefix", "transformer", "rnn", "mean"])
def test_a_translator_is_judged_and_sampled_by_what_it_writes_in_use(tmp_path, monkeypatch, name):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    made = translator(name, seed=3)
    lines = [f"un {'deux ' * at}Zorglub{at} trois\tone {'two ' * at}Zorglub{at} three\n" for at in range(6)]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    corpus = prepare_pairs(PairSettings((str(tmp_path / "pairs.tsv"),), "fr-en", valid=(str(tmp_path / "pairs.tsv"),)),
                           made.tokenizer, say=lambda _: None)
    says_unknown(made.model)
    pairs = corpus.held_out(100)
    used = [each.text for each in made.translate([pair.source for pair in pairs], beam=1)]
    assert len(used) == 6 and not any("<unk>" in text for text in used)
    assert any("Zorglub" in text for text in used) == made.attends                   # spelled as what was read
    assert translate.written(made.model, corpus, 6, CONTEXT) == used
    sample = TASKS["summarise"].sampler(made.model, corpus, CONTEXT)()
    assert sample["text"] == used[[pair.source for pair in pairs].index(sample["prompt"])]
    quality = made.quality([pair.source for pair in pairs], [pair.target for pair in pairs], beam=1)
    assert translate.BLEU.judge(made.model, corpus, CONTEXT)["valid_bleu"] == pytest.approx(quality.bleu)
    rouge = measure(used, [pair.target for pair in pairs], intervals=False).rougeL.f
    assert summarise.ROUGE.judge(made.model, corpus, CONTEXT)["valid_rouge"] == pytest.approx(rouge)


def test_unknown_words_may_be_written_only_where_they_can_be_spelled():
    for name, allowed in (("rnn-attention", True), ("rnn", False), ("mean", False), ("prefix", True)):
        made = translator(name)
        assert (UNK not in pair_special_tokens(made.tokenizer, made.model).banned) == allowed
    tokenizer = train_tokenizer("word", ["a b"], None)
    assert text_special_tokens(tokenizer).banned == (tokenizer.pad, tokenizer.bos, tokenizer.unk)


def test_no_other_file_says_which_tokens_are_never_written():
    package = Path(regard.__file__).parent
    told = {str(path.relative_to(package)) for path in package.rglob("*.py")
            for line in path.read_text("utf-8").splitlines() if " SpecialTokens(" in line or "t.pad, t.bos" in line}
    assert told == {"decoding/special_tokens.py"}
