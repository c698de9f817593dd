"""A trained language model, ready to use: it continues texts and says how surprising they are.

    model = regard.load("runs/notes")
    print(model.generate("Once upon a time"))
    print(model.score("A sentence nobody wrote before.").perplexity)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Learner
from regard.data.batching.text_batches import Batch
from regard.data.reading.arrow_tables import frame_file
from regard.data.reading.corpus import encode_files
from regard.data.reading.overlap import Overlap
from regard.data.reading.readers import ReadSettings
from regard.data.reading.shards import Counts, Shard
from regard.data.tokens.tokenizers import Tokenizer
from regard.decoding.sampling import Sampling
from regard.decoding.special_tokens import SpecialTokens, text_special_tokens
from regard.decoding.stream import generate_tokens
from regard.errors import DataError, RunError, SettingError
from regard.laws.check import Report, check_model
from regard.look.opening import Opening
from regard.metrics.perplexity import Surprise, score_batches
from regard.models.mixture import Mixture
from regard.tasks.lm.batches import HeldOut, reading_for
from regard.tasks.lm.mixing import PartScores, score_parts
from regard.tasks.trained_model import TrainedModel

DEFAULT_CONTEXT = 1024          # tokens scored at once by a model that has no limit of its own


@dataclass
class Trained(TrainedModel):
    """A model with everything needed to use it on text."""

    model: LanguageModel
    tokenizer: Tokenizer

    @property
    def language_model(self) -> LanguageModel:
        """The model, by the name that it had first."""
        return self.model

    @property
    def mixture(self) -> Mixture | None:
        """The model, if it is a network mixed with an n-gram."""
        return self.model if isinstance(self.model, Mixture) else None

    @property
    def learner(self) -> Learner | None:
        """The network, if it learns by gradients; of a mixture, the part that does."""
        network = self.model if self.mixture is None else self.mixture.network
        return network if isinstance(network, Learner) else None

    @property
    def documents(self) -> str:
        """The unit of a document in training: a file, a line or a paragraph."""
        return str(self.tables["data"]["documents"])

    @property
    def special_tokens(self) -> SpecialTokens:
        return text_special_tokens(self.tokenizer)

    def open(self, given: str, *, new_tokens: int = 0, whole: bool = False) -> Opening:
        """A prompt is read and not scored; of one too long for the model its end is read, unless `whole`."""
        if new_tokens < 1:
            raise SettingError(f"--tokens {new_tokens}: must be at least 1")
        t, context = self.tokenizer, self.model.context
        prompt = [t.bos, *t.encode(given).tolist()]
        notes: tuple[str, ...] = ()
        if context is not None and not whole:
            new_tokens = min(new_tokens, max(1, context // 2))
            room = context - new_tokens
            if len(prompt) > room:
                notes = (f"the prompt has {len(prompt)} tokens and the model reads at most {context}: the search "
                         f"begins with its last {room}",)
                prompt = prompt[-room:]
        return Opening(self.model, t, self.special_tokens, tuple(prompt), new_tokens,
                       pieces=tuple(map(t.token, prompt)), text=given, notes=notes)

    def check_laws(self) -> Report:
        return check_model(self.model)

    # ------------------------------------------------------------------------------------- generating

    def generate(
        self, prompt: str = "", *, new_tokens: int = 256, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
        seed: int = 0, notice: Callable[[str], None] | None = None,
    ) -> str:
        """Return the prompt's continuation, up to <eos> or `new_tokens` tokens."""
        sampling = Sampling(temperature, top_k, top_p, seed)
        return "".join(self.stream(prompt, new_tokens=new_tokens, sampling=sampling, notice=notice))

    def stream(
        self, prompt: str = "", *, new_tokens: int = 256, sampling: Sampling | None = None, row: int = 0,
        notice: Callable[[str], None] | None = None,
    ) -> Iterator[str]:
        """Yield the continuation, piece by piece, once each is certain. `row` draws another text from the same seed."""
        read = self.tokenizer.encode(prompt).tolist()
        writer = self.tokenizer.stream(after=read)
        tokens = [self.tokenizer.bos, *read]
        for step in self.steps([tokens], new_tokens=new_tokens, sampling=sampling, row_ids=[row], notice=notice):
            if step[0] is not None and (text := writer.push(step[0])):
                yield text
        if text := writer.flush():
            yield text

    def steps(
        self, prompts: Sequence[Sequence[int]], *, new_tokens: int, sampling: Sampling | None = None,
        row_ids: Sequence[int] | None = None, notice: Callable[[str], None] | None = None,
    ) -> Iterator[list[int | None]]:
        """Yield token ids, a list a step, for many prompts at once."""
        t = self.special_tokens
        yield from generate_tokens(self.model, prompts, new_tokens=new_tokens, sampling=sampling, end=t.end,
                                   banned=t.banned, row_ids=row_ids, notice=notice)

    # ---------------------------------------------------------------------------------------- scoring

    def score(self, text: str) -> Surprise:
        """Return the surprise of the model at a text, from <bos> on; the end of the text is not scored."""
        ids = self.tokenizer.encode(text)
        if not len(ids):
            raise DataError("there is no text to score: it is empty")
        _, nats = self.score_ids(ids.tolist())
        return Surprise(nats, tokens=len(ids), words=len(text.split()), bytes=len(text.encode()),
                        unknown=int((ids == self.tokenizer.unk).sum()))

    def score_ids(self, ids: Sequence[int]) -> tuple[list[float], float]:
        """Return the log-probability of each token after <bos>, read in the windows of training, and all the nats."""
        tokens, targets = torch.tensor([[self.tokenizer.bos, *ids[:-1]]]), torch.tensor([list(ids)])
        found: list[float] = []
        nats, width = 0.0, self.window or len(ids)
        for first in range(0, len(ids), width):
            cut = slice(first, first + width)
            for _, scores in score_batches(self.model, [Batch(tokens[:, cut], targets[:, cut], None)]):
                nats -= float(scores.double().sum())
                found += scores[0].double().tolist()
        return found, nats

    def score_lines(self, texts: Sequence[str]) -> Tensor:
        """Return the log-probability (N,) of each text with its end, each read by itself: many at once are quickest."""
        if not texts:
            return torch.zeros(0, dtype=torch.float64)
        tokens, ends = self.tokenizer.encode_lines(texts)
        counts = Counts(tokens=len(tokens), documents=len(ends))
        scores = self.token_scores(Shard(Path(), tokens, ends, counts, "", ""), "line").double().numpy()
        return torch.from_numpy(np.add.reduceat(scores, np.append(0, ends[:-1])))

    def score_overlap(self, overlap: Overlap) -> dict[str, float | None]:
        """Return the bits per byte of a part's lines: of all, of those in the training part too, and of the others."""
        nats, shared = -self.score_lines(overlap.lines).numpy(), np.array(overlap.shared, bool)
        sizes = np.array([len(line.encode()) + 1 for line in overlap.lines])
        rows = {"all": np.ones(len(nats), bool), "in train too": shared, "others": ~shared}
        return {name: float(nats[some].sum() / math.log(2) / sizes[some].sum()) if some.any() else None
                for name, some in rows.items()}

    def score_files(self, files: Any, **reading: Any) -> Surprise:
        """Return the surprise over whole files, streamed, or over a frame; each document ends with <eos>."""
        shard = self.encode_files(files, **reading)
        return self.score_shard(shard, reading.get("documents"))

    def encode_files(self, files: Any, on_bad_text: str = "fail", documents: str | None = None,
                     part: str | None = None, field: str | None = None) -> Shard:
        """Return files, or a frame, as one shard; `part` is of an embedded corpus, `test` unless told. `field` is the
        one of records with the text, as in training unless told."""
        settings = ReadSettings(documents or self.documents, on_bad_text,
                                field or self.tables["data"].get("field", ReadSettings.field))
        with frame_file(files, settings.field) as names:
            return encode_files(names, self.tokenizer, settings, say=lambda text: None, part=part)

    def score_shard(self, shard: Shard, documents: str | None = None) -> Surprise:
        return self.surprise(shard, -sum(float(scores.double().sum()) for scores in self._scores(shard, documents)))

    def unit_nats(self, shard: Shard, ends: np.ndarray) -> np.ndarray:
        """Return the nats (U,) of each stretch of the shard, given the token after each; they add up to all of it."""
        nats, first = np.zeros(len(ends)), 0
        for scores in self._scores(shard, None):
            units = np.searchsorted(ends, np.arange(first, first + len(scores)), "right")
            nats -= np.bincount(units, scores.double().cpu().numpy(), len(ends))
            first += len(scores)
        return nats

    @staticmethod
    def surprise(shard: Shard, nats: float) -> Surprise:
        return Surprise(nats, tokens=len(shard.tokens), words=shard.counts.words, bytes=shard.counts.bytes,
                        unknown=shard.counts.unknown)

    def token_scores(self, shard: Shard, documents: str | None = None) -> Tensor:
        """Return the log-probability of every token of the shard, in order."""
        return torch.cat([scores.cpu() for scores in self._scores(shard, documents)])

    def _scores(self, shard: Shard, documents: str | None) -> Iterator[Tensor]:
        """Yield the scores of the shard's tokens in order; at once, by a model with a `score_text`."""
        if self.mixture is not None:
            yield self.part_scores(shard, documents).mix(self.mixture)
            return
        whole = getattr(self.model, "score_text", None)
        if whole is not None:
            framed = reading_for(documents or self.documents) == "documents"
            yield whole(shard.tokens, shard.ends if framed else None)
            return
        for batch, scores in score_batches(self.model, self.held_out(shard, documents)):
            yield scores[batch.is_real().to(scores.device)]

    def part_scores(self, shard: Shard, documents: str | None = None) -> PartScores:
        """Return the scores of the parts of a mixture: the network's and the n-gram's."""
        assert self.mixture is not None, "only a mixture has parts"
        return score_parts(self.mixture, shard, self.held_out(shard, documents))

    def held_out(self, shard: Shard, documents: str | None = None) -> HeldOut:
        framed = reading_for(documents or self.documents) == "documents"
        return HeldOut(shard, self.window, 16, self.tokenizer.bos, framed)

    @property
    def context(self) -> int:
        """Tokens read at once in training."""
        return int(self.tables["model"].get("context", DEFAULT_CONTEXT))

    @property
    def window(self) -> int | None:
        """Tokens scored at once: as many as in training; None: all, by a model that was not trained in windows."""
        return self.context if isinstance(self.model, nn.Module) else None

    def encode(self, text: str) -> Tensor:
        """Return the vectors (T, D) of the tokens of a text in their context."""
        model: Any = self.learner
        if model is None:
            raise RunError(f"the {self.family} family has no vectors: only neural families encode")
        model.eval()
        ids = torch.tensor([[self.tokenizer.bos, *self.tokenizer.encode(text).tolist()]], device=model.device)
        with torch.no_grad():
            windows = [model.encode(part)[0][0] for part in torch.split(ids, self.context, 1)]
        return torch.cat(windows)[1:]
