"""Mistake: only the best continuation is followed, whatever the width."""


def beam_search(step, bos, eos, width, longest, alpha):
    text = [bos]
    for _ in range(longest):
        text.append(int(step(text).argmax()))
        if text[-1] == eos:
            break
    return text[1:]
