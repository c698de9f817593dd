// The tree of a search on a canvas, one column a step. Only the columns in view are drawn, so that its width costs nothing.
import { element, clamp, label, num } from "./dom.js";
import { cutTo } from "./read_matrix.js";

const BEAM_COLUMN = 158, BEAM_BOX = 124, BEAM_LINE = 24, BEAM_TOP = 26, BEAM_ROOT = 76;
const BEAM_FONT = '13px system-ui, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif';
const beamColour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const beamX = step => BEAM_ROOT + step * BEAM_COLUMN;
const beamY = place => BEAM_TOP + place * BEAM_LINE;

/** {node, draw(data, {step, chosen, path, follow})}; `told` hears point(node or null) and pick(node). */
export function makeBeamTree(told) {
  const canvas = element("canvas", { className: "beam-canvas" }), wide = element("div", { className: "beam-wide" }, canvas);
  const node = element("div", { className: "beam-scroll", tabIndex: 0, role: "application", "aria-roledescription": "tree of a beam search",
    "aria-label": "Tree of the search: left and right change the step, up and down the candidate, f forces its prefix" }, wide);
  let data, view, over = null, waiting = 0;

  const redraw = () => {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      if (data) beamDraw(canvas, node, data, view, over);
    });
  };
  const at = event => {
    if (!data) return null;
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left + node.scrollLeft - BEAM_ROOT, y = event.clientY - box.top - BEAM_TOP;
    const inside = x >= 0 && x % BEAM_COLUMN <= BEAM_BOX && y >= 0;
    return inside ? data.columns[Math.floor(x / BEAM_COLUMN)]?.[Math.floor(y / BEAM_LINE)] ?? null : null;
  };
  const point = found => {
    if (found === over) return;
    over = found;
    canvas.classList.toggle("pointed", Boolean(found));
    told.point(found);
    redraw();
  };
  node.onscroll = redraw;
  canvas.onpointermove = event => point(at(event));
  canvas.onpointerleave = () => point(null);
  canvas.onclick = event => at(event) && told.pick(at(event));

  return {
    node, canvas,
    draw(newData, newView) {
      [data, view] = [newData, newView];
      if (over && data.byId.get(over.id) !== over) over = null;
      const tall = BEAM_TOP + Math.max(...data.columns.map(column => column.length), 1) * BEAM_LINE + 6;
      wide.style.setProperty("width", `${beamX(data.columns.length) + 4}px`);
      wide.style.setProperty("height", `${tall}px`);
      if (view.follow) beamFollow(node, view.step);
      Object.assign(node.dataset, { columns: data.columns.length, step: view.step + 1 });
      beamDraw(canvas, node, data, view, over);
    },
  };
}

/** The step that is looked at stays in view. */
function beamFollow(node, step) {
  const left = beamX(step - 1), right = beamX(step + 1) + 8;
  if (left < node.scrollLeft) node.scrollLeft = Math.max(0, left);
  else if (right > node.scrollLeft + node.clientWidth) node.scrollLeft = right - node.clientWidth;
}

function beamDraw(canvas, node, data, view, over) {
  const ratio = Math.max(1, devicePixelRatio), width = node.clientWidth, height = parseFloat(canvas.parentNode.style.height);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  const pen = canvas.getContext("2d"), left = node.scrollLeft;
  pen.setTransform(ratio, 0, 0, ratio, -left * ratio, 0);
  pen.textBaseline = "middle";
  const ink = Object.fromEntries(["page", "panel", "ink", "soft", "line", "accent", "on-accent", "focus", "good"].map(name =>
      [name, beamColour(`--${name}`)]));
  const first = clamp(Math.floor((left - BEAM_ROOT) / BEAM_COLUMN), 0, data.columns.length - 1);
  const last = clamp(Math.ceil((left + width - BEAM_ROOT) / BEAM_COLUMN), 0, data.columns.length - 1);
  beamStart(pen, data, ink, left);
  for (let step = first; step <= last; step++) {
    pen.globalAlpha = step > view.step ? .22 : 1;
    beamHeading(pen, step, view, ink, height);
    const order = [...data.columns[step]].sort((a, b) => view.path.has(a.id) - view.path.has(b.id) || a.kept - b.kept);
    for (const each of order) beamEdge(pen, data, each, view, ink);
    for (const each of data.columns[step]) beamNode(pen, each, view, over, ink);
  }
  pen.globalAlpha = 1;
}

function beamStart(pen, data, ink) {
  pen.font = BEAM_FONT;
  pen.fillStyle = ink.soft;
  pen.textAlign = "left";
  const last = data.source.at(-1) ?? "<eos>";
  pen.fillText(cutTo(pen, /^<[^<>]*>$/.test(last) ? "start" : `…${label(last)}`, BEAM_ROOT - 30), 4, beamY(0) + BEAM_LINE / 2);
}

function beamHeading(pen, step, view, ink, height) {
  const now = step === view.step;
  if (now) {
    pen.fillStyle = ink.panel;
    pen.fillRect(beamX(step) - 8, 0, BEAM_BOX + 16, height);
  }
  pen.font = now ? `600 ${BEAM_FONT}` : BEAM_FONT;
  pen.fillStyle = now ? ink.ink : ink.soft;
  pen.textAlign = "center";
  pen.fillText(String(step + 1), beamX(step) + BEAM_BOX / 2, BEAM_TOP / 2);
}

function beamEdge(pen, data, node, view, ink) {
  const parent = data.byId.get(node.parent), from = parent ? beamX(parent.step) + BEAM_BOX : BEAM_ROOT - 26, to = beamX(node.step);
  const above = beamY(parent?.place ?? 0) + BEAM_LINE / 2, below = beamY(node.place) + BEAM_LINE / 2, bend = (from + to) / 2;
  const on = view.path.has(node.id);
  pen.strokeStyle = on ? ink.accent : node.kept ? ink.soft : ink.line;
  pen.lineWidth = on ? 3 : node.kept ? 1.6 : 1;
  pen.setLineDash(node.kept || on ? [] : [3, 3]);
  pen.beginPath();
  pen.moveTo(from, above);
  pen.bezierCurveTo(bend, above, bend, below, to, below);
  pen.stroke();
  pen.setLineDash([]);
}

function beamNode(pen, node, view, over, ink) {
  const x = beamX(node.step), y = beamY(node.place) + 2, tall = BEAM_LINE - 4;
  const on = view.path.has(node.id), chosen = view.chosen?.id === node.id;
  pen.beginPath();
  pen.roundRect(x, y, BEAM_BOX, tall, 5);
  pen.fillStyle = on ? ink.accent : ink.page;
  if (node.kept || on) pen.fill();
  if (node.kept || on || node === over) {
    pen.strokeStyle = node === over ? ink.ink : node.ended ? ink.good : on ? ink.accent : ink.soft;
    pen.lineWidth = node.ended ? 2 : 1;
    pen.stroke();
  }
  if (chosen) {
    pen.beginPath();
    pen.roundRect(x - 2.5, y - 2.5, BEAM_BOX + 5, tall + 5, 7);
    pen.strokeStyle = ink.focus;
    pen.lineWidth = 3;
    pen.stroke();
  }
  const score = node.score === null ? "−∞" : num(node.score, 2);
  pen.font = BEAM_FONT.replace("13px", "11px");
  pen.textAlign = "right";
  pen.fillStyle = on ? ink["on-accent"] : ink.soft;
  pen.fillText(score, x + BEAM_BOX - 6, y + tall / 2 + .5);
  const room = BEAM_BOX - 18 - pen.measureText(score).width;
  pen.font = node.kept ? `600 ${BEAM_FONT}` : BEAM_FONT;
  pen.textAlign = "left";
  pen.fillStyle = on ? ink["on-accent"] : node.kept ? ink.ink : ink.soft;
  pen.fillText(cutTo(pen, `${node.ended ? "■ " : ""}${label(node.piece)}`, room), x + 6, y + tall / 2 + .5);
}
