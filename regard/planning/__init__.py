"""Planning: memory, bytes that travel, seconds and hours of a training run on several GPUs, before it is started.

    machines.py      GPUs and links as their makers state them, each with its source; `8xH200`
    figures.py       figures measured on one GPU (measured.json), and the speed of a model of another size
    outline.py       a model to plan, built without memory: its weights by role, its arithmetic, its activations
    memory.py        memory of a rank: data parallel, and FSDP
    traffic.py       bytes that leave a rank in a step, and the messages that carry them
    plan.py          a whole plan: both ways, the choice between them, what to beware of
    plan_text.py     a plan as text
"""
