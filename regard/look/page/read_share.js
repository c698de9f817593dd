// Sharing a map: PNG at twice the size, SVG, CSV, and one file that opens anywhere.
import { drawn, element, num } from "./dom.js";
import { colourOf, css, inkOn, shadeOf } from "./colours.js";
import { askRow, drawnTop, exactRow, viewQuery } from "./read_view.js";
import { bitsOf, cellsOf, drawMatrix, geometryOf, inCell, unitOf } from "./read_matrix.js";

const VECTOR_TOKENS = 64, EXPORT_WIDTH = 1100, TITLE = 44;

export function download(name, data, type) {
  const link = element("a", { href: URL.createObjectURL(data instanceof Blob ? data : new Blob([data], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const fileName = (view, ending) =>
    `${view.look.model || "map"}-${view.track.name}-${view.layer}-${view.head}.${ending}`.replace(/[^\w.-]+/g, "_");

export const viewTitle = view => {
  const layers = view.track.layers > 1 ? ` · layer ${view.layer}` : "", heads = view.track.heads > 1 ? ` · head ${view.head}` : "";
  return `${view.look.model || ""} · ${view.track.name}${layers}${heads}`.replace(/^ · /, "");
};
export const viewBadge = view =>
    `${view.track.badge}${view.hide ? "; specials are hidden, nothing is renormalised" : ""}${view.auto ? `; autoscaled to ${num(drawnTop(view))}` : ""}${view.cells && unitOf(view) !== 1 ? `; numbers in units of ${num(unitOf(view), 1)}` : ""}`;

const styleOf = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The frame in view as a PNG of twice the size, with its title and badge. */
export async function savePNG(view, frame) {
  const where = geometryOf(view, frame, EXPORT_WIDTH, EXPORT_WIDTH), ratio = 2;
  const inner = element("canvas", { width: where.width * ratio, height: where.height * ratio });
  drawMatrix(inner.getContext("2d"), view, frame, where, ratio);
  const canvas = element("canvas", { width: Math.max(where.width, 420) * ratio + 32,
      height: (where.height + TITLE) * ratio + 32 }), pen = canvas.getContext("2d");
  pen.fillStyle = styleOf("--page");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = styleOf("--ink");
  pen.font = "bold 28px system-ui, sans-serif";
  pen.fillText(viewTitle(view), 16, 38, canvas.width - 32);
  pen.font = "22px system-ui, sans-serif";
  pen.fillText(viewBadge(view), 16, 72, canvas.width - 32);
  pen.drawImage(inner, 16, TITLE * ratio + 16);
  download(fileName(view, "png"), await blobOf(canvas));
}

export const blobOf = canvas => new Promise((done, fail) =>
    canvas.toBlob(blob => blob ? done(blob) : fail(new Error("the picture is too large to write")), "image/png"));

/** The frame as an SVG: a rectangle for each cell of a small one, else one picture; labels are text either way. */
export function svgOf(view, frame) {
  const where = geometryOf(view, frame, EXPORT_WIDTH, EXPORT_WIDTH), height = where.height + TITLE + 16, width = Math.max(where.width,
      420) + 16;
  const grid = drawn("g", { transform: `translate(8 ${TITLE + 8})` }), small = Math.max(frame.tall, frame.wide) <= VECTOR_TOKENS;
  grid.append(...(small ? vectorCells(view, frame, where)
      : [drawn("image", { x: where.left, y: where.top, width: where.across * frame.wide, height: where.down * frame.tall,
    href: cellsOf(view, frame).toDataURL("image/png"), "image-rendering": "pixelated", preserveAspectRatio: "none" })]), ...vectorLabels(view, frame, where));
  const text = (y, size, content, weight = "normal") => drawn("text",
      { x: 8, y, "font-size": size, "font-weight": weight, fill: styleOf("--ink") }, content);
  return drawn("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height,
      "font-family": "system-ui, sans-serif" },
    drawn("rect", { width, height, fill: styleOf("--page") }), text(20, 15, viewTitle(view), "bold"), text(38, 12, viewBadge(view)), grid);
}

function vectorCells(view, frame, where) {
  const found = [], top = drawnTop(view), numbered = where.across >= 28;
  for (let row = 0; row < frame.tall; row++) {
    const values = exactRow(view, view.rows[frame.top + row]);
    for (let column = 0; column < frame.wide; column++) {
      const value = values[view.columns[frame.left + column]], colour = colourOf(shadeOf(value, top), view.track.signed);
      const x = where.left + column * where.across, y = where.top + row * where.down;
      found.push(drawn("rect", { x, y, width: where.across, height: where.down, fill: css(colour), stroke: styleOf("--line"),
          "stroke-width": .5 }));
      if (numbered && value) found.push(drawn("text", { x: x + where.across / 2, y: y + where.down / 2 + 4, "text-anchor": "middle",
          "font-size": 11, fill: inkOn(colour) }, inCell(value / unitOf(view))));
    }
  }
  return found;
}

function vectorLabels(view, frame, where) {
  const found = [], size = Math.min(12, Math.max(4, where.down - 1)), every = Math.ceil(6 / where.down), fill = styleOf("--ink");
  for (let row = 0; row < frame.tall; row += every) {
    const line = view.all.rows[view.rows[frame.top + row]], y = where.top + (row + .5) * where.down + size / 3;
    found.push(drawn("text", { x: where.left - 6, y, "text-anchor": "end", "font-size": size, fill }, line.label));
    if (where.strip) found.push(drawn("text", { x: where.left + where.across * frame.wide + 8, y, "font-size": size,
        fill: styleOf("--soft") },
      line.tokens.some(at => view.look.said[at].guess) ? "guess" : `${num(bitsOf(view, line), 1)} bits`));
  }
  for (let column = 0; column < frame.wide; column += every) {
    const x = where.left + (column + .5) * where.across, y = where.top - 8;
    found.push(drawn("text", where.flat ? { x, y, "text-anchor": "middle", "font-size": size, fill }
        : { x: x + size / 3, y, transform: `rotate(-90 ${x + size / 3} ${y})`, "font-size": size, fill },
      view.all.columns[view.columns[frame.left + column]].label));
  }
  return found;
}

export async function saveSVG(app, view, frame) {
  if (Math.max(frame.tall, frame.wide) <= VECTOR_TOKENS) for (let row = 0; row < frame.tall; row++) await askRow(app, view,
      view.rows[frame.top + row]);
  download(fileName(view, "svg"), new XMLSerializer().serializeToString(svgOf(view, frame)), "image/svg+xml");
}

const quotedCSV = text => /[",\r\n]|^[=+\-@]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;

/** All numbers of the view: the columns' names in the first line, the rows' in the first column. */
export async function saveCSV(app, view) {
  if (!view.cells) {
    const { arrays } = await app.numbers(view.look, `${encodeURIComponent(view.track.name)}/cells?${viewQuery(view)}`);
    view.cells = Object.values(arrays)[0].data;
  }
  const lines = [["", ...view.columns.map(at => quotedCSV(view.all.columns[at].label))].join(",")];
  for (const row of view.rows) lines.push([quotedCSV(view.all.rows[row].label),
      ...view.columns.map(at => exactRow(view, row)[at])].join(","));
  download(fileName(view, "csv"), `${lines.join("\n")}\n`, "text/csv");
}

/** One file with this look in it, made by the server. */
export async function saveHTML(app, view) {
  const asked = new URLSearchParams({ track: view.track.name, layer: view.layer, head: view.head });
  const response = await fetch(`/api/look/${view.look.id}/page.html?${asked}`);
  if (!response.ok) throw new Error((await response.json().catch(() => null))?.error?.message ?? `the server answered ${response.status}`);
  download(fileName(view, "html"), await response.blob());
}
