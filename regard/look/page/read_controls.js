// The controls of the reading map: what is shown, and what kind of amount it is.
import { choice, element, num } from "./dom.js";
import { lookup } from "./colours.js";
import { DETAILED, LABELLED, drawnTop, headPicks, layerPicks, wordsWork } from "./read_view.js";
import { unitOf } from "./read_matrix.js";
import { SORTS } from "./read_atlas.js";
import { hasField, isImage } from "./app.js";

const AFRESH = { row: undefined, column: undefined, frame: undefined };

export function readTick(what, on, change, key) {
  return element("label", { className: "choice" }, element("input",
      { type: "checkbox", checked: on, "data-key": key, onchange: event => change(event.target.checked) }), element("span", {}, what));
}

function keyed(node, key) {
  node.querySelector("select").dataset.key = key;
  return node;
}

/** Track, layer, head, and how they are drawn. */
export function viewControls(app, view) {
  const { look, track } = view, set = change => app.set(change), layers = layerPicks(track), heads = headPicks(track);
  return [
    look.tracks.length > 1
        && keyed(choice("Shows", look.tracks.map(each => [each.name, each.name]), track.name, name =>
        set({ track: name, layer: undefined, head: undefined, ...AFRESH })), "track"),
    layers.length > 1 && keyed(choice("Layer", layers, view.layer, layer => set({ layer })), "layer"),
    heads.length > 1 && keyed(choice("Head", heads, view.head, head => set({ head })), "head"),
    wordsWork(look, app.state) && readTick("whole words", view.words, on => set({ words: on ? "1" : undefined, frame: undefined }),
        "words"),
    look.sides[track.columns].tokens.some(token => token[4])
        && readTick("hide specials", view.hide, on => set({ specials: on ? "0" : undefined, frame: undefined }), "specials"),
    readTick("autoscale", view.auto, on => set({ scale: on ? "auto" : undefined }), "scale"),
    view.picture && readTick("heat", app.state.heat === "1", on => set({ heat: on ? "1" : undefined }), "heat"),
  ];
}

/** What is read and written: more tokens, or another target. */
export function inputControls(app, view) {
  if (!app.api.live) return [];
  if (hasField(app.model, "new_tokens")) {
    const count = element("input", { type: "number", min: 0, max: 256, value: app.state.new_tokens ?? 0, "aria-label": "Tokens to write",
        "data-key": "new_tokens" });
    const write = () => app.set({ new_tokens: +count.value || undefined, ...AFRESH });
    count.onkeydown = event => void (event.key === "Enter" && write());
    return [element("span", { className: "choice" }, element("span", {}, "Write"), count, element("span", {}, "more tokens"),
        element("button", { type: "button", onclick: write }, "Write"))];
  }
  if (!hasField(app.model, "target")) return [];
  const target = element("input", { type: "text", className: "wide", dir: "auto", value: view.look.sides.target?.text ?? "",
      maxLength: 10000, "aria-label": "Target: edit it to see what another one reads", "data-key": "target" });
  const force = () => app.set({ target: target.value, ...AFRESH });
  target.onkeydown = event => void (event.key === "Enter" && force());
  return [element("span", { className: "choice stretch" }, element("span", {}, isImage(app.model) ? "Caption" : "Target"), target,
      element("button", { type: "button", onclick: force }, "Read this target"),
    app.state.target !== undefined && element("button", { type: "button", onclick: () => app.set({ target: undefined, ...AFRESH }) },
        "The model’s own"))];
}

/** The badge, what it means, the scale, and what else is to be known. */
export function badgeLine(view) {
  const { track, look } = view, notes = [...look.notes ?? []];
  if (view.hide) notes.push("Specials are hidden; nothing is renormalised, so rows may sum to less.");
  if (view.words) notes.push("Words: a word is read as much as all its pieces together, and reads what they read on average.");
  if (view.layer === "rollout") notes.push("Rollout: layers multiplied, each with half of what it was given kept.");
  if (track.row_by_row) notes.push("This text is long: one row at a time is worked out. Choose a token in the text.");
  return [element("p", { className: "read-badge" }, element("span", { className: "badge" }, track.badge), " ", track.about, " ",
      legend(view)),
    ...notes.map(note => element("p", { className: "note" }, note))];
}

function legend(view) {
  if (view.top === undefined) return "";
  const top = drawnTop(view), canvas = element("canvas", { width: 128, height: 12, className: "legend" }), pen = canvas.getContext("2d");
  const image = pen.createImageData(128, 12), pixels = new Uint32Array(image.data.buffer), table = lookup(view.track.signed);
  for (let at = 0; at < pixels.length; at++) {
    const share = at % 128 / 127, shade = view.track.signed ? Math.sign(share - .5) * Math.sqrt(Math.abs(2 * share - 1)) : Math.sqrt(share);
    pixels[at] = table[Math.round(shade * (view.track.signed ? 127 : 255)) & 255];
  }
  pen.putImageData(image, 0, 0);
  return element("span", { className: "read-legend note" }, view.track.signed ? num(-top).replace(/\.0+$/, "") : "0", canvas,
      num(top).replace(/\.0+$/, ""), view.auto ? " autoscaled" : "", ", shaded by square roots", view.cells && unitOf(view) !== 1
      ? `; numbers in cells in units of ${num(unitOf(view), 1)}` : "");
}

export function atlasControls(app, track) {
  return [track.stats && keyed(choice("Sort", SORTS.filter(([sort]) => !sort || track.stats[sort]), app.state.sort ?? "", sort =>
      app.set({ sort: sort || undefined })), "sort"),
    keyed(choice("Pool", [["max", "largest"], ["sum", "sum"]], app.state.pool ?? "max", pool =>
        app.set({ pool: pool === "max" ? undefined : pool })), "pool")];
}

export function ribbonControls(app, view) {
  const most = Math.max(view.rows.length, view.columns.length), share = +(app.state.mass ?? 90);
  if (most > DETAILED || view.picture || !view.bytes) return [];
  const told = element("output", {}, `${share}%`);
  const slide = element("input", { type: "range", min: 10, max: 100, step: 5, value: share, "data-key": "mass",
      "aria-label": "Share of a row that ribbons hold",
    oninput: event => { told.value = `${event.target.value}%`; }, onchange: event =>
        app.set({ mass: event.target.value === "90" ? undefined : event.target.value }) });
  return [element("h3", {}, "Ribbons"), element("label", { className: "choice" },
      element("span", {}, `the fewest that hold this share of ${most <= LABELLED ? "each row" : "the selected row"}`), slide, told)];
}
