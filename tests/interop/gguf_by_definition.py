"""What llama.cpp computes from a GGUF file, in numpy: its graphs by definition, from the file's own names and numbers.

T tokens · V vocabulary · H heads of K channels · E inner channels · N states
"""

import math

import gguf
import numpy as np

NEIGHBOURS = {"llama", "arcee"}                 # turn channel 0 with 1, 2 with 3 ...; the others i with i + half


class File:
    """Settings and tensors of a file, in float64."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.types = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
        self.tensors = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
                        for tensor in reader.tensors}
        self.name = self.fields["general.architecture"]

    def get(self, key):
        return self.fields.get(f"{self.name}.{key}")

    def block(self, number):
        return {name.split(".", 2)[2]: tensor for name, tensor in self.tensors.items()
                if name.startswith(f"blk.{number}.")}


def log_probs(file, tokens, bend):
    """(T, V); `bend` is the activation of what has no gate."""
    weights = file.tensors
    x = weights["token_embd.weight"][list(tokens)]
    if "position_embd.weight" in weights:
        x = x + weights["position_embd.weight"][:len(tokens)]
    for number in range(file.get("block_count")):
        part = file.block(number)
        if file.name in ("mamba", "mamba2"):
            mix = mix_states if file.name == "mamba" else mix_heads
            x = x + mix(file, part, norm(file, x, part, "attn_norm"))
            continue
        attended = attend(file, part, norm(file, x, part, "attn_norm"))
        if file.get("use_parallel_residual"):
            x = x + attended + feed(part, norm(file, x, part, "ffn_norm"), bend)
        else:
            x = x + attended
            x = x + feed(part, norm(file, x, part, "ffn_norm"), bend)
    x = norm(file, x, weights, "output_norm")
    logits = x @ weights.get("output.weight", weights["token_embd.weight"]).T
    return logits - np.logaddexp.reduce(logits, -1, keepdims=True)


def norm(file, x, part, name):
    if (eps := file.get("attention.layer_norm_rms_epsilon")) is not None:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * part[f"{name}.weight"]
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(-1, keepdims=True) + file.get("attention.layer_norm_epsilon"))
    return centred / scale * part[f"{name}.weight"] + part[f"{name}.bias"]


def affine(part, name, x):
    return x @ part[f"{name}.weight"].T + part.get(f"{name}.bias", 0.0)


def attend(file, part, x):
    heads, groups, width = (file.get(f"attention.{name}") for name in ("head_count", "head_count_kv", "key_length"))
    if "attn_qkv.weight" in part:
        q, k, v = np.split(affine(part, "attn_qkv", x), [heads * width, (heads + groups) * width], -1)
    else:
        q, k, v = (affine(part, f"attn_{one}", x) for one in "qkv")
    q, k, v = (each.reshape(len(x), -1, width).transpose(1, 0, 2) for each in (q, k, v))         # (H, T, K)
    if "attn_q_norm.weight" in part:
        q, k = norm(file, q, part, "attn_q_norm"), norm(file, k, part, "attn_k_norm")
    if file.get("rope.dimension_count"):
        q, k = turn(file, q), turn(file, k)
    k, v = (np.repeat(each, heads // groups, 0) for each in (k, v))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(width)
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ v
    return affine(part, "attn_output", y.transpose(1, 0, 2).reshape(len(x), -1))


def turn(file, x):
    turned = file.get("rope.dimension_count")
    rates = file.get("rope.freq_base") ** (-np.arange(0, turned, 2) / turned)
    angles = np.arange(x.shape[1])[:, None] * rates
    first, second = np.arange(0, turned, 2), np.arange(1, turned, 2)
    if file.name not in NEIGHBOURS:
        first, second = np.arange(turned // 2), np.arange(turned // 2, turned)
    y, a, b = x.copy(), x[..., first], x[..., second]
    y[..., first] = a * np.cos(angles) - b * np.sin(angles)
    y[..., second] = a * np.sin(angles) + b * np.cos(angles)
    return y


def feed(part, x, bend):
    up = affine(part, "ffn_up", x)
    return affine(part, "ffn_down", silu(affine(part, "ffn_gate", x)) * up if "ffn_gate.weight" in part else bend(up))


def mix_states(file, part, x):
    rank, states = file.get("ssm.time_step_rank"), file.get("ssm.state_size")
    u, z = np.split(affine(part, "ssm_in", x), 2, -1)                                             # each (T, E)
    u = silu(convolve(part, u))
    step, b, c = np.split(u @ part["ssm_x.weight"].T, [rank, rank + states], -1)
    delta = np.log1p(np.exp(affine(part, "ssm_dt", step)))                                        # (T, E)
    h, rows = np.zeros((u.shape[1], states)), []
    for t in range(len(x)):
        h = np.exp(delta[t][:, None] * part["ssm_a"]) * h + delta[t][:, None] * b[t] * u[t][:, None]
        rows.append(h @ c[t] + part["ssm_d"] * u[t])
    return affine(part, "ssm_out", np.stack(rows) * silu(z))


def mix_heads(file, part, x):
    """Mamba-2: z, then x, b and c, which are convolved together, then a step a head; heads of a group share b and c."""
    inner, heads, states, groups = (file.get(f"ssm.{name}") for name in (
        "inner_size", "time_step_rank", "state_size", "group_count"))
    codes = groups * states
    z, mixed, steps = np.split(affine(part, "ssm_in", x), [inner, 2 * inner + 2 * codes], -1)
    u, b, c = np.split(silu(convolve(part, mixed)), [inner, inner + codes], -1)
    delta = np.log1p(np.exp(steps + part["ssm_dt.bias"]))                                         # (T, H)
    a, skip = part["ssm_a"][:, 0], part["ssm_d"][:, 0]
    h, rows = np.zeros((heads, inner // heads, states)), []
    group = np.arange(heads) // (heads // groups)
    for t in range(len(x)):
        u_, b_, c_ = u[t].reshape(heads, -1), b[t].reshape(groups, -1)[group], c[t].reshape(groups, -1)[group]
        h = np.exp(delta[t] * a)[:, None, None] * h + (delta[t][:, None] * u_)[..., None] * b_[:, None]
        rows.append((np.einsum("hpn,hn->hp", h, c_) + skip[:, None] * u_).reshape(-1))
    y = (np.stack(rows) * silu(z)).reshape(len(x), groups, -1)
    scale = np.sqrt((y**2).mean(-1, keepdims=True) + file.get("attention.layer_norm_rms_epsilon"))
    return affine(part, "ssm_out", (y / scale * part["ssm_norm.weight"]).reshape(len(x), -1))


def convolve(part, x):
    """Each channel over the last few positions."""
    taps = part["ssm_conv1d.weight"]                                                              # (channels, taps)
    seen = np.concatenate((np.zeros((taps.shape[1] - 1, x.shape[1])), x))
    return np.stack([(seen[t:t + taps.shape[1]].T * taps).sum(1) for t in range(len(x))]) + part["ssm_conv1d.bias"]


def silu(x):
    return x / (1 + np.exp(-x))
