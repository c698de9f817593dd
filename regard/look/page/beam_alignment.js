// Which words of the source each written word read: ribbons, of the look at the source and what was written. Of a
// captioner, the picture it reads: which patches each word read is painted in Read.
import { element } from "./dom.js";
import { isImage, isText } from "./app.js";
import { fillView, viewOf } from "./read_view.js";
import { makeRibbons } from "./read_ribbons.js";

const BEAM_SHARE = .8;                   // of what a word read: the fewest ribbons that hold so much

/** {node, show(found, again)}: empty for models that have no source of words. */
export function makeBeamAlignment(app) {
  let view, row, waiting;
  const told = { point: place => mark(place.row), leave: () => mark(undefined), pick: place => mark(place.row) };
  const ribbons = makeRibbons(told), badge = element("p", { className: "note" });
  const picture = element("img", { className: "beam-picture", alt: "The picture that is captioned", hidden: true });
  const node = element("section", { className: "beam-alignment", "aria-label": "Alignment", hidden: true }, picture, ribbons.node, badge);
  const draw = () => view && ribbons.draw(view, BEAM_SHARE, row, node.clientWidth || 600);
  const mark = place => {
    if (place === row) return;
    row = place;
    draw();
  };

  async function ask(found) {
    waiting?.abort();
    const mine = waiting = new AbortController(), model = app.model;
    const { source, image } = app.request(model);
    const request = { model: model.id, target: found.text.trim(), ...(isImage(model) ? { image } : { source }) };
    try {
      const look = { ...await app.api.post("/api/look", request, mine.signal), request };
      if (isImage(model)) return mine === waiting && paint(look);
      const of = track => track.columns === "source" && track.rows === "target";
      const track = look.tracks.find(each => of(each) && each.kind === "weights") ?? look.tracks.find(each => of(each) && !each.row_by_row);
      if (!track) return hide();
      const made = await fillView(app, viewOf(look, { track: track.name, words: "1", specials: "0" }), mine.signal);
      if (mine !== waiting) return;
      view = made;
      row = undefined;
      badge.textContent = `Above the source, below what was written; ribbons: ${track.badge}${track.layers * track.heads > 1 ? ", the mean of layers and heads" : ""}.`;
      node.hidden = false;
      draw();
    } catch (error) {
      hide();
      if (mine === waiting) app.fail(error);
    }
  }
  const paint = look => {
    hide();
    picture.src = `/api/look/${look.id}/image.png`;
    badge.textContent = "Which patches each word read is painted in Read.";
    picture.hidden = node.hidden = false;
  };
  const hide = () => {
    view = undefined;
    node.hidden = picture.hidden = ribbons.node.hidden = true;
  };

  return {
    node,
    show(found, again) {
      if (again) return draw();
      if (!found || isText(app.model) || !found.text.trim()) return hide();
      ask(found);
    },
  };
}
