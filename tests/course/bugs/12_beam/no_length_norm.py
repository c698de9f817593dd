"""Mistake: finished texts are compared by their sums, and short ones win whatever alpha says."""


def beam_search(step, bos, eos, width, longest, alpha):
    beam, finished = [(0.0, [bos])], []
    for _ in range(longest):
        continued = sorted(((score + log_prob, [*text, word]) for score, text in beam
                            for word, log_prob in enumerate(step(text).tolist())), reverse=True)[:width]
        finished += [each for each in continued if each[1][-1] == eos]
        beam = [each for each in continued if each[1][-1] != eos]
    return max(finished + beam)[1][1:]
