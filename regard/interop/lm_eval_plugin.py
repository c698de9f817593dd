"""The plug-in of lm-evaluation-harness: `lm_eval --model regard --model_args run=PATH --tasks ...`.

lm-eval finds this class by its entry point from the version after 0.4.13 on. Before, this module is run in its place:

    python -m regard.interop.lm_eval_plugin --model regard --model_args run=PATH --tasks ...
"""

from __future__ import annotations

from regard.interop.harness import HarnessModel

try:
    import lm_eval.models  # noqa: F401  registers its own, which lm-eval does only while nothing is registered
    from lm_eval.api.model import LM
    from lm_eval.api.registry import model_registry
except ImportError as missing:
    cure = f"lm-evaluation-harness is not installed ({missing}): pip install 'regard[eval]'"
    raise (SystemExit if __name__ == "__main__" else ImportError)(cure) from None

NAME = "regard"


class RegardLM(HarnessModel, LM):                                      # type: ignore[misc]
    """A run of Regard for the harness: `run`, and if needed `device`, `batch_size` and `trust`."""


if NAME not in model_registry:
    model_registry.register(NAME, target=f"{RegardLM.__module__ if __name__ != '__main__' else __spec__.name}:RegardLM")

if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
