// Ribbons: what is read above, what reads below, and a band for each of the fewest cells that hold most of a row.
import { drawn, element, upTo } from "./dom.js";
import { colourOf, css } from "./colours.js";
import { DETAILED, LABELLED, exactRow, heaviest } from "./read_view.js";
import { cutTo } from "./read_matrix.js";

const TALL = 150, GAP = 12, TEXT = 18;
const FONT_OF_RIBBONS = "13px system-ui, sans-serif";

/** An element with draw(view, share, row, room, chosen): all rows of a short text, the chosen one before the others;
 *  of a longer one that row. */
export function makeRibbons(told) {
  const svg = drawn("svg", { class: "read-ribbons", role: "img" });
  const node = element("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": "Ribbons" }, svg);
  let places = {};
  svg.addEventListener("pointerover", event => event.target.dataset.row && told.point({ row: +event.target.dataset.row }));
  svg.addEventListener("pointerleave", () => told.leave());
  svg.addEventListener("click", event => event.target.dataset.row && told.pick({ row: +event.target.dataset.row }));
  return {
    node,
    draw(view, share, row, room, chosen) {
      const most = Math.max(view.rows.length, view.columns.length);
      node.hidden = most > DETAILED || Boolean(view.picture) || !view.bytes;
      if (node.hidden) return;
      const small = most <= LABELLED && view.cells;
      places = small ? wordPlaces(view, room) : rulerPlaces(view, room);
      const rows = small ? view.rows : view.rows.filter(each => each === row);
      const bands = rows.flatMap(each => bandsOf(view, each, share, places, small && chosen ? row : undefined));
      svg.setAttribute("width", places.width);
      svg.setAttribute("height", TALL + 2 * TEXT + 8);
      svg.setAttribute("aria-label",
          `Ribbons: the cells that hold ${Math.round(100 * share)}% of ${small ? "each row" : "the selected row"}`);
      svg.replaceChildren(...bands, ...(small ? wordLabels(view, places, chosen ? row : undefined)
          : rulerLabels(view, places, row, share)));
    },
  };
}

function penOf() {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT_OF_RIBBONS;
  return pen;
}

/** Words as wide as they are; both lines begin and end together. */
function wordPlaces(view, room) {
  const pen = penOf(), sizes = (lines, shown) => shown.map(at => Math.min(120, Math.ceil(pen.measureText(lines[at].label).width)) + GAP);
  const columns = sizes(view.all.columns, view.columns), rows = sizes(view.all.rows, view.rows);
  const sum = all => all.reduce((total, each) => total + each, 0), width = Math.max(sum(columns), sum(rows),
      Math.min(room - 8, 68 * Math.max(columns.length, rows.length)));
  const middles = all => {
    const spare = (width - sum(all)) / all.length;
    let x = 0;
    return all.map(each => (x += each + spare) - (each + spare) / 2);
  };
  return { width, columns: middles(columns), rows: middles(rows) };
}

function rulerPlaces(view, room) {
  const width = Math.max(300, room - 8), even = count => upTo(count).map(at => 30 + (width - 60) * (at + .5) / count);
  return { width, columns: even(view.columns.length), rows: even(view.rows.length) };
}

function bandsOf(view, row, share, { columns, rows }, chosen) {
  const values = exactRow(view, row);
  if (!values) return [];
  const total = view.columns.reduce((sum, column) => sum + Math.abs(values[column]), 0);
  const faded = chosen !== undefined && chosen !== row, below = rows[view.rows.indexOf(row)];
  return heaviest(view, values, share).map(column => {
    const above = columns[view.columns.indexOf(column)], part = Math.abs(values[column]) / total, bend = TEXT + 4 + TALL / 2;
    const band = drawn("path", { d: `M${above} ${TEXT + 4}C${above} ${bend} ${below} ${bend} ${below} ${TEXT + 4 + TALL}`, fill: "none",
      "stroke-width": (1 + 7 * part).toFixed(2), "stroke-opacity": (faded ? .08 : .25 + .7 * Math.sqrt(part)).toFixed(2),
      stroke: css(colourOf(Math.sign(values[column]) * .75, view.track.signed)) });
    band.dataset.row = row;
    return band;
  });
}

function wordLabels(view, { columns, rows }, row) {
  const pen = penOf(), values = row === undefined ? undefined : exactRow(view, row);
  const word = (line, x, y, on) => drawn("text", { x, y, "text-anchor": "middle", class: on ? "on" : "" }, cutTo(pen, line.label, 118));
  const most = values && heaviest(view, values, .5);
  const above = view.columns.map((column, at) => word(view.all.columns[column], columns[at], TEXT - 3, most?.includes(column)));
  const below = view.rows.map((each, at) => {
    const made = word(view.all.rows[each], rows[at], TALL + 2 * TEXT + 2, each === row);
    made.dataset.row = each;
    return made;
  });
  return [...above, ...below];
}

/** A tick for each position, and names only where the bands end, the heaviest first. */
function rulerLabels(view, { columns, rows, width }, row, share) {
  const pen = penOf(), values = exactRow(view, row), placed = [], y = TEXT + 2;
  const ticks = (all, y1, y2) => drawn("path", { class: "ticks", d: all.map(x => `M${x.toFixed(1)} ${y1}V${y2}`).join("") });
  const named = (line, x, at) => drawn("text",
      { x, y: at, "text-anchor": x < 60 ? "start" : x > width - 60 ? "end" : "middle", class: "on" }, cutTo(pen, line.label, 118));
  const above = (values ? heaviest(view, values, share) : []).flatMap(column => {
    const x = columns[view.columns.indexOf(column)], half = Math.min(118, pen.measureText(view.all.columns[column].label).width) / 2 + 4;
    if (placed.some(([from, to]) => x - half < to && x + half > from)) return [];
    placed.push([x - half, x + half]);
    return [named(view.all.columns[column], x, TEXT - 3)];
  });
  const at = view.rows.indexOf(row), below = at < 0 ? [] : [named(view.all.rows[row], rows[at], TALL + 2 * TEXT + 4)];
  return [ticks(columns, y, y + 4), ticks(rows, y + TALL, y + TALL + 4), ...above, ...below];
}
