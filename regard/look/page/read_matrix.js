// The matrix: one canvas with labels, cells and surprisal, and a second above it for what is pointed at.
// A frame is the part of the rows and columns that is drawn: {top, left, tall, wide}.
import { element, clamp, num, upTo } from "./dom.js";
import { colourOf, css, inkOn, lookup, shadeOf, themeNow } from "./colours.js";
import { DETAILED, LABELLED, drawnTop, exactRow } from "./read_view.js";

const FONT = '12px system-ui, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif';
const SMALL_FONT = FONT.replace("12px", "11px");
const LONGEST = 110;                      // pixels of a label
const STRIP = 58;                         // pixels of the strip of surprisals
const MOST_BITS = 12;                     // that the strip is as wide as

const variable = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** All of the view, or as much of it as is drawn at once. */
export function wholeFrame(view, room) {
  const most = Math.max(view.rows.length, view.columns.length) <= DETAILED ? DETAILED
      : clamp(Math.floor((room - LONGEST - STRIP - 20) / 2), 60, DETAILED);
  return { top: 0, left: 0, tall: Math.min(most, view.rows.length), wide: Math.min(most, view.columns.length) };
}

export function fittedFrame(view, frame) {
  const tall = clamp(Math.round(frame.tall), 1, Math.min(DETAILED, view.rows.length)), wide = clamp(Math.round(frame.wide), 1,
      Math.min(DETAILED, view.columns.length));
  return { tall, wide, top: clamp(Math.round(frame.top), 0, view.rows.length - tall),
      left: clamp(Math.round(frame.left), 0, view.columns.length - wide) };
}

const isNumbered = frame => Math.max(frame.tall, frame.wide) <= LABELLED;

/** Where everything goes, in CSS pixels. */
export function geometryOf(view, frame, room, high = 600) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  const widest = (lines, places) => Math.min(LONGEST, Math.max(12, ...places.map(at => pen.measureText(lines[at].label).width)));
  const rows = view.rows.slice(frame.top, frame.top + frame.tall), columns = view.columns.slice(frame.left, frame.left + frame.wide);
  const left = Math.ceil(widest(view.all.rows, rows)) + 10, strip = hasStrip(view) ? STRIP : 0;
  const free = room - left - strip - 2;
  let across = Math.floor(free / frame.wide), down;
  if (isNumbered(frame)) {
    across = clamp(across, 30, 68);
    down = clamp(Math.floor(340 / frame.tall), 24, 32);
  } else {
    across = down = clamp(Math.min(across, Math.floor(high / frame.tall)), 2, 25);
  }
  const names = widest(view.all.columns, columns), flat = names <= across - 4;
  return { left, top: (flat ? 14 : Math.ceil(names)) + 8, across, down, flat, strip, width: left + across * frame.wide + strip + 1,
    height: (flat ? 14 : Math.ceil(names)) + 8 + down * frame.tall + 1 };
}

const hasStrip = view => view.look.written === view.track.rows && view.look.said.length > 0;

/** 256 pixels for the bytes of a view, stretched where it is autoscaled. */
export function tableOf(view, theme = themeNow()) {
  const table = lookup(view.track.signed, theme);
  if (!view.auto || !view.strongest) return table;
  const most = view.track.signed ? 127 : 255;
  return Uint32Array.from({ length: 256 }, (_, byte) => {
    const own = view.track.signed && byte > 127 ? byte - 256 : byte;
    return table[clamp(Math.round(own * most / view.strongest), -most, most) & 255];
  });
}

/** The cells of a frame, a pixel each. */
export function cellsOf(view, frame, theme) {
  const canvas = element("canvas", { width: frame.wide, height: frame.tall }), pen = canvas.getContext("2d");
  const image = pen.createImageData(frame.wide, frame.tall), pixels = new Uint32Array(image.data.buffer), table = tableOf(view, theme);
  for (let row = 0, at = 0; row < frame.tall; row++) {
    const start = view.rows[frame.top + row] * view.wide;
    for (let column = 0; column < frame.wide; column++) pixels[at++] = table[view.bytes[start + view.columns[frame.left + column]]];
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** Draws a frame at so many device pixels for a CSS pixel. */
export function drawMatrix(pen, view, frame, where, ratio) {
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, where.width, where.height);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(cellsOf(view, frame), where.left, where.top, where.across * frame.wide, where.down * frame.tall);
  drawLines(pen, frame, where);
  drawLabels(pen, view, frame, where);
  if (isNumbered(frame)) drawNumbers(pen, view, frame, where);
  if (where.strip) drawStrip(pen, view, frame, where);
  drawGold(pen, view, frame, where);
}

function drawLines(pen, frame, where) {
  pen.strokeStyle = variable("--line");
  pen.lineWidth = 1;
  pen.beginPath();
  if (where.across >= 12) {
    for (const column of upTo(frame.wide)) pen.rect(where.left + column * where.across + .5, where.top + .5, 0, where.down * frame.tall);
    for (const row of upTo(frame.tall)) pen.rect(where.left + .5, where.top + row * where.down + .5, where.across * frame.wide, 0);
  }
  pen.rect(where.left - .5, where.top - .5, where.across * frame.wide + 1, where.down * frame.tall + 1);
  pen.stroke();
}

function drawLabels(pen, view, frame, where) {
  pen.font = FONT;
  pen.fillStyle = variable("--ink");
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const everyRow = Math.ceil(13 / where.down), everyColumn = where.flat ? 1 : Math.ceil(13 / where.across);
  for (let row = 0; row < frame.tall; row += everyRow) {
    pen.fillText(cutTo(pen, view.all.rows[view.rows[frame.top + row]].label, LONGEST), where.left - 6, where.top + (row + .5) * where.down);
  }
  for (let column = 0; column < frame.wide; column += everyColumn) {
    const name = cutTo(pen, view.all.columns[view.columns[frame.left + column]].label,
        LONGEST), x = where.left + (column + .5) * where.across;
    if (where.flat) {
      pen.textAlign = "center";
      pen.fillText(name, x, where.top - 9);
    } else {
      pen.save();
      pen.translate(x, where.top - 6);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
      pen.fillText(name, 0, 0);
      pen.restore();
    }
  }
}

export function cutTo(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const parts = [...text];
  while (parts.length > 1 && pen.measureText(`${parts.join("")}…`).width > width) parts.pop();
  return `${parts.join("")}…`;
}

/** Amounts that are all small are printed in a unit: a power of ten, which the legend tells. */
export function unitOf(view) {
  return view.top < .1 ? 10 ** Math.floor(Math.log10(view.top)) : 1;
}

/** A number in a cell: .62, 4e−4, −1.3. Nothing is 0 but what is. */
export function inCell(value) {
  const size = Math.abs(value), sign = value < 0 ? "−" : "";
  if (size === 0) return "0";
  if (size < .005) return sign + size.toExponential(0).replace("-", "−");
  return sign + (size < .995 ? size.toFixed(2).slice(1) : size < 9.95 ? size.toFixed(size < .9995 || size > 1.0005 ? 1 : 0) : size < 1000
      ? size.toFixed(0) : size.toExponential(0));
}

const neverRead = (view, row, column) => view.track.causal && view.track.rows === view.track.columns
  && view.all.columns[column].tokens[0] > view.all.rows[row].tokens.at(-1);

function drawNumbers(pen, view, frame, where) {
  pen.font = SMALL_FONT;
  pen.textAlign = "center";
  const top = drawnTop(view), unit = unitOf(view);
  for (const row of upTo(frame.tall)) {
    const place = view.rows[frame.top + row], values = exactRow(view, place);
    for (const column of upTo(values ? frame.wide : 0)) {
      const other = view.columns[frame.left + column], value = values[other];
      if (neverRead(view, place, other)) continue;
      pen.fillStyle = inkOn(colourOf(shadeOf(value, top), view.track.signed));
      pen.fillText(inCell(value / unit), where.left + (column + .5) * where.across, where.top + (row + .5) * where.down, where.across - 2);
    }
  }
}

/** Bits of surprise of what each row writes. */
export const bitsOf = (view, line) => {
  const bits = line.tokens.map(at => view.look.said[at]?.bits);
  return bits.every(Number.isFinite) ? bits.reduce((sum, each) => sum + each, 0) : Infinity;
};

function drawStrip(pen, view, frame, where) {
  const x = where.left + where.across * frame.wide + 8, wide = where.strip - 10;
  pen.font = SMALL_FONT;
  pen.textAlign = "left";
  pen.fillStyle = variable("--soft");
  pen.fillText("bits", x, where.top - 9);
  for (const row of upTo(frame.tall)) {
    const line = view.all.rows[view.rows[frame.top + row]], bits = bitsOf(view, line), y = where.top + row * where.down;
    const guess = line.tokens.some(at => view.look.said[at].guess);
    pen.fillStyle = css(colourOf(.45, true));
    if (!guess) pen.fillRect(x, y + (where.down > 4 ? 1 : 0), Math.max(1, Math.min(1, bits / MOST_BITS) * wide),
        Math.max(1, where.down - (where.down > 4 ? 2 : 0)));
    if (where.down < 12) continue;
    pen.fillStyle = variable("--ink");
    pen.fillText(guess ? "guess" : num(bits, 1), x + 2, y + where.down / 2);
  }
}

function drawGold(pen, view, frame, where) {
  pen.strokeStyle = variable("--focus");
  pen.lineWidth = 2;
  for (const [row, column] of view.words ? [] : view.track.links ?? []) {
    const down = view.rows.indexOf(row) - frame.top, across = view.columns.indexOf(column) - frame.left;
    if (down < 0 || across < 0 || down >= frame.tall || across >= frame.wide) continue;
    pen.strokeRect(where.left + across * where.across + 2, where.top + down * where.down + 2, where.across - 3, where.down - 3);
  }
}

// ---- what is pointed at

/**
 * The matrix as an element: draw(view, frame), mark({row, column}, {row, column}) in places among all.
 * `told` hears: point(row, column) · leave() · pick(row, column) · zoom(frame) · reset()
 */
export function makeMatrix(told) {
  const base = element("canvas", { className: "read-cells" }), over = element("canvas", { className: "read-over" });
  const node = element("div", { className: "read-grid", tabIndex: 0, role: "application", "aria-roledescription": "reading map",
    "aria-label": "Reading map: arrows move, brackets change the layer, comma and stop the head, Enter shows the arithmetic" }, base, over);
  let view, frame, where, from, to;

  const cellAt = event => {
    const box = over.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - where.left) / where.across);
    const row = Math.floor((event.clientY - box.top - where.top) / where.down);
    const inside = row >= 0 && column >= 0 && row < frame.tall && column < frame.wide;
    return inside ? { row: frame.top + row, column: frame.left + column } : null;
  };

  over.onpointerdown = event => {
    if (event.button || !(from = cellAt(event))) return;
    to = from;
    over.setPointerCapture(event.pointerId);
  };
  over.onpointermove = event => {
    const cell = view && cellAt(event);
    if (!cell) return from || told.leave();
    if (from) to = cell;
    told.point(view.rows[cell.row], view.columns[cell.column]);
  };
  over.onpointerup = () => {
    if (!from) return;
    const [a, b] = [from, to];
    from = to = undefined;
    if (a.row === b.row && a.column === b.column) return told.pick(view.rows[a.row], view.columns[a.column]);
    if (a.row === b.row || a.column === b.column) return told.point(view.rows[b.row], view.columns[b.column]);
    told.zoom({ top: Math.min(a.row, b.row), left: Math.min(a.column, b.column), tall: Math.abs(a.row - b.row) + 1,
        wide: Math.abs(a.column - b.column) + 1 });
  };
  over.onpointercancel = () => { from = to = undefined; };
  over.onpointerleave = () => from || told.leave();
  over.ondblclick = () => told.reset();

  const size = (canvas, ratio) => {
    canvas.width = Math.round(where.width * ratio);
    canvas.height = Math.round(where.height * ratio);
    canvas.style.setProperty("width", `${where.width}px`);
    canvas.style.setProperty("height", `${where.height}px`);
  };

  return {
    node, base,
    draw(newView, newFrame, room) {
      [view, frame] = [newView, newFrame];
      where = geometryOf(view, frame, room);
      const ratio = Math.max(1, Math.round(devicePixelRatio));
      size(base, ratio);
      size(over, ratio);
      Object.assign(base.dataset, { left: where.left, top: where.top, across: where.across, down: where.down, firstRow: frame.top,
          firstColumn: frame.left, rows: frame.tall, columns: frame.wide, ratio });
      drawMatrix(base.getContext("2d"), view, frame, where, ratio);
    },
    mark(hover, pinned) {
      const pen = over.getContext("2d"), ratio = over.width / where.width;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, where.width, where.height);
      for (const [place, colour, width] of [[hover, variable("--ink"), 1], [pinned, variable("--focus"), 2]]) {
        const row = view.rows.indexOf(place?.row) - frame.top, column = view.columns.indexOf(place?.column) - frame.left;
        pen.strokeStyle = colour;
        pen.lineWidth = width;
        const tall = where.down * frame.tall, wide = where.across * frame.wide, cross = [];
        if (row >= 0 && row < frame.tall) cross.push([0, row * where.down, wide, where.down]);
        if (column >= 0 && column < frame.wide) cross.push([column * where.across, 0, where.across, tall]);
        for (const [x, y, w, h] of cross) pen.strokeRect(where.left + x, where.top + y, w, h);
        if (cross.length === 2) {
          pen.lineWidth = 3;
          pen.strokeRect(where.left + column * where.across, where.top + row * where.down, where.across, where.down);
        }
      }
      if (from && to && from.row !== to.row && from.column !== to.column) {
        pen.fillStyle = variable("--focus");
        pen.globalAlpha = .25;
        pen.fillRect(where.left + (Math.min(from.column, to.column) - frame.left) * where.across,
            where.top + (Math.min(from.row, to.row) - frame.top) * where.down,
          (Math.abs(from.column - to.column) + 1) * where.across, (Math.abs(from.row - to.row) + 1) * where.down);
        pen.globalAlpha = 1;
      }
    },
  };
}
