"""The tree is that of the search: the same results, every number the model's, a reason for everything that was left."""


import numpy as np
import pytest
import torch

from regard.data.tokens.tokenizers import train_tokenizer
from regard.decoding.beam import BeamOptions, beam_search
from regard.errors import DataError, RunError, SettingError
from regard.families import FAMILIES
from regard.look.beam_tree import ROOT, beam_tree, ordinal
from regard.tasks.caption.trained import TrainedCaptioner
from regard.tasks.lm.trained import Trained
from regard.tasks.masked.trained import TrainedMasked
from regard.trained import load
from regard.watching import watch
from tests.fixtures.runs import HERE
from tests.toy_pairs import translator

LINE = "un deux trois cinq"
TABLES = {"run": {"family": "rnn", "task": "lm"}, "model": {}}


def language_model(name="rnn", kind="char", text="abc def"):
    """An untrained one; its vocabulary is the size of the example."""
    model = FAMILIES[name].example(torch.float64)
    tokenizer = train_tokenizer(kind, [text], None)
    assert tokenizer.vocab_size == model.vocab
    return Trained(model, tokenizer, TABLES)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(params=["rnn-attention", "transformer", "rnn", "prefix"])
def any_translator(request):
    return translator(request.param)


def nodes(tree):
    return {node.id: node for column in tree.columns for node in column}


def path(tree, node):
    """The tokens up to a node."""
    found = nodes(tree)
    tokens = []
    while node.id != ROOT:
        tokens.insert(0, node.token)
        if node.parent == ROOT:
            return tuple(tokens)
        node = found[node.parent]
    return tuple(tokens)


@torch.no_grad()
def log_probs(trained, line, tokens):
    """log p of each token of a beginning of a target, by reading it whole."""
    start = trained.open(line, new_tokens=8)
    read = torch.tensor([[*start.prompt, *tokens]])
    scores, _ = start.model.score(read[:, :-1], read[:, 1:], start.model.start(1, None, start.source))
    return scores[0, len(start.prompt) - 1:].tolist()


def log_prob(trained, line, tokens):
    return sum(log_probs(trained, line, tokens))


def test_the_search_that_is_shown_is_the_search(any_translator):
    how = BeamOptions(width=4, n_best=4)
    start = any_translator.open(LINE)
    (expected,) = beam_search(start.model, start.source, limits=[start.limit], begin=start.prompt,
                              end=start.special_tokens.end,
                              options=how, banned=start.special_tokens.banned)
    tree = beam_tree(any_translator, LINE, how)
    assert [(each.tokens, each.log_prob, each.score, each.finished) for each in tree.finished] == [
        (each.tokens, each.log_prob, each.score, each.finished) for each in expected]
    told = any_translator.translate([LINE], beam=4)[0]
    assert tree.finished[0].text == told.text and tree.finished[0].score == told.score


def test_every_number_is_what_the_model_says(any_translator):
    tree = beam_tree(any_translator, LINE, BeamOptions(width=3, length=0.7))
    found = nodes(tree)
    parents = {node.parent for node in found.values()}
    for leaf in (node for node in found.values() if node.id not in parents):
        tokens = path(tree, leaf)
        said = log_probs(any_translator, LINE, tokens)
        for length in range(len(tokens), 0, -1):                       # the leaf and all that it goes on from
            assert (leaf.token, leaf.length) == (tokens[length - 1], length)
            assert leaf.log_prob == pytest.approx(said[length - 1], abs=1e-9)
            assert leaf.total == pytest.approx(sum(said[:length]), abs=1e-9)
            assert leaf.score == pytest.approx(leaf.total / length ** 0.7, abs=1e-12)
            leaf = found.get(leaf.parent)


def test_what_goes_on_is_what_was_kept(any_translator):
    tree = beam_tree(any_translator, LINE, BeamOptions(width=3))
    found = nodes(tree)
    for before, column in zip(tree.columns, tree.columns[1:], strict=False):
        assert {node.parent for node in column} <= {node.id for node in before if node.kept and not node.ended}
        assert [node.total for node in column] == sorted((node.total for node in column), reverse=True)
    for each in tree.finished:
        node = found[each.node]
        assert node.kept and node.ended == each.finished and node.total == each.log_prob and node.score == each.score
        assert each.text == any_translator.tokenizer.target.decode(path(tree, node))


def test_everything_that_was_left_has_its_reason(any_translator):
    tree = beam_tree(any_translator, LINE, BeamOptions(width=3))
    for column in tree.columns:
        on = [node for node in column if node.kept and not node.ended]
        assert len(on) <= 3
        for node in column:
            if node.kept:
                assert ("ended: kept as finished" in node.why) == node.ended
                assert node.margin is None or node.margin >= 0
            elif "below the last kept" in node.why:
                assert len(on) == 3 and node.margin == pytest.approx(node.total - on[-1].total) and node.margin <= 0
                assert f"{-node.margin:.3g} below" in node.why
            else:
                assert node.why.startswith(("banned", "ended, but"))
    said = {node.why.split(":")[0] for column in tree.columns for node in column}
    assert "1st of 3 kept" in said and any("kept" in each and "best" in each for each in said)


def test_candidates_are_the_best_continuations_of_all(any_translator):
    """By definition: of the first step, and of a later one, all sums sorted."""
    tree = beam_tree(any_translator, LINE, BeamOptions(width=2))
    banned = set(any_translator.open(LINE).special_tokens.banned)
    for at, before in ((0, [()]), (1, [path(tree, node) for node in tree.columns[0] if node.kept and not node.ended])):
        tried = sorted(((log_prob(any_translator, LINE, (*tokens, token)), (*tokens, token)) for tokens in before
                        for token in range(any_translator.model.vocab) if token not in banned), reverse=True)[:4]
        shown = [(node.total, path(tree, node)) for node in tree.columns[at] if "banned" not in node.why]
        assert [tokens for _, tokens in shown] == [tokens for _, tokens in tried]
        assert [total for total, _ in shown] == pytest.approx([total for total, _ in tried], abs=1e-9)


def test_a_planted_bug_is_seen(any_translator, monkeypatch):
    """A tree that took the beams of the step before, instead of this one's, would give other numbers."""
    from regard.look import beam_tree as builder

    real = builder.TreeBuilder.__call__

    def stale(self, step):
        real(self, step)
        self.beams = self.beams[::-1]

    monkeypatch.setattr(builder.TreeBuilder, "__call__", stale)
    with pytest.raises((AssertionError, KeyError)):
        test_every_number_is_what_the_model_says(any_translator)


def test_a_forced_prefix(any_translator):
    free = beam_tree(any_translator, LINE, BeamOptions(width=3))
    other = next(node for column in free.columns[2::-1] for node in column if "below the last kept" in node.why)
    force = path(free, other)
    tree = beam_tree(any_translator, LINE, BeamOptions(width=3), force=force)
    assert tree.force == force and all(each.tokens[:len(force)] == force for each in tree.finished)
    for column, token in zip(tree.columns, force, strict=False):
        (on,) = [node for node in column if node.kept]
        assert on.token == token and on.why == "forced"
        assert all(node.why.startswith(("another token was forced", "banned")) for node in column if node is not on)
    there = next(node for node in tree.columns[len(force) - 1] if node.kept)
    assert there.total == pytest.approx(other.total, abs=1e-12)


def test_coverage_is_in_the_score():
    trained = translator("transformer")
    tree = beam_tree(trained, LINE, BeamOptions(width=3, coverage=0.5))
    for node in nodes(tree).values():
        assert node.covered <= 0 and node.score == pytest.approx(node.total / node.length + 0.5 * node.covered)
    assert all(node.covered is None for node in nodes(beam_tree(trained, LINE)).values())


@torch.no_grad()
@pytest.mark.parametrize("name", ["caption-rnn-attention", "caption-transformer"])
def test_coverage_of_a_picture_counts_its_patches(name):
    """By the definition: the weights on each patch, mean over layers and heads, summed over the steps of a caption."""
    trained = load(HERE / "runs" / name, device="cpu")
    picture = np.random.default_rng(0).integers(0, 256, (trained.size, trained.size, 3), np.uint8)
    tree = beam_tree(trained, picture, BeamOptions(width=2, coverage=0.5))
    source = trained.open(picture).source
    for node in tree.columns[1]:
        state, amount = trained.model.start(1, 8, source), np.zeros(trained.grid[0] * trained.grid[1])
        for token in (trained.special_tokens.begin, *path(tree, node)[:-1]):
            with watch() as seen:
                _, state = trained.model.step(torch.tensor([[token]]), state)
            amount += np.mean([reading.values[0, :, -1].mean(0).numpy() for reading in seen.readings
                               if reading.kind == "weights" and reading.values.shape[-1] == len(amount)
                               and reading.values.shape[-2] == 1], 0)
        assert node.covered == pytest.approx(np.log(np.minimum(1.0, amount)).sum(), abs=1e-4)
        assert node.score == pytest.approx(node.total / node.length + 0.5 * node.covered)


def test_what_may_not_be_said_again_says_so():
    tree = beam_tree(translator("rnn"), LINE, BeamOptions(width=4, no_repeat=1))
    assert any(node.why == "said before: no token may come twice" for node in nodes(tree).values())


def test_a_full_list_of_what_has_finished_is_said():
    """Banned words leave nothing but the end and two words: the list is soon full."""
    reasons = {node.why.split(":")[0] for seed in range(6)
               for node in nodes(beam_tree(translator("rnn", seed=seed), LINE,
                                           BeamOptions(width=3))).values() if node.ended}
    assert "ended" in reasons and any(each.startswith("ended, but") for each in reasons)


@pytest.mark.parametrize("family", FAMILIES)
def test_language_models_go_on_from_a_prompt(family):
    trained = language_model(family)
    tree = beam_tree(trained, "abc", BeamOptions(width=3), new_tokens=5)
    assert len(tree.columns) <= 5 and tree.source == ("<bos>", "a", "b", "c")
    best = tree.finished[0]
    assert best.log_prob == pytest.approx(log_prob(trained, "abc", path(tree, nodes(tree)[best.node])), abs=1e-8)
    if not best.finished:
        on = [node for node in tree.columns[-1] if node.kept and not node.ended]
        assert all(node.why.endswith("cut short: 5 tokens is the limit") for node in on)


def test_a_prompt_too_long_is_cut_from_its_beginning_and_that_is_said():
    trained = language_model("transformer")
    trained.language_model.context = 8
    tree = beam_tree(trained, "abcabcabcabc", new_tokens=6)
    assert len(tree.source) == 4 and "13 tokens and the model reads at most 8" in tree.notes[0]
    assert len(tree.columns) <= 4


def test_words_are_spelled_with_the_space_before_them():
    trained = language_model("rnn", "word", "un deux trois quatre cinq six sept")
    tree = beam_tree(trained, "un", BeamOptions(width=2), new_tokens=3)
    assert all(node.adds == f" {node.piece}" for node in tree.columns[0] if node.token > 3)


def test_a_long_source_is_searched_in_its_first_part_and_that_is_said():
    tree = beam_tree(translator(), " ".join(["un deux trois."] * 12))
    assert "first part of" in tree.notes[0] and tree.text.startswith("un deux trois.")


def test_a_captioner_is_searched_too():
    from regard.families.caption import CAPTION

    family = CAPTION["rnn-attention"]
    model, source = family.example(torch.float32), family.example_source()
    side = source.items.shape[-1]
    tokenizer = train_tokenizer("char", ["abcdefg"], None)
    tables = {"run": {"family": "rnn-attention", "task": "caption"}, "model": {"context": 6, "image": side, "patch": 4}}
    trained = TrainedCaptioner(model, tokenizer, tables)
    picture = np.random.default_rng(0).integers(0, 255, (side, side, 3)).astype(np.uint8)
    tree = beam_tree(trained, picture, BeamOptions(width=3))
    assert tree.finished[0].text == trained.caption(picture[None], beam=3)[0].text
    with pytest.raises(DataError, match="give a picture"):
        beam_tree(trained, "a text")


def test_mistakes_are_said_in_one_line():
    with pytest.raises(DataError, match="blank"):
        beam_tree(translator(), "  ")
    with pytest.raises(SettingError, match="--tokens 0"):
        beam_tree(language_model(), "a", new_tokens=0)
    with pytest.raises(RunError, match="nothing to search"):
        beam_tree(TrainedMasked(None, None, TABLES), "a")


def test_ordinals():
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]
