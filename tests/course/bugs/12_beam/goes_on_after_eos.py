"""Mistake: finished texts stay in the beam and are continued behind eos."""


def beam_search(step, bos, eos, width, longest, alpha):
    beam, finished = [(0.0, [bos])], []
    for _ in range(longest):
        continued = [(score + log_prob, [*text, word]) for score, text in beam
                     for word, log_prob in enumerate(step(text).tolist())]
        beam = sorted(continued, reverse=True)[:width]
        finished += [each for each in beam if each[1][-1] == eos]
    best = max(finished + beam, key=lambda each: each[0] / (len(each[1]) - 1) ** alpha)
    return best[1][1:]
