"""A training job: a model, its optimisers, its batches and its folder, with the few things the loop asks of them."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import State
from regard.data.batching.batches import Batch
from regard.errors import SettingError, TrainingStopped
from regard.metrics.perplexity import held_out_loss
from regard.models.learner import Learner
from regard.run_folder import RunFolder, pack, unpack
from regard.training import still
from regard.training.averaging import Average
from regard.training.conditions import current_conditions
from regard.training.log import Metrics, Progress, Samples
from regard.training.optim import Optimizers
from regard.training.passes import CapturedPass, make_pass
from regard.training.settings import TrainingSettings
from regard.training.still import Recorded, StillGradients

QUICK = 0.2                    # seconds that a checkpoint may take at every validation
SAVING_SHARE = 0.1             # of the time, for checkpoints that take longer


class Job:
    """What the loop works on."""

    def __init__(
        self,
        model: Learner,
        batches: Any,                          # Windows, Documents, Streams or Pairs: batch(step) -> Batch
        validation: Any,                       # the held-out batches
        settings: TrainingSettings,
        folder: RunFolder,
        progress: Progress,
        extra_logs: tuple[Any, ...] = (),
        judge: Callable[[], dict[str, float]] | None = None,       # what validation measures beside the loss
        sample: Callable[[], dict[str, Any]] | None = None,        # what the model writes now
    ):
        self.model, self.batches, self.validation, self.judge = model, batches, validation, judge
        self.write_sample = sample
        self.settings, self.folder, self.progress = settings, folder, progress
        self.carried: State | None = None      # the state at the end of the last batch, when reading streams
        self.weights = list(model.parameters())
        self.still: StillGradients | None = None
        self.clipping: Callable[[], Tensor] = self._clip
        self.updating: Callable[[], None] = self._update
        self.forget()
        self.metrics, self.samples = Metrics(folder.metrics_path), Samples(folder.samples_path)
        self.logs = (self.metrics, *extra_logs)
        self.began: tuple[int, float] | None = None
        self.saved, self.save_took = 0.0, 0.0  # when the last checkpoint was made, and in how many seconds
        if settings.reading == "streams" and model.context is not None:
            raise SettingError("training.reading = 'streams' carries the state on without end, but this model reads "
                               f"at most {model.context} tokens: use training.reading = 'windows'")
        gpu = self.ahead = model.device.type == "cuda"         # of what is read by one step
        self.bfloat16 = settings.precision == "bfloat16" or (settings.precision == "auto" and gpu)
        self.run = make_pass(model, settings.compile, self.bfloat16, self.say, settings.recompute)
        self.static = self.run.loss != model.loss or isinstance(self.run, CapturedPass)

    # ------------------------------------------------------------------------------------- one step

    def backward(self, step: int, micro_batch: int) -> tuple[Tensor, int, int]:
        """Loss, number of tokens read and rows at once, with the gradients in place. Nothing waits for a GPU.

        When memory runs out, half as many rows go at once and the same batch is tried again: the loss is a sum
        over its tokens divided by their number, so that the pieces do not change it.
        """
        batch = self.batches.batch(step)
        state = self.state_before(step, batch)
        while True:
            if not self.model.training:                        # asked first: of a small model, saying it takes longer
                self.model.train()
            self.optimizers.zero_grad()
            rows = micro_batch or len(batch.tokens)
            try:
                loss, after = self._pieces(batch, state, rows)
                break
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not out_of_memory(error) or rows == 1:
                    raise _no_memory(error) if out_of_memory(error) else error from None
            micro_batch = max(1, rows // 2)
            self.run.forget()
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
            self.say(f"out of memory with {rows} rows at once: going on with {micro_batch} at once, "
                     f"{len(batch.tokens)} a step as before")
        if self.still is not None:
            self.still.take()
        self.carried = after
        return loss, batch.read, micro_batch

    def _pieces(self, batch: Batch, state: State | None, rows: int) -> tuple[Tensor, State | None]:
        total = torch.zeros((), device=self.model.device)
        states: list[State] = []
        for first in range(0, len(batch.tokens), rows):
            piece = self._static(batch.rows(first, first + rows)).to(self.model.device)
            own = None if state is None else state.map(lambda t: t[first : first + rows])   # noqa: B023
            loss, own = self.run(piece, own, 1 / max(1, batch.real))
            total += loss
            if own is not None:
                states.append(own)
        return total, None if state is None else join(states).detach()

    def _static(self, piece: Batch) -> Batch:
        """Documents of all lengths would each be compiled or recorded anew: where that is done they come in few widths.

        Pairs have few already; documents get four."""
        context = self.validation.context
        few = self.static and self.settings.reading == "documents"
        return piece.widened(-(-context // 4), context) if few and context else piece

    def state_before(self, step: int, batch: Batch) -> State | None:
        if self.settings.reading != "streams":
            return None
        if self.carried is None or self.batches.fresh(step):
            return self.model.start(len(batch.tokens), batch.tokens.shape[1])
        return self.carried

    def clip_gradients(self) -> Tensor:
        return self.clipping()

    def _clip(self) -> Tensor:
        limit = self.settings.clip or float("inf")
        if self.ahead:
            return nn.utils.clip_grad_norm_(self.weights, limit)
        norm = length([weight.grad for weight in self.weights if weight.grad is not None])
        if not norm + 1e-6 <= limit:                           # where it can be known at once: most are short enough
            nn.utils.clip_grads_with_norm_(self.weights, limit, norm)
        return norm

    def forget(self) -> None:
        """Drop what optimisers, average and carried state remember, as before the first step."""
        self.optimizers = Optimizers(self.model, self.settings)
        self.average = Average(self.model, self.settings.ema) if self.settings.ema else None
        self.carried = None
        self.record_updates()

    def record_updates(self) -> None:
        """Of a small model on a GPU, what is done with gradients is recorded once optimisers and average are there."""
        self.still, self.clipping, self.updating = None, self._clip, self._update
        if still.pays(self.model, self.settings.compile):
            self.still = StillGradients(self.model)
            self.clipping, self.updating = Recorded(self._clip, self.say), Recorded(self._update, self.say)

    def update(self) -> None:
        if self.average is not None:
            self.average.next()
        self.updating()

    def _update(self) -> None:
        self.optimizers.step()
        if self.average is not None:
            self.average.update()

    # ----------------------------------------------------------------------------------- validation

    def validate(self) -> dict[str, float]:
        """What the held-out part says of the model: its loss, and what else the task measures."""
        with self._averaged():
            loss = held_out_loss(self.model, self.validation, bfloat16=self.bfloat16)
            return {"valid_loss": loss, **(self.judge() if self.judge is not None else {})}

    def keep_weights(self) -> None:
        with self._averaged():
            self.folder.save_weights(self.model.saved_tensors())

    def sample(self, at: Any) -> None:
        """A line on what the model writes now, unless that is too dear; training goes on as if it had not been."""
        last = at.step == self.settings.steps
        if self.write_sample is None or not (last or self.samples.due(at.seconds)):
            return
        began, random = time.monotonic(), random_states(self.model.device)
        with self._averaged():
            written = self.write_sample()
        set_random_states(random, self.model.device)
        took = round(time.monotonic() - began, 3)
        self.samples.row({"step": at.step, "seconds": at.seconds, "took": took, **written})

    def _averaged(self) -> AbstractContextManager[None]:
        return nullcontext() if self.average is None else self.average.in_place()

    # ----------------------------------------------------------------------------------- checkpoint

    def saving_pays(self) -> bool:
        """Whether a checkpoint takes little of the time since the last one; one that is quick is always made."""
        return self.save_took < QUICK or time.monotonic() - self.saved > self.save_took / SAVING_SHARE

    def save(self, at: Any) -> None:
        began = time.monotonic()
        tensors = {f"random/{name}": state for name, state in random_states(self.model.device).items()}
        tensors |= {f"optimizer/{name}": value for name, value in self.optimizers.tensors().items()}
        if self.average is not None:
            tensors |= {f"average/{name}": value for name, value in self.average.weights.items()}
        if self.carried is not None:
            tensors |= {f"carried/{name}": value for name, value in self.carried.tensors().items()}
        files = {
            "model.safetensors": pack(self.model.saved_tensors()),
            "training.safetensors": pack(tensors),
            "at.json": json.dumps(dataclasses.asdict(at)).encode(),
            "session.json": json.dumps(self.session()).encode(),
        }
        for name in self.folder.save_checkpoint(at.step, files, self.settings.keep):
            self.say(f"checkpoint {name} is damaged: set aside")
        self.saved = time.monotonic()
        self.save_took = self.saved - began

    def session(self) -> dict[str, Any]:
        """What is not the state of training: the conditions it runs under, and the logs so far, made sure of."""
        for log in (self.metrics, self.samples):
            log.sync()
        return {"conditions": dataclasses.asdict(current_conditions(self.model)),
                "logs": {log.path.name: log.state() for log in (self.metrics, self.samples)}}

    def restore(self, files: dict[str, bytes]) -> dict[str, Any]:
        """Take up a checkpoint; gives the values of its `at.json`."""
        self.model.load_tensors(unpack(files["model.safetensors"], "the checkpoint's model.safetensors"))
        tables: dict[str, dict[str, Tensor]] = {}
        for path, value in unpack(files["training.safetensors"], "the checkpoint's training.safetensors").items():
            table, name = path.split("/", 1)
            tables.setdefault(table, {})[name] = value
        self.optimizers.load(tables.get("optimizer", {}))
        self.record_updates()                                  # what was recorded knows the tensors from before
        if self.average is not None:
            self.average.load(tables["average"])
        if "carried" in tables:
            self.carried = self._carried_from(tables["carried"])
        set_random_states(tables["random"], self.model.device)
        return json.loads(files["at.json"])

    def _carried_from(self, tensors: dict[str, Tensor]) -> State:
        batch = len(next(iter(tensors.values())))
        state = self.model.start(batch, 1)
        assert state is not None
        values = iter([tensors[name].to(self.model.device) for name in state.tensors()])
        return state.map(lambda _: next(values))

    # -------------------------------------------------------------------------------------- telling

    def log(self, at: Any, **values: float) -> None:
        row = {"step": at.step, "tokens": at.tokens, "seconds": at.seconds, **values}
        for log in self.logs:
            log.row(row)

    def show(self, at: Any, loss: float) -> None:
        if self.began is None:
            self.began = (at.step, at.seconds)
            return
        step, seconds = self.began
        per_step = (at.seconds - seconds) / (at.step - step)
        if per_step > 0:
            tokens_per_step = at.tokens / at.step
            self.progress.step(at.step, loss, tokens_per_step / per_step, (self.settings.steps - at.step) * per_step)

    def say(self, text: str) -> None:
        self.progress.say(text)


def length(gradients: list[Tensor]) -> Tensor:
    """The root of all squares. A dot product with itself reads a tensor twice as quickly as a CPU's norm of it does,
    and adds up more exactly."""
    squares = [torch.dot(flat, flat) for flat in (each.reshape(-1) for each in gradients)]
    return torch.stack(squares).sum().sqrt() if squares else torch.zeros(())


def join(states: list[State]) -> State:
    """The states of consecutive rows as one."""
    columns = iter([torch.cat(parts) for parts in zip(*(s.tensors().values() for s in states), strict=True)])
    return states[0].map(lambda _: next(columns))


def random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


def out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _no_memory(error: BaseException) -> TrainingStopped:
    return TrainingStopped("out of memory with a single row at once: use a smaller --width, --layers or --context "
                           f"({str(error).splitlines()[0]})")
