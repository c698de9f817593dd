"""What validation measures of a captioner: the share of pictures whose caption is exactly one of theirs."""

from types import SimpleNamespace

import numpy as np
import pytest

from regard.data.tokens.tokenizers import train_tokenizer
from regard.tasks.caption import task as caption

CAPTIONS = {3: ["a red square", "red"], 5: ["a blue dot"], 8: ["a green dot"], 9: ["nothing"]}


@pytest.fixture
def corpus():
    rows = np.array([row for row, own in CAPTIONS.items() for _ in own])
    captions = [text for own in CAPTIONS.values() for text in own]
    pictures = SimpleNamespace(rows=rows, images=np.arange(10)[:, None])
    return SimpleNamespace(source_valid=pictures, captions=captions, tokenizer=train_tokenizer("word", captions))


@pytest.mark.parametrize("judged, said, percent", [
    (500, ["red", "a blue dot", "a red square", "a dot"], 50),
    (500, ["red", "a blue dot", "a green dot", "nothing"], 100),
    (2, ["a red square", "a green dot"], 50), (500, ["a blue dot", "red", "nothing", "a green dot"], 0)])
def test_a_caption_is_right_when_it_is_one_of_its_own_picture(corpus, monkeypatch, judged, said, percent):
    asked = []

    def written(model, images, special_tokens, options):
        asked.extend(images[:, 0].tolist())
        return [[SimpleNamespace(tokens=corpus.tokenizer.encode(text).tolist())] for text in said]

    monkeypatch.setattr(caption, "picture_batches", lambda model, images, context, beams: images)
    monkeypatch.setattr(caption, "search_batches", written)
    monkeypatch.setattr(caption, "JUDGED", judged)
    assert caption.judge(None, corpus, 8) == {"valid_exact": percent}
    assert asked == list(CAPTIONS)[:len(said)]
