// Running text: every token tinted by what the selected row reads of it, with a bar for the surprise of what was written.
import { element, label, num, upTo } from "./dom.js";
import { colourOf, css, inkOn, shadeOf } from "./colours.js";
import { drawnTop, leadOf } from "./read_view.js";

const TALLEST = 9, FULL_BITS = 14;        // pixels of a bar, and the bits at which it is full

/** Texts of the rows and the columns of a view; one where it reads itself. `told.point/pick({row} or {column})` in tokens. */
export function makeRunningText(look, track, told) {
  const names = [...new Set([track.columns, track.rows])].filter(name => !look.sides[name].patches);
  const parts = names.map(name => sideText(look, name, name === track.rows ? "row" : "column", told));
  const spans = new Map(names.map((name, at) => [name, parts[at].spans]));
  return {
    node: element("div", { className: "read-texts" }, parts.map(part => part.node)),
    /** values: what the row reads of each line of columns; at: the tokens of the row. */
    tint(view, values, rowLine) {
      const read = spans.get(track.columns), top = drawnTop(view), strong = view.track.signed;
      if (read) view.all.columns.forEach((line, place) => {
        const back = colourOf(shadeOf(values?.[place] ?? 0, top), strong), drawnBack = values?.[place] ? css(back) : "";
        for (const at of line.tokens) {
          if (read[at].tinted === drawnBack) continue;
          read[at].tinted = drawnBack;
          read[at].style.setProperty("background-color", drawnBack);
          read[at].style.setProperty("color", drawnBack && inkOn(back));
        }
      });
      const written = spans.get(track.rows);
      for (const at of this.marked ?? []) written?.[at]?.classList.remove("here");
      this.marked = (rowLine?.tokens ?? []).map(at => shownAt(look, track, at));
      for (const at of this.marked) written?.[at]?.classList.add("here");
    },
    marked: [],
  };
}

/** Where the text shows what a row is named by: one that writes is named by what it predicts. */
const shownAt = (look, track, at) => track.row_label === "writes" ? at + leadOf(look) : at;

function sideText(look, name, axis, told) {
  const side = look.sides[name], written = look.written === name, spans = [], chars = [...side.text];
      // offsets count characters, not halves of them
  const part = (from, to) => chars.slice(from, to).join("");
  const paragraph = element("p", { className: written ? "read-text barred" : "read-text", dir: "auto" });
  let end = 0;
  for (const at of upTo(side.tokens.length)) {
    const [, piece, start, stop, special] = side.tokens[at], from = start < 0 ? end : start;
    if (from > end) paragraph.append(part(end, from));
    const own = special || start < 0 || stop <= from ? label(piece) : part(Math.max(from, end), Math.max(stop, end)) || label(piece);
    const span = element("span", { className: special ? "token special" : "token" }, own);
    span.dataset.at = at;
    if (written) barUnder(span, look, at, piece);
    spans.push(span);
    paragraph.append(span);
    end = Math.max(end, stop);
  }
  const place = event => event.target.dataset.at === undefined ? undefined : { [axis]: +event.target.dataset.at };
  paragraph.onpointerover = event => void (place(event) && told.point(place(event)));
  paragraph.onpointerleave = () => told.leave();
  paragraph.onclick = event => void (place(event) && told.pick(place(event)));
  const what = [side.title || name, written ? "bars: bits of surprise at each token" : "", axis === "row"
      ? "click a token to see what it reads" : ""];
  return { spans, node: element("section", { className: "read-side" },
      element("h3", {}, what[0], element("small", { className: "note" }, ` ${what.slice(1).filter(Boolean).join("; ")}`)), paragraph) };
}

/** A bar for the surprise of the row that predicted the token at this place. */
function barUnder(span, look, at, piece) {
  const said = look.said[at - leadOf(look)];
  if (!said || said.guess) return;
  const bits = said.bits ?? Infinity;
  span.style.setProperty("--bits", `${Math.min(TALLEST, Math.max(.5, bits / FULL_BITS * TALLEST))}px`);
  span.title = `${label(piece)}: ${num(bits, 2)} bits, rank ${said.rank}`;
}
