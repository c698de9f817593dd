"""Language modelling: a text is continued, token by token; perplexity is the measure."""

from regard.tasks.card import Card, corpus_prompts, held_out_line

CARD = Card(
    "lm", used_by="regard generate, or regard score", run_name="{family}", fields=("text", "new_tokens"),
    continues=True, example="Once upon a time", find_example=held_out_line, find_examples=corpus_prompts,
    api="completions", compared="language_models",
    runner_up="hybrid with --pattern linear-rnn,attention, up to 1.4% better, but fewer programs can open it")
