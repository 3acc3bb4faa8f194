// The zoom of the image in view: it is scaled and shifted within its frame, and nothing else moves.

import { part } from "../shared/dom.js";

/** @typedef {{ clientX: number, clientY: number }} Point */

const CLOSE = 3; // zoom factor of a key, click or tap
const CLOSEST = 10;
const CRISP_FROM = 4; // CSS pixels per image pixel from which the image's pixels are drawn as sharp squares
const STEP = 60; // CSS pixels per arrow key
/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export class Zoom {
  /** @type {HTMLElement} */
  #frame;
  #scale = 1;
  #x = 0; // distance of the image's centre from the frame's
  #y = 0;

  /** @param {HTMLElement} frame */
  constructor(frame) {
    this.#frame = frame;
  }

  get isOn() {
    return this.#scale > 1;
  }

  /**
   * Zoom in on a point of the window, or on the centre for null; if already zoomed, zoom out.
   *
   * @param {Point | null} point
   */
  toggle(point = null) {
    if (this.isOn) this.reset();
    else this.by(CLOSE, point);
  }

  /**
   * Scale by a factor, keeping the image's place under the point.
   *
   * @param {number} factor
   * @param {Point | null} point
   */
  by(factor, point = null) {
    if (!this.#frame.querySelector(".item")) return;
    const scale = Math.min(CLOSEST, Math.max(1, this.#scale * factor));
    const { x, y } = point ? this.#fromCentre(point) : { x: 0, y: 0 };
    const grown = scale / this.#scale;
    this.#show(scale, x - (x - this.#x) * grown, y - (y - this.#y) * grown);
  }

  /**
   * Shift the image by CSS pixels.
   *
   * @param {number} dx
   * @param {number} dy
   */
  move(dx, dy) {
    this.#show(this.#scale, this.#x + dx, this.#y + dy);
  }

  reset() {
    this.#show(1, 0, 0);
  }

  /**
   * Handle a key: Z toggles the zoom, Escape ends it, and Shift with an arrow moves the image. Return whether it did.
   *
   * @param {KeyboardEvent} event
   */
  pressed({ key, shiftKey }) {
    const step = shiftKey && this.isOn ? ARROWS[key] : null;
    if (step) this.move(step[0] * STEP, step[1] * STEP);
    else if (key.toLowerCase() === "z") this.toggle();
    else if (key === "Escape" && this.isOn) this.reset();
    else return false;
    return true;
  }

  /** @param {Point} point */
  #fromCentre({ clientX, clientY }) {
    const { left, top, width, height } = this.#frame.getBoundingClientRect();
    const unit = this.#frame.offsetWidth / width; // the page may be zoomed for a projector
    return { x: (clientX - left - width / 2) * unit, y: (clientY - top - height / 2) * unit };
  }

  /**
   * @param {number} scale
   * @param {number} x
   * @param {number} y
   */
  #show(scale, x, y) {
    const { clientWidth: width, clientHeight: height, style, dataset } = this.#frame;
    const room = (/** @type {number} */ side) => (side * (scale - 1)) / 2;
    const within = (/** @type {number} */ value, /** @type {number} */ most) =>
      Math.max(-most, Math.min(most, value));
    this.#scale = scale;
    this.#x = within(x, room(width));
    this.#y = within(y, room(height));
    style.setProperty("--scale", String(scale));
    style.setProperty("--x", `${this.#x}px`);
    style.setProperty("--y", `${this.#y}px`);
    dataset.zoomed = String(this.isOn);
    const image = this.#frame.querySelector("img");
    const isCrisp = image && scale * width >= CRISP_FROM * Math.max(image.naturalWidth, image.naturalHeight);
    dataset.crisp = String(this.isOn && Boolean(isCrisp));
    part(this.#frame, ".look").setAttribute("aria-pressed", String(this.isOn));
  }
}
