// The preview of a grid: one of its items as large as the grid, which can be zoomed like an image on the card. It
// opens with Z, by the button on an image under the mouse, or by a long touch, and follows the cursor.

import { around, element, glyph, part, say, targetOf } from "../shared/dom.js";
import { Gestures } from "../shared/gestures.js";
import { Zoom } from "../shared/zoom.js";

/** @import { Cell } from "../types" */
/** @import { Mark } from "./marks.js" */

const LONG = 450; // milliseconds of a touch that opens the preview
const LEAST = 88; // CSS pixels; on a smaller image, the button would take clicks that are meant to mark it
const STILL = 10; // CSS pixels by which the finger may move meanwhile

export class Preview {
  /** @type {HTMLElement} */
  #place;
  #frame;
  #name;
  #zoom;
  #gestures;
  #peek = element("button", { type: "button", className: "peek", tabIndex: -1, "aria-label": "Enlarge" });
  /** @type {HTMLElement | null} */
  #under = null; // the image under the mouse
  /** @type {Cell | null} */
  #cell = null;
  /** @type {(tile: HTMLElement) => void} */
  #open;
  /** @type {number | undefined} */
  #timer;

  /**
   * Create the preview; `open(tile)` is called when a person opens the preview of an image by mouse or touch.
   *
   * @param {HTMLElement} card
   * @param {(tile: HTMLElement) => void} open
   * @param {AbortSignal} signal
   */
  constructor(card, open, signal) {
    this.#place = part(card, ".preview");
    this.#frame = part(this.#place, ".frame");
    this.#name = part(this.#place, ".caption .name");
    this.#zoom = new Zoom(this.#frame);
    this.#gestures = new Gestures(
      this.#frame,
      this.#zoom,
      { mayPull: () => false, pulled: () => {} },
      signal,
    );
    this.#open = open;
    this.#peek.append(glyph("g-zoom"));
    const cells = part(card, ".cells");
    cells.after(this.#peek);
    this.#peek.hidden = true;
    this.#peek.addEventListener("click", (event) => {
      event.stopPropagation();
      if (this.#under) open(this.#under);
    });
    const options = { signal, passive: true };
    cells.addEventListener("pointerover", (event) => this.#hovered(event), options);
    cells.addEventListener("pointerdown", (event) => this.#touched(event, cells), options);
    part(card, ".pane").addEventListener("pointerleave", () => this.#offer(null), options);
    part(this.#place, ".close").addEventListener("click", () => this.close());
    part(this.#place, ".look").addEventListener("click", () => this.#zoom.toggle());
  }

  get isOpen() {
    return !this.#place.hidden;
  }

  open() {
    this.#place.hidden = false;
    this.#offer(null);
  }

  close() {
    this.#place.hidden = true;
    this.#cell = null;
    this.#frame.querySelector(".item")?.remove();
    this.#zoom.take(null);
  }

  /**
   * Show the cell under the cursor and its mark, if the preview is open.
   *
   * @param {Cell | undefined} cell
   * @param {Mark | null} mark
   */
  follow(cell, mark) {
    if (!this.isOpen || !cell) return;
    this.#place.dataset.mark = mark ?? "";
    part(this.#place, ".badge").replaceChildren(...(mark ? [glyph(`g-${mark}`)] : []));
    if (cell === this.#cell) return;
    this.#cell = cell;
    say(this.#name, cell.alt);
    if (cell.src)
      this.#put(cell, element("img", { alt: "", src: cell.src, className: "item", draggable: false }));
    else this.#frame.querySelector(".item")?.remove();
    if (cell.src && cell.original?.src) this.#refine(cell, cell.original.src);
  }

  /**
   * Handle a key while the preview is open: Z zooms in and then closes it, Escape goes one step back. Return whether
   * the key was handled; all other keys are the grid's.
   *
   * @param {KeyboardEvent} event
   */
  pressed(event) {
    if (!this.isOpen) return false;
    const isBack = event.key === "Escape" || (event.key.toLowerCase() === "z" && this.#zoom.isOn);
    if (isBack && !(event.key === "Escape" && this.#zoom.isOn)) this.close();
    else return this.#zoom.pressed(event);
    return true;
  }

  /**
   * @param {Cell} cell
   * @param {HTMLImageElement} image
   */
  #put(cell, image) {
    this.#frame.querySelector(".item")?.remove();
    this.#frame.prepend(image);
    this.#gestures.cancel();
    this.#zoom.take(cell.original);
  }

  /**
   * Replace the grid's small image by the picture that a card would show, once it is decoded.
   *
   * @param {Cell} cell
   * @param {string} src
   */
  async #refine(cell, src) {
    const image = element("img", { alt: "", src, className: "item", draggable: false });
    try {
      await image.decode();
    } catch {
      return; // the small image stays
    }
    if (this.#cell !== cell) return;
    if (this.#zoom.isOn || !cell.original?.width) this.#frame.querySelector(".item")?.replaceWith(image);
    else this.#put(cell, image);
  }

  /** @param {PointerEvent} event */
  #hovered(event) {
    if (event.pointerType !== "mouse") return;
    const tile = /** @type {HTMLElement | null} */ (around(targetOf(event), ".tile"));
    if (tile) this.#offer(tile);
  }

  /**
   * Put the button for the preview on the image under the mouse.
   *
   * @param {HTMLElement | null} tile
   */
  #offer(tile) {
    this.#under = tile;
    this.#peek.hidden = !tile || this.isOpen || tile.offsetWidth < LEAST;
    if (!tile) return;
    this.#peek.style.left = `${tile.offsetLeft + tile.offsetWidth}px`;
    this.#peek.style.top = `${tile.offsetTop}px`;
  }

  /**
   * @param {PointerEvent} event
   * @param {HTMLElement} cells
   */
  #touched(event, cells) {
    const tile = /** @type {HTMLElement | null} */ (around(targetOf(event), ".tile"));
    if (event.pointerType === "mouse" || !tile) return;
    clearTimeout(this.#timer);
    const ended = new AbortController();
    const options = { signal: ended.signal };
    const end = () => {
      clearTimeout(this.#timer);
      ended.abort();
    };
    cells.addEventListener("pointerup", end, options);
    cells.addEventListener("pointercancel", end, options);
    cells.addEventListener(
      "pointermove",
      ({ clientX, clientY }) => {
        if (Math.hypot(clientX - event.clientX, clientY - event.clientY) > STILL) end();
      },
      options,
    );
    this.#timer = setTimeout(() => {
      end();
      // The click that ends the touch must not mark the image.
      const swallow = (/** @type {Event} */ click) => click.stopPropagation();
      cells.addEventListener("click", swallow, { capture: true, once: true });
      setTimeout(() => cells.removeEventListener("click", swallow, { capture: true }), 2 * LONG);
      this.#open(tile);
    }, LONG);
  }
}
