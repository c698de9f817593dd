// A picture and what each word read of it: patches as bright as they were read, or coloured over the picture.
import { amount, element } from "./dom.js";
import { colourOf, css } from "./colours.js";
import { patchName } from "./read_view.js";

const SIDE_OF_PICTURE = 384, DARKEST = .88;

/** `told.point/pick/leave` as for a matrix, in places among all. */
export function makePicture(told) {
  const canvas = element("canvas", { className: "read-picture", role: "img" }), words = element("div",
      { className: "read-words", role: "group", "aria-label": "Words of the caption" });
  const line = element("p", { className: "note" });
  const node = element("div", { className: "read-painted" }, element("div", {}, canvas, line), words);
  let view, image, row;

  const patchAt = event => {
    const box = canvas.getBoundingClientRect(), [down, across] = view.picture;
    return Math.floor((event.clientY - box.top) / box.height * down) * across + Math.floor((event.clientX - box.left) / box.width * across);
  };
  canvas.onpointermove = event => void (view && row !== undefined && told.point(row, patchAt(event)));
  canvas.onpointerleave = () => told.leave();
  canvas.onclick = event => void (view && row !== undefined && told.pick(row, patchAt(event)));

  return {
    node, canvas,
    async load(newView, url) {
      view = newView;
      if (node.dataset.url !== url) {
        image = new Image();
        image.src = url;
        await image.decode();
        node.dataset.url = url;
      }
      const longer = Math.max(image.naturalWidth, image.naturalHeight);
      canvas.width = Math.round(image.naturalWidth / longer * SIDE_OF_PICTURE);
      canvas.height = Math.round(image.naturalHeight / longer * SIDE_OF_PICTURE);
      words.replaceChildren(...view.rows.map(place => element("button",
          { type: "button", "data-row": place, onclick: () => told.pick(place, undefined),
        onpointerenter: () => told.point(place, undefined), onpointerleave: () => told.leave() }, view.all.rows[place].label)));
    },
    /** What a row reads of each patch: by light, or as colours over the picture. */
    paint(newRow, values, heat, column) {
      row = newRow;
      for (const button of words.children) button.setAttribute("aria-pressed", String(+button.dataset.row === row));
      const pen = canvas.getContext("2d"), [down, across] = view.picture;
      pen.imageSmoothingEnabled = false;
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      if (!values) return;
      const most = values.reduce((top, value) => Math.max(top, Math.abs(value)), 1e-12), name = view.all.rows[row].label;
      values.forEach((value, at) => {
        const share = Math.sqrt(Math.abs(value) / most), [top, bottom] = [0, 1].map(more =>
            Math.round((Math.floor(at / across) + more) * canvas.height / down));
        const [left, right] = [0, 1].map(more => Math.round((at % across + more) * canvas.width / across));
        pen.globalAlpha = heat ? .75 * share : DARKEST * (1 - share);
        pen.fillStyle = heat ? css(colourOf(Math.sign(value) * Math.max(.35, share), true)) : "#000000";
        pen.fillRect(left, top, right - left, bottom - top);
        if (at !== column) return;
        pen.globalAlpha = 1;
        pen.strokeStyle = "#ff9a3c";
        pen.lineWidth = 2;
        pen.strokeRect(left + 1, top + 1, right - left - 2, bottom - top - 2);
      });
      pen.globalAlpha = 1;
      const best = values.reduce((found, value, at) => Math.abs(value) > Math.abs(values[found]) ? at : found, 0);
      const said = `“${name}” reads most of the patch in row ${patchName(best, view.picture).replace(",", ", column ")}: ${amount(values[best])}`;
      line.textContent = `${said}. ${heat ? "Colour" : "Light"} is the square root of the share of that.`;
      canvas.setAttribute("aria-label", `The picture, ${said}`);
    },
  };
}
