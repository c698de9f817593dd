// The minimap of a long text: all of it pooled into a few pixels, with the window that is drawn large.
import { element, upTo } from "./dom.js";
import { tableOf } from "./read_matrix.js";

const SIDE = 220;

/** Bytes (tall, wide) of all rows and columns in view: the strongest of those that fall on a pixel. */
export function pooledBytes(view, tall, wide) {
  const found = new Uint8Array(tall * wide), size = byte => view.track.signed && byte > 127 ? 256 - byte : byte;
  const across = view.columns.map((_, place) => Math.floor(place * wide / view.columns.length));
  view.rows.forEach((row, place) => {
    const start = Math.floor(place * tall / view.rows.length) * wide, from = row * view.wide;
    for (let at = 0; at < across.length; at++) {
      const byte = view.bytes[from + view.columns[at]], pixel = start + across[at];
      if (size(byte) > size(found[pixel])) found[pixel] = byte;
    }
  });
  return found;
}

/** `told.zoom(frame)` hears where the window was dragged. */
export function makeMinimap(told) {
  const canvas = element("canvas", { width: SIDE, height: SIDE }), window_ = element("div", { className: "read-window" });
  const node = element("div", { className: "read-minimap", "aria-hidden": "true" }, canvas, window_);
  let view, frame, held = false;

  const move = event => {
    const box = canvas.getBoundingClientRect();
    const row = (event.clientY - box.top) / box.height * view.rows.length;
    const column = (event.clientX - box.left) / box.width * view.columns.length;
    told.zoom({ ...frame, top: row - frame.tall / 2, left: column - frame.wide / 2 });
  };
  node.onpointerdown = event => {
    held = true;
    node.setPointerCapture(event.pointerId);
    move(event);
  };
  node.onpointermove = event => void (held && move(event));
  node.onpointerup = node.onpointercancel = () => { held = false; };

  return {
    node,
    draw(newView, newFrame) {
      const fresh = view !== newView || node.dataset.theme !== document.documentElement.dataset.theme;
      [view, frame] = [newView, newFrame];
      if (fresh) paintPooled(canvas, view);
      node.dataset.theme = document.documentElement.dataset.theme;
      const share = (part, all) => `${100 * part / all}%`;
      for (const [name, value] of [["top", share(frame.top, view.rows.length)], ["left", share(frame.left, view.columns.length)],
        ["height", share(frame.tall, view.rows.length)], ["width",
            share(frame.wide, view.columns.length)]]) window_.style.setProperty(name, value);
    },
  };
}

function paintPooled(canvas, view) {
  canvas.height = Math.min(SIDE, view.rows.length);
  canvas.width = Math.min(SIDE, view.columns.length);
  const pen = canvas.getContext("2d"), image = pen.createImageData(canvas.width, canvas.height), table = tableOf(view);
  const pixels = new Uint32Array(image.data.buffer), bytes = pooledBytes(view, canvas.height, canvas.width);
  for (const at of upTo(bytes.length)) pixels[at] = table[bytes[at]];
  pen.putImageData(image, 0, 0);
}
