"use strict";
// Draws the maps that stand in the page as JSON: words joined by lines, and a table of all weights.
// One choice, of a row, a column or both, is shown in either; the address keeps it.

const $ = id => document.getElementById(id);
const maps = JSON.parse($("maps").textContent);
const hint = $("said").textContent;
const POOLS = ["mean", "max"];
const NUMBERED = 16;               // columns up to which numbers stand in the cells from the start
const JOINED = 200;                // words of a side up to which lines are drawn
const FAINT = 0.1;                 // shades below it get no line

let map, weights;                  // the map in view, and its R x C weights
let nodes;                         // what stands for each row and each column
let chosen = {}, pinned = false;

function element(name, props, ...children) {
  const made = Object.assign(document.createElement(name), props);
  made.append(...children);        // text is only ever added as text
  return made;
}

// ---- the numbers

const upTo = count => [...Array(count).keys()];

function pool(values, pick) {
  if (!POOLS.includes(pick)) return values[pick - 1];
  if (pick === "mean") return values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.reduce((most, value) => Math.abs(value) > Math.abs(most) ? value : most);
}

function viewed(layer, head) {
  const all = new Float32Array(Uint8Array.from(atob(map.data), char => char.charCodeAt(0)).buffer);
  const size = map.rows.length * map.columns.length;
  return upTo(size).map(at => pool(upTo(map.layers).map(n =>
    pool(upTo(map.heads).map(h => all[(n * map.heads + h) * size + at]), head)), layer));
}

const weight = (row, column) => weights[row * map.columns.length + column];
const shade = value => Math.min(1, Math.sqrt(Math.abs(value) / map.top));
const isGold = (row, column) => map.links.some(link => link[0] === row && link[1] === column);
const has = value => value !== undefined;
const told = value => value.toFixed(map.top < 0.1 ? 4 : 2);

function paint(node, value) {
  node.style.setProperty("--w", shade(value).toFixed(3));
  node.dataset.sign = map.signed ? Math.sign(value) : "";
  return node;
}

// ---- drawing

function draw() {
  weights = viewed($("layer").value, $("head").value);
  nodes = { row: map.rows.map(() => []), column: map.columns.map(() => []) };
  $("title").textContent = map.title;
  $("about").textContent = `${map.about}. ${map.row_title} down, ${map.column_title} across.`;
  $("grid").replaceChildren(table());
  $("lines").replaceChildren(...Math.max(map.rows.length, map.columns.length) <= JOINED ? words() : []);
  join();
  mark();
}

function placed(node, row, column) {
  if (has(row)) nodes.row[node.dataset.row = row].push(node);
  if (has(column)) nodes.column[node.dataset.column = column].push(node);
  if (has(row) && has(column)) node.classList.toggle("gold", isGold(row, column));
  return node;
}

function table() {
  const named = (name, scope) => element("th", { scope, title: name }, element("span", { dir: "auto" }, name));
  const cell = (value, row, column) =>
    placed(paint(element("td", { tabIndex: row || column ? -1 : 0 }, told(value)), value), row, column);
  const corner = element("th", { className: "corner" }, `${map.row_title} \\ ${map.column_title}`);
  const head = map.columns.map((name, column) => placed(named(name, "col"), undefined, column));
  const body = map.rows.map((name, row) => element("tr", {}, placed(named(name, "row"), row),
    ...map.columns.map((_, column) => cell(weight(row, column), row, column))));
  return element("table", { role: "grid", ariaLabel: map.title },
    element("thead", {}, element("tr", {}, corner, ...head)), element("tbody", {}, ...body));
}

const drawn = name => document.createElementNS("http://www.w3.org/2000/svg", name);

function words() {
  const word = (name, row, column) => placed(element("button", { className: "word" },
    element("span", { dir: "auto" }, name), element("small")), row, column);
  const line = (title, children) => element("p", {}, element("span", {}, title), ...children);
  return [line(map.column_title, map.columns.map((name, column) => word(name, undefined, column))), drawn("svg"),
    line(map.row_title, map.rows.map((name, row) => word(name, row)))];
}

function join() {                  // where words stand is known only once they are laid out
  const svg = document.querySelector("svg");
  if (!svg) return;
  const left = svg.getBoundingClientRect().x;
  const middles = all => all.map(some => some.find(node => node.matches(".word")).getBoundingClientRect())
    .map(box => box.x + box.width / 2 - left);
  const tops = middles(nodes.column), bottoms = middles(nodes.row);
  map.rows.forEach((_, row) => map.columns.forEach((_, column) => {
    if (shade(weight(row, column)) < FAINT && !isGold(row, column)) return;
    const line = placed(paint(drawn("line"), weight(row, column)), row, column);
    Object.entries({ x1: tops[column], y1: 2, x2: bottoms[row], y2: 128 }).forEach(end => line.setAttribute(...end));
    svg.append(line);
  }));
  $("lines").classList.toggle("wide", $("lines").scrollWidth > $("lines").clientWidth);
}

// ---- choosing

function place(node) {
  const { row, column } = node.closest("[data-row], [data-column]")?.dataset ?? {};
  return { row: row && +row, column: column && +column };
}

const at = (row, column) => nodes.row[row].filter(node => node.dataset.column === String(column));

function choose(place, keep) {
  chosen = place;
  pinned = keep && any();
  mark();
}

function mark() {
  const { row, column } = chosen;
  document.querySelectorAll(".on, .here").forEach(node => node.classList.remove("on", "here"));
  [...nodes.row[row] ?? [], ...nodes.column[column] ?? []].forEach(node => node.classList.add("on"));
  if (has(row) && has(column)) at(row, column).forEach(node => node.classList.add("here"));
  $("lines").classList.toggle("chosen", any());
  for (const word of document.querySelectorAll(".word")) {      // how much was read of it, or by it
    const own = place(word), value = has(own.row) ? weight(own.row, column) : weight(row, own.column);
    word.querySelector("small").textContent = has(value) ? told(value) : "";
    paint(word, value ?? 0);
  }
  $("said").textContent = any() ? sentence(row, column) : hint;
  remember();
}

const any = () => has(chosen.row) || has(chosen.column);
const quoted = name => `“\u2068${name}\u2069”`;                 // isolated, whichever way it is written

function sentence(row, column) {
  const reader = quoted(map.rows[row]), read = quoted(map.columns[column]);
  if (has(row) && has(column)) {
    const more = map.columns.filter((_, other) => weight(row, other) > weight(row, column)).length;
    const rank = `rank ${more + 1} of ${map.columns.length}${isGold(row, column) ? "; a gold link" : ""}`;
    return `${reader} reads ${read}: ${told(weight(row, column))}, ${rank}.`;
  }
  const names = has(row) ? map.columns : map.rows;
  const amounts = names.map((_, other) => has(row) ? weight(row, other) : weight(other, column));
  const most = [...amounts.keys()].sort((a, b) => Math.abs(amounts[b]) - Math.abs(amounts[a])).slice(0, 5);
  const list = most.map(other => `${quoted(names[other])} ${told(amounts[other])}`).join(", ");
  if (has(column)) return `${read} is read by ${list}.`;
  const rest = 1 - amounts.reduce((sum, value) => sum + value, 0);
  return `${reader} reads ${list}${map.shares && rest > 0.005 ? `; ${told(rest)} of what is not shown` : ""}.`;
}

function move(event) {
  if (event.key === "Escape") choose({});
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step || !event.target.matches("td")) return;
  event.preventDefault();
  const from = place(event.target), by = event.shiftKey ? 10 : 1;
  const row = Math.max(0, Math.min(map.rows.length - 1, from.row + by * step[0]));
  const column = Math.max(0, Math.min(map.columns.length - 1, from.column + by * step[1]));
  at(row, column)[0].focus();
}

// ---- controls, the address

function offer(id, texts, values, value) {
  $(id).replaceChildren(...texts.map((text, number) => new Option(text, values[number])));
  $(id).value = value;
  if (!$(id).value) $(id).selectedIndex = 0;
  $(`${id}-choice`).hidden = texts.length < 2;
}

function open(asked) {             // a map, in the view it came with unless another is asked for
  map = maps[$("map").value];
  for (const [id, count] of [["layer", map.layers], ["head", map.heads]]) {
    const picks = [...count > 1 ? POOLS : [], ...upTo(count).map(number => number + 1)];
    offer(id, picks, picks, asked[id] ?? map[id]);
  }
  $("links-choice").hidden = !map.links.length;
  $("numbers").checked = map.columns.length <= NUMBERED;
  const within = (text, names) => has(names[+text]) ? +text : undefined;
  chosen = { row: within(asked.row, map.rows), column: within(asked.column, map.columns) };
  pinned = any();
  toggle();
  draw();
}

function toggle() {
  for (const id of ["numbers", "links"]) document.body.classList.toggle(id, $(id).checked);
}

function remember() {
  const kept = { map: $("map").value, layer: $("layer").value, head: $("head").value, ...pinned ? chosen : {} };
  const address = new URLSearchParams(Object.entries(kept).filter(entry => has(entry[1])));
  if (location.protocol !== "about:") history.replaceState(null, "", `#${address}`);     // a frame may have none
}

async function copy() {
  const lines = map.rows.map((name, row) => [name, ...map.columns.map((_, column) => weight(row, column))]);
  try {
    await navigator.clipboard.writeText([["", ...map.columns], ...lines].map(line => `${line.join("\t")}\n`).join(""));
    $("said").textContent = "Copied: paste it into a spreadsheet.";
  } catch {                        // not allowed here
    getSelection().selectAllChildren($("grid"));
    $("said").textContent = "The table is selected: copy it with the keyboard.";
  }
}

$("map").onchange = () => open({});
$("layer").onchange = $("head").onchange = onresize = draw;
$("numbers").onchange = $("links").onchange = toggle;
$("copy").onclick = copy;
onkeydown = move;
for (const part of [$("grid"), $("lines")]) {
  part.onmouseover = event => pinned || choose(place(event.target));
  part.onmouseleave = () => pinned || choose({});
  part.onclick = event => choose(place(event.target), true);
  part.addEventListener("focusin", event => choose(place(event.target), pinned));
}
const asked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
offer("map", maps.map((each, number) => `${number + 1}. ${each.title}`), upTo(maps.length), asked.map);
open(asked);
