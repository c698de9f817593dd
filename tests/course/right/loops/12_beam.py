"""Right: lists, sorted."""


def beam_search(step, bos, eos, width, longest, alpha):
    beam, finished = [(0.0, [bos])], []
    for _ in range(longest):
        continued = []
        for score, text in beam:
            for word, log_prob in enumerate(step(text).tolist()):
                continued.append((score + log_prob, [*text, word]))
        continued.sort(key=lambda each: -each[0])
        kept = continued[:width]
        finished += [each for each in kept if each[1][-1] == eos]
        beam = [each for each in kept if each[1][-1] != eos]
        if not beam:
            break
    finished += beam
    best = max(finished, key=lambda each: each[0] / (len(each[1]) - 1) ** alpha)
    return best[1][1:]
