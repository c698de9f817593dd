"""Translation: a source is read, a target is written; BLEU is the measure."""

from regard.tasks.card import Card, held_out_source

CARD = Card(
    "translate", used_by="regard translate, or regard score", judged=("valid_bleu", "BLEU"),
    fields=("source", "target"), find_example=held_out_source, api="translate", instead="use /translate",
    compared="translators", hurried="rnn-attention",
    runner_up="rnn-attention, as good after some minutes on most pairs, worse on few pairs that are read often")
