"""The arithmetic of one cell of an implicit kernel: what a linear recurrence still holds of an earlier position.

    state space   kernel[t, s] = c[t] . exp(a (delta[s+1] + ... + delta[t])) delta[s] b[s]        then times u[s]
    linear RNN    kernel[t, s] = o[t] a[t] ... a[s+1] c[s]                                        then times v[s]
    matrix        kernel[t, s] = |W_h^(t-s) W_c|, the Frobenius norm

A map shows the mean over a group of channels; here it is worked out for one channel, and then for all of the group.
T time · N states · C channels of the group
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.errors import SettingError
from regard.layers.linear_recurrence import Terms, kernel_by_definition
from regard.look.arithmetic_sheet import Sheet
from regard.watching import Reading


def kernel_sheet(reading: Reading, group: int, row: int, column: int, channel: int | None = None) -> Sheet:
    """All steps for what `row` holds of `column`, in a channel of the group; everything counts from 0."""
    layer: Any = reading.layer
    if layer.kernel_form == "matrix":
        return matrix_sheet(reading, row, column)
    make_sheet = state_space_sheet if layer.kernel_form == "states" else linear_sheet
    return make_sheet(reading, group, row, column, channel_of(reading, group, channel))


def channel_of(reading: Reading, group: int, channel: int | None) -> int:
    """The channel (or head) that is worked out by itself: the first of the group unless another is asked for."""
    first, stop = reading.about["groups"][group]
    if channel is None:
        return first
    if not first <= channel < stop:
        raise SettingError(f"channel = {channel + 1}: group {group + 1} has the {reading.about['unit']}s {first + 1} "
                           f"to {stop}, counted from 1")
    return channel


# -------------------------------------------------------------------------------------------- state spaces


def state_space_sheet(reading: Reading, group: int, row: int, column: int, channel: int) -> Sheet:
    about, sheet = reading.about, channel_sheet("states", reading, row, column, channel, input="u")
    delta, a, u, output = of_one_channel(reading.layer, about, channel)
    sheet.put("delta", delta[:, channel])
    sheet.put("a", a[channel])
    sheet.put("codes", codes_of_channel(reading.layer, about["b"], channel))
    sheet.put("c", codes_of_channel(reading.layer, about["c"], channel)[row])
    sheet.work("b", "pick", "codes", how={"index": column})
    sheet.step("given")
    if column <= row:
        fade_steps(sheet, row, column)
    layer: Any = reading.layer
    own = layer.kernel(about["delta"], about["b"], about["c"], slice(channel, channel + 1))
    whole_row(sheet, "fading", ("delta", "a", "codes", "c"), own[0, 0, row], row, column)
    if column <= row:
        group_of_states(sheet, reading, group, row, column, a, delta)
    sheet.put("u", u)
    sheet.put("skip", about["skip"][channel])
    output_steps(sheet, "u", row, column, output[row], skip=True)
    return sheet


def channel_sheet(kind: str, reading: Reading, row: int, column: int, channel: int, input: str) -> Sheet:
    """An empty sheet for what `row` holds of `column` in one channel; its words count channels from 1."""
    return Sheet(texts=(kind, "kernel"), said={
        "row": row, "column": column, "next": column + 1, "channel": channel + 1, "unit": reading.about["unit"],
        "input": input})


def of_one_channel(layer: Any, about: dict[str, Any], channel: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """delta (T, D or H), a (D or H, N), and u and output (T,) of the channel: of a head, the first of its channels."""
    delta, a, u, output = about["delta"][0], about["a"], about["u"][0], about["output"][0]
    if not layer.heads:
        return delta, a, u[:, channel], output[:, channel]
    first = channel * (u.shape[-1] // layer.heads)
    return delta, a[:, None].expand(-1, layer.states), u[:, first], output[:, first]


def codes_of_channel(layer: Any, codes: Tensor, channel: int) -> Tensor:
    """(T, N): what the channel writes or reads with, of codes (1, T, N), or (1, T, G, N) of groups of heads."""
    return codes[0] if codes.ndim == 3 else codes[0, :, channel * codes.shape[2] // layer.heads]


def fade_steps(sheet: Sheet, row: int, column: int) -> None:
    """The decay between the column and the row, and the selected cell of the channel."""
    sheet.work("passed", "between", "delta", how={"after": column, "to": row})
    sheet.work("fade", "grown", "a", "passed")
    sheet.step("decay" if row > column else "no decay")
    sheet.work("written", "times", "b", "fade")
    sheet.work("terms", "times", "c", "written")
    sheet.work("sum", "sum", "terms")
    sheet.work("step here", "pick", "delta", how={"index": column})
    sheet.work("cell", "times", "sum", "step here")
    sheet.step("cell")


def group_of_states(
    sheet: Sheet, reading: Reading, group: int, row: int, column: int, a: Tensor, delta: Tensor
) -> None:
    """The steps of every channel of the group, and their mean: the number on the map."""
    first, stop = reading.about["groups"][group]
    sheet.put("deltas", delta[:, first:stop])
    sheet.put("rates", a[first:stop])
    sheet.work("passed each", "between", "deltas", how={"after": column, "to": row})
    sheet.work("fade each", "grown", "rates", "passed each")
    sheet.work("code", "times", "c", "b")
    sheet.work("sum each", "dot", "fade each", "code")
    sheet.work("step each", "pick", "deltas", how={"index": column})
    sheet.work("cells", "times", "sum each", "step each")
    mean_step(sheet, reading, group, row, column)


# -------------------------------------------------------------------------------------- linear recurrences


def linear_sheet(reading: Reading, group: int, row: int, column: int, channel: int) -> Sheet:
    about, sheet = reading.about, channel_sheet("linear", reading, row, column, channel, input="v")
    a, c, v, o = (about[name][0, :, channel] for name in "acvo")
    sheet.put("a", a)
    sheet.put("c", c)
    sheet.put("o", o[row])
    sheet.step("given")
    if column <= row:
        sheet.work("kept", "product", "a", how={"after": column, "to": row})
        sheet.work("written", "pick", "c", how={"index": column})
        sheet.work("left", "times", "kept", "written")
        sheet.work("cell", "times", "o", "left")
        sheet.step("cell")
    terms = Terms(*(each[None, :, None] for each in (a, c, v, o)))
    whole_row(sheet, "decaying", ("a", "c", "o"), kernel_by_definition(terms, len(a))[0, 0, row], row, column)
    if column <= row:
        group_of_channels(sheet, reading, group, row, column)
    sheet.put("v", v)
    output_steps(sheet, "v", row, column, about["output"][0, row, channel])
    return sheet


def group_of_channels(sheet: Sheet, reading: Reading, group: int, row: int, column: int) -> None:
    first, stop = reading.about["groups"][group]
    sheet.put("keeps", reading.about["a"][0, :, first:stop])
    sheet.put("writes", reading.about["c"][0, column, first:stop])
    sheet.put("shows", reading.about["o"][0, row, first:stop])
    sheet.work("kept each", "product", "keeps", how={"after": column, "to": row})
    sheet.work("left each", "times", "kept each", "writes")
    sheet.work("cells", "times", "shows", "left each")
    mean_step(sheet, reading, group, row, column)


# --------------------------------------------------------------------------------------------- shared steps


def whole_row(sheet: Sheet, op: str, of: tuple[str, ...], own: Tensor, row: int, column: int) -> None:
    sheet.work("kernel", op, *of, how={"row": row}, values=own)
    sheet.step("later" if column > row else "row")


def mean_step(sheet: Sheet, reading: Reading, group: int, row: int, column: int) -> None:
    first, stop = reading.about["groups"][group]
    sheet.work("mean", "mean", "cells", values=reading.values[0, group, row, column])
    sheet.step("group" if stop - first > 1 else "one", first=first + 1, last=stop, number=stop - first)


def output_steps(sheet: Sheet, name: str, row: int, column: int, output: Tensor, skip: bool = False) -> None:
    """kernel times input, added up: what the channel gives."""
    sheet.work("here", "pick", name, how={"index": column})
    sheet.work("entry", "pick", "kernel", how={"index": column})
    sheet.work("part", "times", "entry", "here")
    sheet.work("parts", "times", "kernel", name)
    formula = f"Σ kernel · {name}"
    if not skip:
        sheet.work("output", "sum", "parts", values=output)
    else:
        sheet.work("read", "sum", "parts")
        sheet.work("now", "pick", name, how={"index": row})
        sheet.work("by", "times", "skip", "now")
        sheet.work("output", "plus", "read", "by", values=output)
        formula += f" + skip · {name}[{row}]"
    sheet.step("output", formula=formula)


def matrix_sheet(reading: Reading, row: int, column: int) -> Sheet:
    lag, size = row - column, reading.values[0, 0, row, column]
    if lag < 0:
        sheet = Sheet(texts=("later",), said={"row": row, "column": column})
        sheet.put("size", size)
        sheet.step("size")
        return sheet
    sheet = Sheet(texts=("matrix",), said={"lag": lag})
    power = torch.linalg.matrix_power(reading.about["w_h"], lag) @ reading.about["w_c"]
    sheet.put("power", power.flatten())
    sheet.step("power")
    sheet.work("size", "norm", "power", values=size)
    sheet.step("size")
    return sheet
