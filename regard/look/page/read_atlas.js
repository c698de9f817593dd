// The atlas: every layer and head as a thumbnail, on one canvas. Sorted by what heads do, or in their order.
import { element, clamp, num, upTo } from "./dom.js";
import { lookup } from "./colours.js";

const THUMB = 64, ROOM = 4, EDGE = 28, MOST_WIDE = 12;
export const SORTS = [["", "layer and head"], ["entropy", "entropy"], ["distance", "mean distance"], ["first", "first token"],
    ["previous", "previous token"]];
const SORT_NOTES = { entropy: "bits: low reads few positions", distance: "how far back it reads, on average",
    first: "share read of the first token", previous: "share read of the token before" };

/** Order of heads, as {layer, head} from 0: by a statistic (the least entropy first, else the most first), or as they are. */
export function atlasOrder(track, sort) {
  const all = upTo(track.layers).flatMap(layer => upTo(track.heads).map(head => ({ layer, head })));
  const stats = track.stats?.[sort];
  if (!stats) return all;
  const sign = sort === "entropy" ? 1 : -1;
  return all.map(each => ({ ...each, stat: stats[each.layer][each.head] })).sort((a, b) => sign * (a.stat - b.stat));
}

/** `told.open(layer, head)`, counted from 1. */
export function makeAtlas(told) {
  const canvas = element("canvas", { tabIndex: 0, role: "application", "aria-roledescription": "atlas of heads" });
  const line = element("p", { className: "note", role: "status" });
  const node = element("div", { className: "read-atlas" }, element("div", { className: "scroll" }, canvas), line);
  let order = [], across = 1, sorted = false, track, at = 0, thumbs, scale = THUMB;

  const about = place => {
    const each = order[place];
    const name = `${track.layer_names?.[each.layer] || `layer ${each.layer + 1}`}, ${track.head_names?.[each.head] || `head ${each.head + 1}`}`;
    const stats = Object.keys(SORT_NOTES).filter(key => track.stats?.[key]).map(key =>
        `${SORTS.find(sort => sort[0] === key)[1]} ${num(track.stats[key][each.layer][each.head], 2)}`);
    return [name, ...stats].join(" · ");
  };
  const placeAt = event => {
    const box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
    const column = Math.floor(((event.clientX - box.left) * ratio - EDGE) / (scale + ROOM));
    const row = Math.floor(((event.clientY - box.top) * ratio - EDGE + 8) / (scale + ROOM + (sorted ? 14 : 0)));
    const place = row * across + column;
    return column >= 0 && column < across && row >= 0 && place < order.length ? place : undefined;
  };
  const open = place => place !== undefined && told.open(order[place].layer + 1, order[place].head + 1);
  canvas.onclick = event => void open(placeAt(event));
  canvas.onpointermove = event => { line.textContent = placeAt(event) === undefined ? "" : about(placeAt(event)); };
  canvas.onkeydown = event => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
    if (event.key === "Enter" || event.key === " ") open(at);
    else if (step) at = clamp(at + step, 0, order.length - 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (step) {
      line.textContent = about(at);
      paint();
    }
  };
  canvas.onfocus = canvas.onblur = () => paint();

  function paint() {
    if (!thumbs) return;
    const { data, tall, wide } = thumbs, table = lookup(track.signed);
    const style = getComputedStyle(document.documentElement), pen = canvas.getContext("2d");
    const tile = element("canvas", { width: wide, height: tall }), tilePen = tile.getContext("2d"), image = tilePen.createImageData(wide,
        tall), pixels = new Uint32Array(image.data.buffer);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.imageSmoothingEnabled = wide > scale;
    pen.font = `${across > 6 ? 20 : 12}px system-ui, sans-serif`;
    pen.textAlign = "center";
    order.forEach((each, place) => {
      const start = (each.layer * track.heads + each.head) * tall * wide, [x, y] = corner(place);
      for (let pixel = 0; pixel < pixels.length; pixel++) pixels[pixel] = table[data[start + pixel]];
      tilePen.putImageData(image, 0, 0);
      pen.drawImage(tile, x, y, scale, scale);
      const here = String(each.layer + 1) === told.layer() && String(each.head + 1) === told.head(), focused = place === at
          && document.activeElement === canvas;
      pen.strokeStyle = style.getPropertyValue(focused || here ? "--focus" : "--line");
      pen.lineWidth = focused || here ? 3 : 1;
      pen.strokeRect(x - .5, y - .5, scale + 1, scale + 1);
      pen.fillStyle = style.getPropertyValue("--soft");
      if (sorted) pen.fillText(`${each.layer + 1}·${each.head + 1}: ${num(each.stat, 2)}`, x + scale / 2, y + scale + 12, scale + ROOM);
    });
    if (sorted) return;
    for (const column of upTo(across)) pen.fillText(String(column + 1), EDGE + column * (scale + ROOM) + scale / 2, 14);
    for (const row of upTo(track.layers)) pen.fillText(String(row + 1), 12, corner(row * across)[1] + scale / 2 + 4);
  }
  const corner = place => [EDGE + place % across * (scale + ROOM),
      EDGE - 8 + Math.floor(place / across) * (scale + ROOM + (sorted ? 14 : 0))];

  return {
    node,
    /** data: bytes of the thumbnails, one head after another, each of shape (tall, wide). */
    draw(newTrack, sort, data, [tall, wide]) {
      [track, thumbs] = [newTrack, { data: new Uint8Array(data.buffer, data.byteOffset, data.length), tall, wide }];
      sorted = Boolean(sort && track.stats?.[sort]);
      order = atlasOrder(track, sorted ? sort : "");
      across = sorted ? Math.min(order.length, 6) : track.heads;
      scale = sorted || across <= MOST_WIDE ? THUMB : 40;
      at = clamp(at, 0, order.length - 1);
      canvas.width = EDGE + across * (scale + ROOM) + 2;
      canvas.height = EDGE + Math.ceil(order.length / across) * (scale + ROOM + (sorted ? 14 : 0));
      canvas.style.setProperty("width", `${Math.round(canvas.width * (across > 6 ? .55 : 1))}px`);
      canvas.setAttribute("aria-label", `Atlas of ${track.layers} layers and ${track.heads} heads: arrows move, Enter opens one`);
      line.textContent = sorted ? SORT_NOTES[sort] : "";
      Object.assign(canvas.dataset, { edge: EDGE, step: scale + ROOM, scale, tall, wide });
      paint();
    },
    paint,
  };
}
