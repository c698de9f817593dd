"""Planning: memory, traffic and hours of training, before it starts.

    machines.py       GPUs and links as their makers state them, each with its source; `8xH200`
    figures.py        figures measured on one GPU (measured.json), and the speed of a model of another size
    blueprint.py      a model built without memory: its weights by role, its arithmetic, its activations
    planned_model.py  the request, and the model that it is about
    rank_memory.py    memory of a rank: data parallel, and FSDP
    messages.py       the messages of a step, and the bytes of them that leave a rank
    run_plan.py       a whole plan: both ways, the choice between them, what to beware of
    plan_text.py      a plan as text
"""
