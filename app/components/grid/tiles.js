// The images of a grid, as large as there is room for.

import { element, glyph } from "../shared/dom.js";

const SMALLEST = 72; // pixels; where images would be smaller, the page scrolls
const WORDS = { yes: "yes", no: "no", skip: "skipped", unsure: "unsure", tied: "tied" };
const SETTLED = { held: "in another session's view" };

export class Tiles {
  #place;
  #tiles = [];
  #cells = [];
  columns = 1;

  constructor(place) {
    this.#place = place;
  }

  /** Put the images in place as soon as all that can be shown are decoded; false where others came meanwhile. */
  async paint(cells) {
    this.#cells = cells;
    const tiles = cells.map(makeTile);
    await Promise.allSettled(tiles.map((tile) => tile.querySelector("img")?.decode()));
    if (this.#cells !== cells) return false;
    const hadFocus = this.#place.contains(this.#place.getRootNode().activeElement);
    for (const tile of tiles) showAbsence(tile);
    this.#tiles = tiles;
    this.#place.replaceChildren(...tiles);
    this.fit();
    if (hadFocus) tiles[0]?.focus({ preventScroll: true });
    return true;
  }

  /** The places of images that can't be shown. */
  get missing() {
    return this.#tiles.flatMap((tile, place) => (tile.querySelector("img") ? [] : [place]));
  }

  placeOf(target) {
    return this.#tiles.indexOf(target.closest?.(".tile"));
  }

  show({ words, cursor, settled }) {
    this.#tiles.forEach((tile, place) => {
      const word = words[place];
      tile.toggleAttribute("data-settled", Boolean(settled[place]));
      if (tile.dataset.mark !== (word ?? "")) {
        tile.dataset.mark = word ?? "";
        tile.querySelector(".badge").replaceChildren(...(word ? [glyph(`g-${word}`)] : []));
      }
      tile.setAttribute(
        "aria-label",
        `${this.#cells[place].alt}, ${settled[place] ? standing(word) : (WORDS[word] ?? "open")}`,
      );
      tile.classList.toggle("cursor", place === cursor);
      tile.tabIndex = place === cursor ? 0 : -1;
    });
  }

  /** Keep the image under the cursor in view, and in focus if another one had it. */
  follow(cursor) {
    const tile = this.#tiles[cursor];
    tile?.scrollIntoView({ block: "nearest" });
    if (this.#place.contains(this.#place.getRootNode().activeElement)) tile?.focus({ preventScroll: true });
  }

  /** As many columns as make the images largest; on the phone the style sheet says how many. */
  fit() {
    const style = getComputedStyle(this.#place);
    const gap = parseFloat(style.columnGap);
    const { clientWidth: width, clientHeight: height } = this.#place;
    const fixed = parseInt(style.getPropertyValue("--fixed-columns"), 10);
    const side = (columns) => (width - (columns - 1) * gap) / columns;
    if (fixed) this.#set(fixed, side(fixed));
    else {
      const n = Math.max(this.#tiles.length, 1);
      const room = (columns) => {
        const rows = Math.ceil(n / columns);
        return Math.min(side(columns), (height - (rows - 1) * gap) / rows);
      };
      const all = Array.from({ length: n }, (_, i) => i + 1);
      const best = all.reduce((a, b) => (room(b) > room(a) ? b : a));
      if (room(best) >= SMALLEST) this.#set(best, room(best));
      else this.#set(Math.max(1, Math.floor((width + gap) / (SMALLEST + gap))), SMALLEST);
    }
  }

  #set(columns, side) {
    this.columns = columns;
    this.#place.style.setProperty("--columns", columns);
    this.#place.style.setProperty("--tile", `${Math.floor(side)}px`);
  }
}

/** How an image stands that can't be answered here. */
export function standing(word) {
  return SETTLED[word] ?? `answered ${WORDS[word]}`;
}

function makeTile({ id, selection, alt, src }) {
  const tile = element("button", { type: "button", className: "tile" });
  if (src) tile.append(element("img", { src, alt: "", draggable: false }));
  tile.append(element("span", { className: "badge" }));
  tile.append(element("span", { className: "name", title: alt }, element("bdi", {}, alt)));
  Object.assign(tile.dataset, { item: id, selection, alt });
  return tile;
}

/** Say in place of an image that it can't be shown. */
function showAbsence(tile) {
  const image = tile.querySelector("img");
  if (image?.naturalWidth) return;
  image?.remove();
  tile.prepend(element("span", { className: "missing" }, `${tile.dataset.alt} can't be shown`));
}
