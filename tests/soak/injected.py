"""Numbers that are none, and memory that runs out, put into a life of a run at a site and a step."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from unittest.mock import patch

OOM = "[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"


class Injection:
    """Strikes once, at a step that is counted from one."""

    def __init__(self, value: str, step: int, device: str = "cpu"):
        self.value, self.step, self.struck, self.device = value, step, False, device
        self.steps = 0

    def due(self) -> bool:
        return not self.struck and self.steps >= self.step

    def strike(self, tensor=None):
        """Return the tensor with the value in one place, or run out of memory."""
        import torch

        self.struck = True
        if self.value == "memory":
            raise RuntimeError(OOM)
        if self.value == "memory of torch":
            raise torch.OutOfMemoryError("tried to allocate 1 byte")
        if self.value == "memory of the device":             # more than there is anywhere
            return torch.empty(1 << 50, dtype=torch.uint8, device=self.device)
        with torch.no_grad():
            tensor.view(-1)[tensor.numel() // 2] = float(self.value)
        return tensor


def life_with(variant, out, site: str, value: str, step: int) -> str | None:
    """Train with one injection; of what is loaded a run is made before. Return what is to be noted."""
    from tests.soak.lives import train

    injection = Injection(value, step, variant.device)
    if site in LOADED:
        stop_after(variant, out, step)
        injection.steps = step
    with ExitStack() as stack:
        for owner, name, made in (count_steps(injection), SITES[site](injection)):
            stack.enter_context(patch.object(owner, name, made))
        train(variant, out)
    if not injection.struck:
        return "nothing struck"                              # no weights were the best from that step on, say
    return "fewer rows" if site == "loss" and "memory" in value else None


def stop_after(variant, out, step: int) -> None:
    """Train, and be interrupted by the first checkpoint from a step on."""
    from regard.errors import Interrupted
    from regard.training import loop
    from tests.soak.lives import train

    whole = loop.save_all

    def save_all(job, position):
        whole(job, position)
        if position.step >= step:
            raise Interrupted("enough")

    with patch.object(loop, "save_all", save_all), suppress(Interrupted):
        train(variant, out)


# ------------------------------------------------------------------------------------------- sites


def count_steps(injection: Injection) -> tuple[object, str, Callable]:
    from regard.training.step import TrainingStep

    whole = TrainingStep.set_rate

    def set_rate(self, share):
        injection.steps += 1
        whole(self, share)

    return TrainingStep, "set_rate", set_rate


def at_loss(injection):
    from regard.training.step import ForwardBackward

    whole = ForwardBackward.__call__

    def call(self, *given):
        if not injection.due():
            return whole(self, *given)
        if "memory" in injection.value:
            injection.strike()
        loss = self.loss

        def spoilt(*inputs):
            found, after = loss(*inputs)
            injection.struck = True
            return found * float(injection.value), after

        self.loss = spoilt
        try:
            return whole(self, *given)
        finally:
            self.loss = loss

    return ForwardBackward, "__call__", call


def at_gradient(injection):
    from regard.training.step import TrainingStep

    whole = TrainingStep.backward

    def backward(self, *given):
        found = whole(self, *given)
        if injection.due():
            injection.strike(next(each.grad for each in self.model.parameters() if each.grad is not None))
        return found

    return TrainingStep, "backward", backward


def at_update(injection):
    """Before the first optimizer steps: memory for what it keeps of each weight, or a spoilt step of its own."""
    from regard.training.optim import Optimizers

    whole = Optimizers.step

    def step(self):
        if injection.due() and "memory" in injection.value:
            injection.strike()
        whole(self)
        if injection.due():
            injection.strike(next(iter(self.names)))

    return Optimizers, "step", step


def at_weights(injection):
    """In the averaged weights, which no loss and no gradient shows."""
    from regard.training.checkpoint import Checkpoints

    whole = Checkpoints.tensors

    def tensors(self):
        found = whole(self)
        if injection.due():
            name = next((name for name in found if name.startswith(("average/", "optimizer/"))
                         and found[name].is_floating_point()), None)
            injection.strike(None if name is None else found[name])
        return found

    return Checkpoints, "tensors", tensors


def at_validation(injection):
    import torch

    from regard.training import loop

    whole = loop.held_out_loss

    def held_out_loss(*given, **options):
        found = whole(*given, **options)
        return float(injection.strike(torch.tensor([found]))) if injection.due() else found

    return loop, "held_out_loss", held_out_loss


def loading(name: str, prefix: str) -> Callable:
    """A checkpoint whose hashes are right, and one of whose numbers is none."""
    def site(injection):
        from regard.training import checkpoint

        whole = checkpoint.unpack

        def unpack(data, where):
            found = whole(data, where)
            if injection.steps >= injection.step and name in str(where):        # however often it is read
                injection.strike(next(found[each] for each in sorted(found) if each.startswith(prefix)
                                      and found[each].is_floating_point() and found[each].numel()))
            return found

        return checkpoint, "unpack", unpack
    return site


def at_best(injection):
    """In what is to be written as the best weights."""
    from regard.training.checkpoint import Checkpoints

    whole = Checkpoints.keep_weights

    def keep_weights(self):
        model = self.step.model
        real = model.saved_tensors

        def saved_tensors():
            tensors = {name: each.clone() for name, each in real().items()}
            if injection.due():
                injection.strike(next(each for each in tensors.values() if each.is_floating_point()))
            return tensors

        with patch.object(model, "saved_tensors", saved_tensors):
            whole(self)

    return Checkpoints, "keep_weights", keep_weights


SITES = {"loss": at_loss, "gradient": at_gradient, "update": at_update, "weights": at_weights,
         "validation": at_validation, "checkpoint": loading("model.", ""),
         "optimizer": loading("training.", "optimizer/"), "best weights": at_best}
LOADED = ("checkpoint", "optimizer")
