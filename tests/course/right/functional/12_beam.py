"""Right: heapq, and a recursion over the rounds."""

from heapq import nlargest


def beam_search(step, bos, eos, width, longest, alpha):
    def rounds(beam, left):
        if not beam or not left:
            return beam
        continued = [(score + float(log_prob), (*words, word)) for score, words in beam
                     for word, log_prob in enumerate(step([bos, *words]))]
        kept = nlargest(width, continued, key=lambda each: each[0])
        over = [each for each in kept if each[1][-1] == eos]
        return over + rounds([each for each in kept if each[1][-1] != eos], left - 1)

    return list(max(rounds([(0.0, ())], longest), key=lambda each: each[0] / len(each[1]) ** alpha)[1])
