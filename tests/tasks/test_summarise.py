"""Summarising: long documents are kept, parts are as large as can be, and ROUGE chooses the weights."""

import pytest

from regard.data.pairs.pairs import DocumentSettings, PairSettings, read_pairs
from regard.data.reading.tally import Tally
from regard.tasks import task_named
from regard.tasks.summarise.task import CONTEXT
from regard.tasks.summarise.trained import TrainedSummariser
from tests.toy_pairs import CONTEXT as TOY
from tests.toy_pairs import translator


def test_a_document_may_be_many_times_longer_than_its_summary(tmp_path):
    (tmp_path / "pairs.tsv").write_text("word " * 400 + "\tshort\n")
    for settings, kept in ((DocumentSettings, 1), (PairSettings, 0)):
        tally = Tally()
        found = read_pairs(settings((str(tmp_path / "pairs.tsv"),)), tally)
        if kept:
            assert len(list(found)) == 1
        else:
            with pytest.raises(Exception, match="no pairs left"):
                list(found)


@pytest.mark.parametrize("names", ['"document": "d", "summary": "s"', '"text": "d", "summary": "s"',
                                   '"article": "d", "highlights": "s"', '"source": "d", "target": "s"'])
def test_documents_and_summaries_are_known_by_their_usual_names(tmp_path, names):
    (tmp_path / "pairs.jsonl").write_text("{" + names + "}\n")
    assert [*read_pairs(DocumentSettings((str(tmp_path / "pairs.jsonl"),)))] == [("d", "s")]


def test_the_context_is_that_of_documents():
    from regard.families.sizes import Scale

    for name in ("transformer", "rnn-attention", "rnn", "prefix"):
        sizes = task_named("summarise").family(name).sizes(Scale(10**6, 500, False, 5.0), {})
        assert sizes.model["context"] == CONTEXT and sizes.training["batch"] <= 512


def test_parts_of_a_long_document_hold_as_many_sentences_as_fit_and_lose_nothing():
    made = translator("rnn-attention")
    model = TrainedSummariser(made.model, made.tokenizer, made.tables)
    document = "Un deux. Trois quatre. Cinq un deux. Un. Deux trois quatre cinq. Un deux trois."
    parts = model.sentences(document)
    assert "".join(part.text + part.after for part in parts) == document
    sizes = [len(model.tokenizer.source.encode(part.text)) + 1 for part in parts]
    assert max(sizes) <= TOY and len(parts) < len(made.sentences(document))
    assert model.sentences("Un deux.")[0].text == "Un deux." and model.sentences("  ") == []
