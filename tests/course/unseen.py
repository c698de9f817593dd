"""A third set of forty mistakes, written when the grader was finished and committed before it had seen them.

Each is a right solution with one change. `named` is a pattern of what the grader has to say of it: one that only finds
other numbers has not named the mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.course.planted import HERE


@dataclass(frozen=True)
class ChangedSolution:
    """A right solution of a style with one change, and the pattern that the mistake's name or message matches."""

    exercise: str
    style: str
    old: str
    new: str
    named: str

    @property
    def source(self) -> str:
        return (HERE / "right" / self.style / f"{self.exercise}.py").read_text("utf-8")

    def functions(self) -> dict[str, Any]:
        assert self.source.count(self.old) == 1, f"{self.exercise}: {self.old!r} does not stand there once"
        names: dict[str, Any] = {}
        exec(self.source.replace(self.old, self.new), names)
        return names


UNSEEN = [ChangedSolution(*each) for each in (
    ("01_counting", "loops", "range(n - 1, len(sentence))", "range(n, len(sentence))", r"beginning|first"),
    ("01_counting", "loops", "[(count + k) / total for count in counts]", "[count + k for count in counts]",
     r"add_up|sum to|normalis"),
    ("01_counting", "loops", "list(context)[len(context) - n + 1:]", "list(context)[-n:]", r"too_long|too long"),
    ("02_averaging", "loops", "for t in range(length)", "for t in range(length - 1)", r"dropped|last word"),
    ("02_averaging", "vectorised", "torch.arange(x.shape[1]) < lengths", "torch.arange(x.shape[1]) <= lengths",
     r"pads"),
    ("03_windows", "loops", "if source >= 0", "if source > 0", r"first word|dropped|words_dropped"),
    ("03_windows", "vectorised", "x.new_zeros(x.shape[0], n - 1, x.shape[2])", "x.new_zeros(x.shape[0], n, x.shape[2])",
     r"without_this_word|one_step_late"),
    ("04_recurrence", "vectorised", "h @ W_h.T + x @ W_x.T", "x @ W_x.T", r"state_not_used|not used"),
    ("04_recurrence", "loops", "        h = rnn_step(h, x[:, t], W_h, W_x)\n        states.append(h)",
     "        states.append(h)\n        h = rnn_step(h, x[:, t], W_h, W_x)", r"one_step_late"),
    ("04_recurrence", "vectorised", "torch.tanh(h @ W_h.T + x @ W_x.T)", "torch.sigmoid(h @ W_h.T + x @ W_x.T)",
     r"nonlinearity"),
    ("04_recurrence", "loops", "if t % size == 0", "if t % size == size - 1", r"detach|border|stretch"),
    ("05_loss", "vectorised", "torch.log_softmax(logits[:, :-1], -1)", "torch.log_softmax(logits[:, :-1], 0)",
     r"softmax_over_batch|over the batch"),
    ("05_loss", "vectorised", "torch.log_softmax(logits[:, :-1], -1)", "torch.softmax(logits[:, :-1], -1)", r"no_log"),
    ("05_loss", "vectorised", "real = targets != pad", "real = tokens[:, :-1] != pad", r"pads"),
    ("05_loss", "vectorised", "return -(chosen * real).sum() / real.sum()",
     "return -(chosen * real).sum() / tokens.shape[0]", r"sum_over_rows|number of rows|sentences"),
    ("06_scores", "vectorised", "return q @ W.T", "return torch.softmax(q @ W.T, -1)", r"already_softmax"),
    ("06_scores", "vectorised", "return torch.tanh((q @ W_q.T)[:, None] + K @ W_k.T) @ v",
     "return (torch.tanh(q @ W_q.T)[:, None] + torch.tanh(K @ W_k.T)) @ v", r"tanh_of_parts"),
    ("06_scores", "vectorised", "return (K @ q[:, :, None])[..., 0]",
     "return torch.nn.functional.cosine_similarity(K, q[:, None], dim=-1)", r"cosine|length|normalis"),
    ("07_attention", "vectorised", "/ math.sqrt(q.shape[-1])", "* math.sqrt(q.shape[-1])", r"scale"),
    ("07_attention", "vectorised", "/ math.sqrt(q.shape[-1])", "/ math.sqrt(K.shape[1])", r"scale"),
    ("07_attention", "vectorised", "torch.softmax(scores, -1)", "torch.softmax(scores, 0)",
     r"over_batch|over the batch"),
    ("07_attention", "vectorised", "scores.masked_fill(~mask, -math.inf)", "scores", r"mask_ignored"),
    ("07_attention", "vectorised", "torch.softmax(scores, -1)", "scores.sigmoid()", r"sigmoid|softmax|sum to|add_up"),
    ("08_heads", "vectorised", "for W in (W_q, W_k, W_v)", "for W in (W_q, W_k, W_k)", r"matrix_not_used|W_v|values"),
    ("08_heads", "vectorised", "((x @ W).view", "((x @ W.T).view", r"transposed"),
    ("08_heads", "vectorised", ".softmax(-1)", ".softmax(-2)", r"softmax_over_queries"),
    ("08_heads", "vectorised", "reshape(batch, time, width) @ W_o", "reshape(batch, time, width) @ W_o + x",
     r"residual"),
    ("09_positions", "loops", "row += [math.sin(angle), math.cos(angle)]", "row += [math.cos(angle), math.sin(angle)]",
     r"sine_and_cosine_swapped"),
    ("09_positions", "vectorised", "return x + sin", "return x * sin", r"multipl|not_added"),
    ("09_positions", "vectorised", "return x + sin", "return x * x.shape[2] ** 0.5 + sin", r"words_scaled"),
    ("09_positions", "loops", "10000 **", "1000 **", r"exponent|base|10000|10,000"),
    ("10_block", "vectorised", "gain * (x - mean) * torch.rsqrt(variance + eps) + bias",
     "gain * ((x - mean) * torch.rsqrt(variance + eps) + bias)", r"bias_before_gain"),
    ("10_block", "vectorised", "torch.rsqrt(variance + eps)", "1 / (variance.sqrt() + eps)", r"eps_outside"),
    ("10_block", "loops", "    y = x + mix(norm_1(x))\n    return y + feed(norm_2(y))",
     "    return x + mix(norm_1(x)) + feed(norm_2(x))", r"parallel|both read|reads x"),
    ("10_block", "loops", "    y = norm_1(x + mix(x))\n    return norm_2(y + feed(y))",
     "    y = norm_2(x + mix(x))\n    return norm_1(y + feed(y))", r"norms? .*swap|swapped|norm_2 .*first"),
    ("11_scan", "loops", "    states = []", "    states, h = [], h * 0", r"start_ignored"),
    ("11_scan", "loops", "return a2 * a1,", "return a2 + a1,", r"a_added"),
    ("12_beam", "loops", "return best[1][1:]", "return best[1]", r"bos_included"),
    ("12_beam", "loops", "kept = continued[:width]", "kept = continued[:1]", r"greedy"),
    ("12_beam", "loops", "for _ in range(longest)", "for _ in range(longest + 1)", r"too_long"),
)]
