// Curves on a canvas: every pixel column shows the least and the greatest of what falls into it, so that no spike is lost.
import { num } from "./dom.js";
import { DASHES, seriesColour } from "./colours.js";

const TRAIN_ROOM = { left: 62, right: 190, top: 10, bottom: 30 };

/** What each pixel column holds of points in order: [column, first, least, greatest, last]. */
export function trainColumns(xs, ys, place) {
  const found = [];
  let now = null;
  for (let at = 0; at < xs.length; at++) {
    const y = ys[at];
    if (y === null || !Number.isFinite(y)) continue;
    const column = Math.floor(place(xs[at]));
    if (!Number.isFinite(column)) continue;
    if (now && now[0] === column) {
      if (y < now[2]) now[2] = y;
      if (y > now[3]) now[3] = y;
      now[4] = y;
    } else found.push(now = [column, y, y, y, y]);
  }
  return found;
}

/** The exponential moving average, divided by the weight it has seen: unbiased from the first point on. */
export function trainSmooth(values, weights, decay) {
  let sum = 0, seen = 0;
  return values.map((value, at) => {
    const keep = decay ** (weights?.[at] ?? 1);
    sum = keep * sum + (1 - keep) * value;
    seen = keep * seen + (1 - keep);
    return sum / seen;
  });
}

/** Where to write numbers on an axis: 1, 2 or 5 times a power of ten; on a logarithmic one, powers of ten first. */
export function trainTicks(low, high, log, most = 7) {
  if (log) {
    const all = steps => {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
        for (const step of steps) {
          const value = step * 10 ** power;
          if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) found.push(value);
        }
      return found;
    };
    const tens = all([1]);
    if (tens.length > 1) return tens.length > most ? tens.filter((_, at) => at % Math.ceil(tens.length / most) === 0) : tens;
    if (high / low > 1.5) return all([1, 1.5, 2, 3, 4, 5, 6, 8]);
  }
  const rough = (high - low) / most || 1, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(times => times * unit).find(each => each >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high * (1 + 1e-12) && found.length < 30; at++) found.push(at * step);
  return found;
}

export const trainTold = value => Math.abs(value) >= 1e4 ? `${num(value / 1000, value % 1000 ? 1 : 0)}k`
    : String(+value.toPrecision(6)).replace("-", "−");

/**
 * Draws lines {name, index, xs, ys, smooth} and gives back where things are: {x0, x1, y0, y1, left, top, width, height}.
 * view: {zoom: [x0, x1] | null, xlog, ylog, title}
 */
export function trainDraw(canvas, lines, view) {
  const scale = devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight, room = TRAIN_ROOM;
  if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(high * scale)) Object.assign(canvas,
      { width: Math.round(wide * scale), height: Math.round(high * scale) });
  const c = canvas.getContext("2d"), own = getComputedStyle(canvas);
  const ink = own.getPropertyValue("--ink"), soft = own.getPropertyValue("--soft"), rule = own.getPropertyValue("--line");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, wide, high);
  c.font = `12px ${own.fontFamily}`;
  const width = Math.max(50, wide - room.left - room.right), height = Math.max(50, high - room.top - room.bottom);
  const plot = { ...trainRange(lines, view), left: room.left, top: room.top, width, height };
  if (plot.x0 === undefined) {
    c.fillStyle = soft;
    c.fillText("no points yet", room.left + 10, room.top + 20);
    return plot;
  }
  const along = (value, low, top, log) => log ? (Math.log(value) - Math.log(low)) / (Math.log(top) - Math.log(low))
      : (value - low) / (top - low);
  const toX = value => room.left + width * along(value, plot.x0, plot.x1, plot.xlog), toY = value =>
      room.top + height * (1 - along(value, plot.y0, plot.y1, plot.ylog));
  Object.assign(plot, { toX, toY });
  c.lineWidth = 1;
  c.fillStyle = soft;
  c.strokeStyle = rule;
  c.textBaseline = "middle";
  c.textAlign = "right";
  for (const value of trainTicks(plot.y0, plot.y1, plot.ylog, Math.max(2, height / 45))) {
    const y = Math.round(toY(value)) + 0.5;
    c.beginPath(); c.moveTo(room.left, y); c.lineTo(room.left + width, y); c.stroke();
    c.fillText(trainTold(value), room.left - 7, y);
  }
  c.textAlign = "center";
  c.textBaseline = "top";
  for (const value of trainTicks(plot.x0, plot.x1, plot.xlog, Math.max(2, width / 90))) {
    const x = Math.round(toX(value)) + 0.5;
    c.beginPath(); c.moveTo(x, room.top + height); c.lineTo(x, room.top + height + 5); c.stroke();
    c.fillText(trainTold(value), x, room.top + height + 8);
  }
  c.strokeRect(room.left + 0.5, room.top + 0.5, width, height);
  c.save();
  c.beginPath(); c.rect(room.left, room.top, width, height); c.clip();
  for (const line of lines) {
    if (line.smooth) trainStroke(c, line, line.ys, toX, toY, [], 1, 0.4, plot);
    trainStroke(c, line, line.smooth ?? line.ys, toX, toY, DASHES[line.index % DASHES.length], 2, 1, plot);
  }
  c.restore();
  trainLabels(c, lines, plot, ink);
  return plot;
}

/** What is in sight: of x the zoom or everything, of y what falls into it; some air above and below. */
function trainRange(lines, view) {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  const xlog = view.xlog, usable = x => x !== null && (!xlog || x > 0);
  for (const line of lines) for (const x of line.xs) if (usable(x)) { if (x < x0) x0 = x; if (x > x1) x1 = x; }
  if (view.zoom) [x0, x1] = [Math.max(view.zoom[0], xlog ? Math.max(x0, 1e-12) : -Infinity), view.zoom[1]];
  if (!(x0 <= x1)) return {};
  if (x0 === x1) { x0 -= xlog ? x0 / 2 : 1; x1 += 1; }
  let least = Infinity;
  for (const line of lines) for (let at = 0; at < line.xs.length; at++) {
    const y = line.ys[at];
    if (line.xs[at] < x0 || line.xs[at] > x1 || !Number.isFinite(y)) continue;
    if (y < y0) y0 = y;
    if (y > y1) y1 = y;
    if (y > 0 && y < least) least = y;
  }
  if (!(y0 <= y1)) [y0, y1] = [0, 1];
  const ylog = view.ylog && least < Infinity;
  if (ylog) return { x0, x1, y0: least / 1.08, y1: Math.max(y1, least * 1.1) * 1.08, xlog, ylog };
  const air = 0.04 * (y1 - y0 || Math.abs(y1) || 1);
  return { x0, x1, y0: y0 - air, y1: y1 + air, xlog, ylog };
}

function trainStroke(c, line, ys, toX, toY, dash, thick, alpha, plot) {
  const columns = trainColumns(line.xs, ys, toX);
  c.strokeStyle = c.fillStyle = seriesColour(line.index);
  c.globalAlpha = alpha;
  c.lineWidth = thick;
  c.lineJoin = "round";
  c.setLineDash(dash);
  c.beginPath();
  let before = false;
  for (const [column, first, low, top, last] of columns) {
    if (column < plot.left - 2000 || column > plot.left + plot.width + 2000) { before = false; }
    const x = column + 0.5;
    before ? c.lineTo(x, toY(first)) : c.moveTo(x, toY(first));
    if (top > low) { c.lineTo(x, toY(low)); c.lineTo(x, toY(top)); c.lineTo(x, toY(last)); }
    before = true;
  }
  c.stroke();
  c.setLineDash([]);
  c.beginPath();                                            // a spike is drawn whole, whatever the dashes leave out
  for (const [column, first, low, top] of columns) if (toY(low) - toY(top) > 3) { c.moveTo(column + 0.5, toY(low));
      c.lineTo(column + 0.5, toY(top)); }
  c.lineWidth = 1;
  c.stroke();
  if (columns.length < 60) for (const [column, first] of columns) { c.beginPath(); c.arc(column + 0.5, toY(first), thick + 0.5, 0, 7);
      c.fill(); }
  c.globalAlpha = 1;
}

/** Names at the ends of their lines, moved apart. */
function trainLabels(c, lines, plot, ink) {
  const ends = lines.map(line => {
    const ys = line.smooth ?? line.ys;
    let at = ys.length - 1;
    while (at >= 0 && (line.xs[at] > plot.x1 || !Number.isFinite(ys[at]))) at--;
    return at < 0 ? null : { line, x: plot.toX(line.xs[at]), y: plot.toY(ys[at]) };
  }).filter(Boolean).sort((a, b) => a.y - b.y);
  let lowest = plot.top + 2;
  ends.forEach((end, place) => {
    const most = plot.top + plot.height - 15 * (ends.length - 1 - place) - 4;
    end.at = lowest = Math.min(Math.max(end.y, lowest + (place ? 15 : 6)), Math.max(most, lowest));
  });
  c.textAlign = "left";
  c.textBaseline = "middle";
  const x = plot.left + plot.width + 8;
  for (const { line, at } of ends) {
    c.strokeStyle = seriesColour(line.index);
    c.lineWidth = 2;
    c.setLineDash(DASHES[line.index % DASHES.length]);
    c.beginPath(); c.moveTo(x, at); c.lineTo(x + 22, at); c.stroke();
    c.setLineDash([]);
    c.fillStyle = ink;
    c.fillText(trainShort(c, line.short ?? line.name, TRAIN_ROOM.right - 40), x + 27, at);
  }
}

function trainShort(c, text, most) {
  if (c.measureText(text).width <= most) return text;
  let end = text.length;
  while (end > 3 && c.measureText(`${text.slice(0, end)}…`).width > most) end--;
  return `${text.slice(0, end)}…`;
}
