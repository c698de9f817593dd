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

LATER = "This column comes after the row, and nothing of it can have been read: the kernel is 0 there."


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
    about, sheet, unit = reading.about, Sheet(), reading.about["unit"]
    delta, a, u, output = of_one_channel(reading.layer, about, channel)
    b, c = about["b"][0], about["c"][0, row]
    sheet.put("delta", delta[:, channel], symbol="Δ", over="columns",
              about=f"the step that {unit} {channel + 1} takes at each position")
    sheet.put("a", a[channel], symbol="a", about="how fast each state fades, a step", over="states")
    sheet.put("codes", b, symbol="b", about="what is written of each position, into each state", over="columns")
    sheet.put("c", c, symbol=f"c[{row}]", about="what the row reads of each state", over="states")
    sheet.work("b", "pick", "codes", how={"index": column}, symbol=f"b[{column}]", over="states",
               about="what is written of the selected column")
    sheet.step("Steps, decays and codes", "Δ, a, b, c",
               f"One {unit} of the group, number {channel + 1}: its step at every position, how fast its states fade, "
               "what the column writes and what the row reads.", "delta", "a", "b", "c")
    if column <= row:
        fade_steps(sheet, row, column)
    layer: Any = reading.layer
    own = layer.kernel(about["delta"], about["b"], about["c"], slice(channel, channel + 1))
    whole_row(sheet, "fading", ("delta", "a", "codes", "c"), own[0, 0, row], row, column)
    group_of_states(sheet, reading, group, row, column, a, delta)
    sheet.put("u", u, symbol="u", about="the input of the channel at each position", over="columns")
    sheet.put("skip", about["skip"][channel], symbol="skip", about="how much of the input passes by the states")
    output_steps(sheet, "u", row, column, output[row], skip=True)
    return sheet


def of_one_channel(layer: Any, about: dict[str, Any], channel: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """delta (T, D or H), a (D or H, N), and u and output (T,) of the channel: of a head, the first of its channels."""
    delta, a, u, output = about["delta"][0], about["a"], about["u"][0], about["output"][0]
    if not layer.heads:
        return delta, a, u[:, channel], output[:, channel]
    first = channel * (u.shape[-1] // layer.heads)
    return delta, a[:, None].expand(-1, layer.states), u[:, first], output[:, first]


def fade_steps(sheet: Sheet, row: int, column: int) -> None:
    """The decay between the column and the row, and the selected cell of the channel."""
    sheet.work("passed", "between", "delta", how={"after": column, "to": row}, symbol=f"Δ[{column + 1}] + … + Δ[{row}]",
               about="the time that passes between the column and the row")
    sheet.work("fade", "grown", "a", "passed", symbol="exp(a · passed)", over="states",
               about="what is left after it: the product of all decays on the way")
    sheet.step("Decay on the way", f"exp(a (Δ[{column + 1}] + … + Δ[{row}]))",
               "Decays multiply, so the steps add up." if row > column else "The row is the column: nothing has faded.",
               "passed", "fade")
    sheet.work("written", "times", "b", "fade", symbol="b · fade", about="what is left of the code", over="states")
    sheet.work("terms", "times", "c", "written", symbol="c b fade", about="as the row reads it", over="states")
    sheet.work("sum", "sum", "terms", symbol="Σ", about="over the states")
    sheet.work("step here", "pick", "delta", how={"index": column}, symbol=f"Δ[{column}]",
               about="the step of the column")
    sheet.work("cell", "times", "sum", "step here", symbol=f"kernel[{row}, {column}]",
               about="the entry of this channel")
    sheet.step("Written, faded, read", f"kernel[{row}, {column}] = Σ c[{row}] exp(…) b[{column}] · Δ[{column}]",
               "It may be of either sign, and nothing makes a row sum to 1.", "written", "c", "terms", "sum",
               "step here", "cell")


def group_of_states(
    sheet: Sheet, reading: Reading, group: int, row: int, column: int, a: Tensor, delta: Tensor
) -> None:
    """The steps of every channel of the group, and their mean: the number on the map."""
    if column > row:
        return
    first, stop = reading.about["groups"][group]
    sheet.put("deltas", delta[:, first:stop], symbol="Δ", about="the steps of all of the group", over="columns")
    sheet.put("rates", a[first:stop], symbol="a", about="the rates of all of the group", over="matrix")
    sheet.work("passed each", "between", "deltas", how={"after": column, "to": row}, symbol="passed", over="group",
               about="the time that passes in each")
    sheet.work("fade each", "grown", "rates", "passed each", symbol="exp(a · passed)", over="matrix",
               about="what is left")
    sheet.work("code", "times", "c", "b", symbol="c b", about="what is read of what was written", over="states")
    sheet.work("sum each", "dot", "fade each", "code", symbol="Σ c b fade", over="group", about="over the states")
    sheet.work("step each", "pick", "deltas", how={"index": column}, symbol="Δ", over="group",
               about="steps of the column")
    sheet.work("cells", "times", "sum each", "step each", symbol="kernel", over="group",
               about=f"the entry of each {reading.about['unit']} of the group")
    mean_step(sheet, reading, group, row, column)


# -------------------------------------------------------------------------------------- linear recurrences


def linear_sheet(reading: Reading, group: int, row: int, column: int, channel: int) -> Sheet:
    about, sheet = reading.about, Sheet()
    a, c, v, o = (about[name][0, :, channel] for name in "acvo")
    sheet.put("a", a, symbol="a", about=f"how much of the past channel {channel + 1} keeps at each position",
              over="columns")
    sheet.put("c", c, symbol="c", about="how much of the value it writes", over="columns")
    sheet.put("o", o[row], symbol=f"o[{row}]", about="how much of the state the row shows, of either sign")
    sheet.step("What is kept, written and shown", "a, c, o", f"One channel of the group, number {channel + 1}.", "a",
               "c", "o")
    if column <= row:
        sheet.work("kept", "product", "a", how={"after": column, "to": row}, symbol=f"a[{row}] … a[{column + 1}]",
                   about="what is left of the column: the product of all that is kept on the way")
        sheet.work("written", "pick", "c", how={"index": column}, symbol=f"c[{column}]", about="what it wrote")
        sheet.work("left", "times", "kept", "written", symbol="kept · c", about="what is left of it")
        sheet.work("cell", "times", "o", "left", symbol=f"kernel[{row}, {column}]", about="the entry of this channel")
        sheet.step("Decay on the way", f"kernel[{row}, {column}] = o[{row}] · a[{row}] … a[{column + 1}] · c[{column}]",
                   "Written once, then multiplied by what is kept at every position since.", "kept", "written", "left",
                   "o", "cell")
    terms = Terms(*(each[None, :, None] for each in (a, c, v, o)))
    whole_row(sheet, "decaying", ("a", "c", "o"), kernel_by_definition(terms, len(a))[0, 0, row], row, column)
    if column <= row:
        group_of_channels(sheet, reading, group, row, column)
    sheet.put("v", v, symbol="v", about="the value of the channel at each position", over="columns")
    output_steps(sheet, "v", row, column, about["output"][0, row, channel])
    return sheet


def group_of_channels(sheet: Sheet, reading: Reading, group: int, row: int, column: int) -> None:
    first, stop = reading.about["groups"][group]
    sheet.put("keeps", reading.about["a"][0, :, first:stop], symbol="a", about="of all channels of the group",
              over="columns")
    sheet.put("writes", reading.about["c"][0, column, first:stop], symbol=f"c[{column}]", over="group",
              about="of each channel")
    sheet.put("shows", reading.about["o"][0, row, first:stop], symbol=f"o[{row}]", over="group",
              about="of each channel")
    sheet.work("kept each", "product", "keeps", how={"after": column, "to": row}, symbol="kept", over="group",
               about="what is left on the way")
    sheet.work("left each", "times", "kept each", "writes", symbol="kept · c", over="group",
               about="of what was written")
    sheet.work("cells", "times", "shows", "left each", symbol="kernel", over="group", about="the entry of each channel")
    mean_step(sheet, reading, group, row, column)


# --------------------------------------------------------------------------------------------- shared steps


def whole_row(sheet: Sheet, op: str, of: tuple[str, ...], own: Tensor, row: int, column: int) -> None:
    sheet.work("kernel", op, *of, how={"row": row}, values=own, symbol=f"kernel[{row}, ·]", over="columns",
               about="the same for every column, in this channel; 0 after the row")
    sheet.step("The row of this channel", f"kernel[{row}, s] for every s", LATER if column > row else
               "The same arithmetic for every column.", "kernel")


def mean_step(sheet: Sheet, reading: Reading, group: int, row: int, column: int) -> None:
    first, stop = reading.about["groups"][group]
    unit = reading.about["unit"]
    sheet.work("mean", "mean", "cells", values=reading.values[0, group, row, column], symbol="mean",
               about="their mean: the number on the map")
    several = stop - first > 1
    sheet.step("All of the group", f"mean over {unit}s {first + 1} to {stop}" if several else f"{unit} {stop}",
               f"The map shows the mean of {stop - first} {unit}s." if several else
               f"The group has one {unit}: its entry is on the map.", "passed each", "kept each", "cells", "mean")


def output_steps(sheet: Sheet, name: str, row: int, column: int, output: Tensor, skip: bool = False) -> None:
    """kernel times input, added up: what the channel gives."""
    sheet.work("here", "pick", name, how={"index": column}, symbol=f"{name}[{column}]", about="the input of the column")
    sheet.work("entry", "pick", "kernel", how={"index": column}, symbol=f"kernel[{row}, {column}]", about="its entry")
    sheet.work("part", "times", "entry", "here", symbol=f"kernel · {name}", about="what the column adds")
    sheet.work("parts", "times", "kernel", name, symbol=f"kernel · {name}", about="what every column adds",
               over="columns")
    formula = f"Σ kernel · {name}"
    if not skip:
        sheet.work("output", "sum", "parts", values=output, symbol=formula, about="their sum: what the channel gives")
    else:
        sheet.work("read", "sum", "parts", symbol=formula, about="their sum")
        sheet.work("now", "pick", name, how={"index": row}, symbol=f"{name}[{row}]",
                   about="the input of the row itself")
        sheet.work("by", "times", "skip", "now", symbol=f"skip · {name}", about="what passes by the states")
        sheet.work("output", "plus", "read", "by", values=output, symbol="y", about="what the channel gives")
        formula += f" + skip · {name}[{row}]"
    sheet.step("Times the input, added up", f"y[{row}] = {formula}",
               "Every column adds its input times its entry; a gate and a matrix follow.", "here", "entry", "part",
               "parts", "read", "by", "output")


def matrix_sheet(reading: Reading, row: int, column: int) -> Sheet:
    sheet, lag = Sheet(), row - column
    if lag < 0:
        sheet.put("size", reading.values[0, 0, row, column], symbol=f"kernel[{row}, {column}]",
                  about="the number on the map")
        sheet.step("Nothing is read", "0", LATER, "size")
        return sheet
    power = torch.linalg.matrix_power(reading.about["w_h"], lag) @ reading.about["w_c"]
    sheet.put("power", power.flatten(), symbol=f"W_h^{lag} W_c", over="entries",
              about="what is done to the column's input on its way to the row's state, all entries of the matrix")
    sheet.step("The matrix on the way", f"W_h^{lag} W_c", f"At each of the {lag} steps the state is multiplied by W_h.",
               "power")
    sheet.work("size", "norm", "power", values=reading.values[0, 0, row, column], symbol="|W_h^… W_c|",
               about="the root of the sum of squares: the number on the map")
    sheet.step("Its size", "√ Σ w²", "No sign is left, and no channel is told from another.", "size")
    return sheet
