// Maps of two models beside each other, and what is left when one is taken from the other, where their tokens are the same.
import { choice, element, num } from "./dom.js";
import { shadeOf } from "./colours.js";
import { isImage, isText } from "./app.js";
import { exactRow, fillView, viewOf } from "./read_view.js";
import { makeMatrix, wholeFrame } from "./read_matrix.js";

const MOST_DIFFERENCE = 300;             // rows and columns

/** {node, show(data)}: a choice of two models and a track; the maps come when asked for. */
export function makeCompareMaps(app) {
  const node = element("section", { className: "compare-maps", "aria-label": "Maps" });
  let waiting;

  async function show(data) {
    waiting?.abort();
    const mine = waiting = new AbortController(), pairs = comparePairs(data), state = app.state.difference;
    const heading = [element("h2", {}, "Difference map"), element("div", { className: "bar" },
        choice("Take", [["", "choose two models"], ...pairs.map(([a, b]) =>
        [`${a}-${b}`, `${data.models[a].name} − ${data.models[b].name}`])],
      pairs.some(([a, b]) => `${a}-${b}` === state) ? state : "", value => app.set({ difference: value || undefined, track: undefined })))];
    const asked = pairs.find(([a, b]) => `${a}-${b}` === state);
    if (!asked) return node.replaceChildren(...heading);
    node.replaceChildren(...heading, element("p", { className: "note" }, "Reading …"));
    try {
      const made = await compareDifference(app, data, asked, mine.signal);
      if (mine === waiting) node.replaceChildren(heading[0], heading[1], ...made);
    } catch (error) {
      if (mine === waiting && error.name !== "AbortError") {
        node.replaceChildren(...heading, element("p", { className: "wrong" }, error.message));
      }
    }
  }
  return { node, show };
}

const comparePairs = data => data.models.flatMap((_, a) => data.models.flatMap((_, b) => a < b ? [[a, b]] : []));

async function compareDifference(app, data, [a, b], signal) {
  const looks = await Promise.all([a, b].map(at => compareLook(app, data.models[at], signal)));
  const shared = compareShared(...looks), name = shared.some(track => track.name === app.state.track) ? app.state.track : shared[0]?.name;
  const views = await Promise.all(looks.map(look => fillView(app,
      viewOf(look, { track: name ?? compareOwn(look), layer: "mean", head: "mean" }), signal)));
  const parts = views.map((view, at) => compareMap(app, view, `${data.models[[a, b][at]].name}: ${view.track.badge}`));
  if (!shared.length) return [element("p", { className: "note" }, compareWhyNot(...looks)),
      element("div", { className: "compare-both" }, parts)];
  const left = compareSubtract(...views);
  const pick = shared.length > 1 ? choice("Of", shared.map(track => [track.name, track.name]), name, value => app.set({ track: value }))
      : null;
  return [...(pick ? [element("div", { className: "bar" }, pick)] : []),
    compareMap(app, left,
        `${data.models[a].name} − ${data.models[b].name}: orange where the first reads more, blue where the second does; most ${num(left.top)}; the mean of layers and heads`),
    element("div", { className: "compare-both" }, parts)];
}

async function compareLook(app, model, signal) {
  const own = app.models.find(each => each.id === model.id), asked = app.request(own);
  const request = isText(own) ? { model: own.id, text: asked.text } : isImage(own)
      ? { model: own.id, image: asked.image, target: model.text.trim() }
      : { model: own.id, source: asked.source, target: model.text.trim() };
  return { ...await app.api.post("/api/look", request, signal), request };
}

const compareOwn = look => (look.tracks.find(track => track.kind === "weights" && track.columns !== track.rows)
    ?? look.tracks.find(track => !track.row_by_row) ?? look.tracks[0]).name;
const compareTokensOf = (look, side) => JSON.stringify(look.sides[side]?.tokens.map(([id, piece]) => [id, piece]));

/** Tracks of the same kind over the same tokens, in both. */
function compareShared(a, b) {
  return a.tracks.filter(track => {
    const other = b.tracks.find(each => each.name === track.name && each.kind === track.kind && each.rows === track.rows
        && each.columns === track.columns);
    return other && ![track, other].some(each => each.row_by_row)
        && [track.rows, track.columns].every(side => a.sides[side].tokens.length <= MOST_DIFFERENCE
        && compareTokensOf(a, side) === compareTokensOf(b, side));
  });
}

function compareWhyNot(a, b) {
  const sides = Object.keys(a.sides).filter(side => compareTokensOf(a, side) !== compareTokensOf(b, side));
  if (sides.length) return `There is no difference: the tokens of the ${sides.join(" and the ")} are not the same.`;
  const long = Object.values(a.sides).some(side => side.tokens.length > MOST_DIFFERENCE);
  return long ? `There is no difference: more than ${MOST_DIFFERENCE} tokens are too many to subtract.`
      : "There is no difference: these two have no kind of map in common.";
}

/** A view of one map less another: signed, on its own scale. */
function compareSubtract(a, b) {
  const cells = a.cells.map((value, at) => value - b.cells[at]);
  const top = cells.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const bytes = new Uint8Array(Int8Array.from(cells, value => Math.round(127 * shadeOf(value, top))).buffer);
  return { ...a, look: { ...a.look, said: [] }, cells, bytes, top, strongest: 127,
      track: { ...a.track, name: "difference", kind: "difference", signed: true, top } };
}

function compareMap(app, view, title) {
  const line = element("p", { className: "note compare-map-line", role: "status" }), frame = wholeFrame(view);
  let place = { row: view.rows[0], column: view.columns[0] };
  const tell = (row, column) => {
    place = { row, column };
    matrix.mark(null, place);
    const value = exactRow(view, row)?.[column];
    line.textContent = `${view.all.rows[row].label}, ${view.all.columns[column].label}: ${value === undefined ? "" : num(value, 4)}`;
  };
  const matrix = makeMatrix({ point: tell, leave() {}, pick: tell, zoom() {}, reset() {} });
  matrix.node.setAttribute("aria-label", `${title}. Arrows move.`);
  matrix.node.onkeydown = event => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const move = (all, now, by) => all[Math.max(0, Math.min(all.length - 1, all.indexOf(now) + by))];
    tell(move(view.rows, place.row, step[0]), move(view.columns, place.column, step[1]));
  };
  matrix.draw(view, frame, Math.min(900, document.getElementById("panel").clientWidth - 20));
  return element("figure", { className: "compare-map" }, element("figcaption", {}, title),
      element("div", { className: "scroll" }, matrix.node), line);
}
