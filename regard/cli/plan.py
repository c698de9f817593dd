"""`regard plan`: memory, traffic and hours of a training run on several GPUs, before it is started."""

from __future__ import annotations

from typing import Any

import click

from regard.cli.options import print_json
from regard.families import names
from regard.families.likes import likes_of
from regard.tasks.flags import COUNT, Flag, Like, choice, settings_from, without_settings

PARAMS: list[click.Parameter] = [
    click.Argument(["run"], required=False, metavar="[RUN]"),
    click.Option(["--tokens"], type=COUNT, required=True, metavar="N", help="Tokens to read, e.g. 20B."),
    click.Option(["--gpus"], required=True, metavar="NxGPU", help="E.g. 8xH200, or 2x8xH200 for two machines."),
    click.Option(["--link"], metavar="NAME", help="nvlink, pcie, or gigabits a second between machines, e.g. 100G.  "
                 "[default: nvlink where the GPU has it]"),
    click.Option(["--params"], type=COUNT, metavar="N", help="How many parameters, e.g. 1B or 350M."),
    click.Option(["--family"], help=f"Kind of model: {', '.join(names.LANGUAGE[:-1])}.  [default: transformer]"),
    Like(*likes_of("lm")),
    Flag("--layers", "model.layers", type=int),
    Flag("--width", "model.width", type=int, help="Width of the vectors."),
    Flag("--heads", "model.heads", type=int, help="Attention heads."),
    Flag("--hidden", "model.hidden", type=int, help="Width of a recurrent state."),
    Flag("--context", "model.context", type=int, help="Tokens read at once."),
    Flag("--vocab", "tokenizer.vocab", type=int, help="Vocabulary size.  [default: 50,304]"),
    Flag("--batch", "training.batch", type=int, help="Rows in a step, of all GPUs together.  [default: 32,768 tokens a "
         "GPU]"),
    Flag("--optimizer", "training.optimizer", type=choice("adamw", "muon", "sgd"), help="[default: as training would]"),
    click.Option(["--set", "assignments"], multiple=True, metavar="TABLE.NAME=VALUE", help="Any setting of run.toml."),
    click.Option(["--trust"], is_flag=True, help="Import the user's own layer that the run names."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print everything as JSON."),
]


def plan(assignments: tuple[str, ...], as_json: bool, **options: Any) -> None:
    from regard.planning.plan_text import as_text
    from regard.planning.run_plan import as_dict, plan_training
    
    settings = settings_from(options, assignments, PARAMS)
    found = plan_training(**without_settings(options, PARAMS), settings=settings)
    if as_json:
        print_json(as_dict(found))
    else:
        click.echo(as_text(found))


command = click.Command(
    "plan", params=PARAMS, callback=plan,
    help="""Estimate what training takes on several GPUs: memory, traffic, hours.

    The model is that of a RUN, or one of --params, or of --layers, --width and so on. Speeds were measured on one
    GPU, bandwidths are those of the makers; the output names each source. It trains nothing and needs no GPU.
    """)
