"""A program of its own: from a checkpoint that is a pickle to safetensors, in a process that may do nothing else.

    python unpickling.py ckpt.pt FOLDER

It reads with `weights_only`, by which torch makes tensors and plain values alone of a pickle, and calls nothing. Its
memory and the size of its files are bounded; whoever starts it bounds its time. It imports nothing of Regard. What
fails is one line on stderr.
"""

import json
import os
import sys

ROOM = 2**32                   # bytes beside the tensors: torch itself
SETTINGS = {"n_layer": int, "n_head": int, "n_embd": int, "block_size": int, "vocab_size": int, "bias": bool}
COMPILED = "_orig_mod."        # what torch.compile sets before each name
OUTPUT, EMBEDDING = "lm_head.weight", "transformer.wte.weight"


def main() -> None:
    source, folder = sys.argv[1:]
    try:
        bound(os.path.getsize(source))
        convert(source, folder)
    except MemoryError:
        fail("it needs more memory than a checkpoint of its size")
    except Exception as error:             # torch, zipfile and pickle raise what they like at a file that they dislike
        text = " ".join(str(error).split())
        if "weights only load failed" in text.lower() or "weights_only" in text:
            fail("it holds more than tensors and plain values, and would run as code")
        fail(f"{type(error).__name__}: {text[:150]}")


def fail(reason: str) -> None:
    print(reason, file=sys.stderr)
    raise SystemExit(1)


def bound(size: int) -> None:
    """Limit this process, where the system knows limits."""
    try:
        import resource
    except ImportError:
        return
    for name, most in (("RLIMIT_DATA", ROOM + 4 * size), ("RLIMIT_FSIZE", 2**20 + 2 * size), ("RLIMIT_CORE", 0)):
        if (limit := getattr(resource, name, None)) is not None:
            _, hard = resource.getrlimit(limit)
            resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def convert(source: str, folder: str) -> None:
    import torch
    from safetensors.torch import save_file

    try:                                   # of a file of today the optimizer's tensors are not even read
        checkpoint = torch.load(source, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        checkpoint = torch.load(source, map_location="cpu", weights_only=True)
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict) or \
            not isinstance(checkpoint.get("model_args"), dict):
        fail("it is no checkpoint of nanoGPT: those hold `model` and `model_args`")
    tensors = {}
    for name, tensor in checkpoint["model"].items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            fail("its `model` holds something else than named tensors")
        tensors[name.removeprefix(COMPILED)] = tensor
    if OUTPUT in tensors and EMBEDDING in tensors and torch.equal(tensors[OUTPUT], tensors[EMBEDDING]):
        del tensors[OUTPUT]                # one matrix under two names
    settings = {name: checkpoint["model_args"].get(name) for name in SETTINGS}
    for name, value in settings.items():
        if value is not None and type(value) is not SETTINGS[name]:
            fail(f"its model_args have {name} = {str(value)[:40]!r}: expected {SETTINGS[name].__name__}")
    save_file({name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()},
              os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"model_type": "nanogpt", **settings}, file)


if __name__ == "__main__":
    main()
