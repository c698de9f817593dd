"""Every command that opens a run folder, on small runs: what is typed, with RUN in the place of the folder.

A folder of its own is the current one; the texts, pairs and pictures of tests/fixtures lie in it, and a good run, GOOD.
"""

from dataclasses import dataclass

LM, NGRAM, PAIRS, PICTURES = "lm-transformer", "lm-ngram", "translate-rnn-attention-additive", "caption-rnn-attention"
SMALL = ("--device", "cpu", "--quiet")


@dataclass(frozen=True)
class Use:
    """A run, and the words of a command that opens it."""

    run: str
    words: tuple[str, ...]

    @property
    def refused(self):
        """Whether a good folder is refused, too: there is no hub; a run is nothing to import or to write over; and it
        is no comparison, and no folder of results."""
        return self.words[0] in ("push", "import", "compare", "lab") or self.words[-3:] == ("RUN", "--steps", "1")

    @property
    def name(self):
        return f"{self.run}: {' '.join(self.words)}"


def uses(run, *lines):
    return [Use(run, tuple(line.split())) for line in lines]


USES = [
    *uses(LM, "generate RUN --prompt cat --tokens 4", "generate RUN --greedy -n 2 --tokens 3 --json",
          "score RUN text.txt", "score RUN text.txt --per-token",
          "show RUN cat", "show RUN cat -o map.html", "show RUN cat --json",
          "show RUN cat --influence gradient -o m.svg",
          "check RUN", "export RUN --to hf --no-check -o out",
          "export RUN --to safetensors -o out.safetensors",
          "train lm text.txt --from RUN --steps 1 --out new", "train lm text.txt --out RUN --steps 1",
          "train lm text.txt --out RUN --resume --set training.steps=7",
          "train lm text.txt --out RUN --resume --start-over --set training.steps=7",
          "serve RUN --port 0", "serve --runs . --port 0", "ASK RUN", "push RUN me/name --no-check",
          "import RUN -o new",
          "data check text.txt --run RUN", "compare lm text.txt --families rnn --steps 2 --dry-run --out RUN",
          "lab list --out RUN", "lab report page.html --out RUN"),
    *uses(NGRAM, "generate RUN --prompt cat --tokens 4", "score RUN text.txt", "show RUN cat", "check RUN",
          "export RUN --to arpa --no-check -o out.arpa", "ASK RUN"),
    *uses("lm-lstm", "generate RUN --tokens 3", "train lm text.txt --out RUN --resume --set training.steps=7"),
    *uses("lm-mamba", "generate RUN --tokens 3", "score RUN text.txt"), *uses("lm-hybrid", "generate RUN --tokens 3"),
    *uses(PAIRS, "translate RUN source.txt", "score RUN source.txt target.txt --beam 2",
          "score GOOD source.txt target.txt --beam 2 --against RUN", "show RUN chat --target cat",
          "train translate source.txt target.txt --out RUN --resume --set training.steps=7", "ASK RUN"),
    *uses("translate-transformer", "translate RUN source.txt --json", "export RUN --to ct2 --no-check -o out"),
    *uses("translate-prefix", "translate RUN source.txt --n-best 2 --beam 2"),
    *uses("summarise-transformer", "summarise RUN source.txt"),
    *uses(PICTURES, "caption RUN pictures/0.png", "show RUN pictures/0.png -o a.png", "score RUN pictures --beam 2",
          "train caption pictures --out RUN --resume --set training.steps=7"),
    *uses("masked-rnn", "fill RUN a___sat", "vectors RUN text.txt --similar cat"),
    *uses("masked-transformer", "vectors RUN text.txt --out vectors.npy", "show RUN cat"),
    *uses("classify-lstm", "classify RUN text.txt", "score RUN labels.tsv", "ASK RUN"),
    *uses("classify-window", "train classify labels.tsv --out RUN --resume --set training.steps=7"),
    *uses("tag-lstm", "tag RUN text.txt", "score RUN tagged.txt"),
]
WITHOUT = {"demo": "it trains anew, in a folder of its own", "pull": "it brings a run, and opens none: tests/interop",
           "scale": "it trains anew, and keeps records of its own"}
