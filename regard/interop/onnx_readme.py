"""README.md of an export to ONNX: how to use its graphs from Python, with onnxruntime and tokenizers alone."""

from __future__ import annotations

from typing import Any

OPENING = '''import json
import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

about = json.load(open("graphs.json", encoding="utf-8"))
special, names = about["special_tokens"], about["state"]
start, step = (onnxruntime.InferenceSession(f"{name}.onnx") for name in ("start", "step"))
tokenizer = Tokenizer.from_file("tokenizer.json")
'''

LOOP = '''for place in range(about["longest"] or len(tokens) + 255):
    log_probs, *state = step.run(None, {"tokens": np.array([tokens[place:place + 1]]), **dict(zip(names, state))})
    if place + 1 == len(tokens):                           # the text so far is read: choose what follows
        log_probs[:, special["banned"]] = -np.inf
        tokens.append(int(log_probs[0].argmax()))
        if tokens[-1] == special["end"]:
            break
print(tokenizer.decode(tokens))
'''

PROGRAMS = {
    "text": OPENING + '''tokenizer.encode_special_tokens = True                     # "<eos>" in a text is text

tokens = [special["begin"], *tokenizer.encode(sys.argv[1], add_special_tokens=False).ids]
state = start.run(None, {"tokens": np.array([tokens[:1]])})
''' + LOOP,
    "source": OPENING + '''reader = Tokenizer.from_file(about["source_tokenizer"])
reader.encode_special_tokens = True                        # "<eos>" in a text is text

source = np.array([[*reader.encode(sys.argv[1], add_special_tokens=False).ids, special["source_end"]]])
tokens = [special["begin"]]
state = start.run(None, {"source": source, "source_lengths": np.array([source.shape[1]])})
''' + LOOP,
    "picture": OPENING + '''
pixels = np.load(sys.argv[1])                              # (height, width, 3) bytes: red, green, blue
tokens = [special["begin"]]
state = start.run(None, {"pixels": pixels.transpose(2, 0, 1)[None]})
''' + LOOP,
    "blanks": '''import json
import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

about = json.load(open("graphs.json", encoding="utf-8"))
special = about["special_tokens"]
whole = onnxruntime.InferenceSession("whole.onnx")
tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.encode_special_tokens = True                     # "<eos>" in a text is text

before, after = (tokenizer.encode(part, add_special_tokens=False).ids for part in sys.argv[1].split("____"))
tokens = np.array([[special["begin"], *before, special["mask"], *after, *special["closing"]]])
log_probs = whole.run(None, {"tokens": tokens, "lengths": np.array([tokens.shape[1]])})[0][0, len(before) + 1]
log_probs[special["banned"]] = -np.inf
print(tokenizer.decode([int(log_probs.argmax())]))
''',
}
CALLS = {"text": "'Once upon a time'", "source": "'a line to read'", "picture": "picture.npy",
         "blanks": "'The ____ sleeps.'"}
DOES = {"text": "continues a text", "source": "writes what follows from a text", "picture": "describes a picture",
        "blanks": "fills a blank"}


def write_readme(name: str, kind: str, about: dict[str, Any], one_text: bool) -> str:
    """Return the text of README.md: what the graphs are, and a program that uses them."""
    graphs = "\n".join(f"* `{graph['file']}`: {signature(graph)}" for graph in about["graphs"].values())
    both = ", those of the source included" if one_text else ""
    stepping = "" if kind == "blanks" else f'''
A state is a list of tensors, documented in `graphs.json`. What `start` gives goes into `step`, in its order, and what
`step` gives after the log-probabilities goes into the next `step`. A state has room for "capacity" tokens (null: any
number){both}, and one row for each text of a batch: to go on with other rows, as a beam search does, take them from
every tensor. Axes with a name are free.
'''
    pixels = "" if kind != "picture" else f'''
Pictures are {picture_size(about)} pixels in colour, as bytes.
'''
    graphs += "".join(f"\n* no `{without}.onnx`: {why}" for without, why in about["without"].items())
    return f'''# {name}, for onnxruntime

{graphs}
* `graphs.json`: names, shapes and types of all inputs and outputs, the special tokens, the capacity
* `tokenizer.json`: for the library `tokenizers`
{stepping}{pixels}
This program {DOES[kind]}, by the likeliest token each time. It needs `pip install onnxruntime tokenizers` and runs in
this folder, as `python use.py {CALLS[kind]}`:

```python
{PROGRAMS[kind].rstrip()}
```
'''


def signature(graph: dict[str, Any]) -> str:
    """Return what goes in and comes out, briefly: a state is one word."""
    given, gives = (", ".join(shortened(graph[side])) for side in ("inputs", "outputs"))
    return f"({given}) -> ({gives})"


def shortened(ports: list[dict[str, Any]]) -> list[str]:
    plain = ("tokens", "lengths", "source", "source_lengths", "pixels", "log_probs")
    found = [f"{port['name']} {'x'.join(map(str, port['shape']))}" for port in ports if port["name"] in plain]
    return found + (["the state"] if len(found) < len(ports) else [])


def picture_size(about: dict[str, Any]) -> str:
    height, width = about["graphs"]["start"]["inputs"][0]["shape"][2:]
    return f"{height} x {width}"
