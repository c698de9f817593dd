"""Right: scores of all continuations in one tensor, and topk."""

import torch


def beam_search(step, bos, eos, width, longest, alpha):
    texts, scores = [[bos]], torch.zeros(1, dtype=torch.float64)
    best, best_value = [], -float("inf")
    for round_ in range(1, longest + 1):
        log_probs = torch.stack([step(text).double() for text in texts])
        total = scores[:, None] + log_probs
        top, index = total.flatten().topk(min(width, total.numel()))
        rows, words = index // total.shape[1], index % total.shape[1]
        continued = [[*texts[row], word] for row, word in zip(rows.tolist(), words.tolist(), strict=True)]
        for text, score in zip(continued, top.tolist(), strict=True):
            if (text[-1] == eos or round_ == longest) and score / round_ ** alpha > best_value:
                best, best_value = text[1:], score / round_ ** alpha
        going = words != eos
        texts, scores = [text for text in continued if text[-1] != eos], top[going]
        if not texts:
            break
    return best
