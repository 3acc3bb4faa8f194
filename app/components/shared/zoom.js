// The zoom of the image in view: it is scaled and shifted within its frame, and nothing else moves. The frame has the
// image's own shape. A closer look loads the image's own pixels (detail.js).

import { Detail } from "./detail.js";
import { part, present } from "./dom.js";

/** @import { Original } from "../types" */

/** @typedef {{ clientX: number, clientY: number }} Point */

const CLOSE = 3; // zoom factor of a key, click or tap
const CLOSEST = 10;
const ENLARGED = 2; // CSS pixels per pixel of an original to which one can zoom, even if this exceeds `CLOSEST`
const CRISP_FROM = 4; // CSS pixels per image pixel from which a small image's pixels are drawn as sharp squares
const SMALL = 128; // pixels; larger images are photographs, and stay smooth
const LONGEST = 4; // the largest ratio of width to height of the frame, or of height to width
const UNKNOWN = { clientWidth: 0, clientHeight: 0 };
const STEP = 60; // CSS pixels per arrow key
/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export class Zoom {
  /** @type {HTMLElement} */
  #frame;
  #detail;
  /** @type {Original | null} */
  #original = null;
  /** @type {Point | null} */
  #pointer = null; // where the mouse is, over the frame
  #scale = 1;
  #x = 0; // distance of the image's centre from the frame's
  #y = 0;

  /** @param {HTMLElement} frame */
  constructor(frame) {
    this.#frame = frame;
    this.#detail = new Detail(frame);
    frame.addEventListener("pointermove", (event) => {
      this.#pointer = event.pointerType === "mouse" ? event : null;
      // The mouse does not move when another image comes under it.
      if (this.#pointer && !this.isOn && (event.movementX || event.movementY)) this.#prepare(event);
    });
    frame.addEventListener("pointerleave", () => {
      this.#pointer = null;
    });
  }

  get isOn() {
    return this.#scale > 1;
  }

  /**
   * Take another image, and give the frame its shape; null keeps the frame's shape.
   *
   * @param {Original | null | undefined} original
   */
  take(original) {
    this.#original = original ?? null;
    this.#detail.take(this.#original);
    if (original) {
      const { naturalWidth: width, naturalHeight: height } = present(this.#frame.querySelector("img"));
      const ratio = original.width / original.height || width / height || 1; // a drawing has only its picture's size
      this.#frame.style.setProperty("--ratio", Math.min(LONGEST, Math.max(1 / LONGEST, ratio)).toFixed(5));
    }
    this.reset();
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
    const scale = Math.min(this.#closest, Math.max(1, this.#scale * factor));
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
   * Handle a key: Z zooms in at the mouse or out, Escape ends the zoom, and Shift with an arrow moves the image. Return
   * whether it did.
   *
   * @param {KeyboardEvent} event
   */
  pressed({ key, shiftKey }) {
    const step = shiftKey && this.isOn ? ARROWS[key] : null;
    if (step) this.move(step[0] * STEP, step[1] * STEP);
    else if (key.toLowerCase() === "z") this.toggle(this.#pointer);
    else if (key === "Escape" && this.isOn) this.reset();
    else return false;
    return true;
  }

  /**
   * Prepare for a closer look at a point.
   *
   * @param {Point} point
   */
  #prepare(point) {
    const { x, y } = this.#fromCentre(point);
    this.#detail.prepare({ scale: CLOSE, x: x - x * CLOSE, y: y - y * CLOSE });
  }

  get #closest() {
    const width = this.#original?.width ?? 0;
    return Math.max(CLOSEST, (ENLARGED * width) / Math.max(1, this.#frame.clientWidth));
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
    const { style, dataset } = this.#frame;
    // An image that is not enlarged can't be moved. To ask for the frame's size would lay out the page.
    const { clientWidth: width, clientHeight: height } = scale > 1 ? this.#frame : UNKNOWN;
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
    dataset.crisp = String(this.isOn && this.#isCrisp(scale * width));
    part(this.#frame, ".look").setAttribute("aria-pressed", String(this.isOn));
    if (this.isOn) this.#detail.show({ scale, x: this.#x, y: this.#y });
    else this.#detail.clear();
  }

  /**
   * Return whether the image is small enough, and seen from near enough, for its pixels to be drawn as squares.
   *
   * @param {number} shown the width of the zoomed image in CSS pixels
   */
  #isCrisp(shown) {
    const image = this.#frame.querySelector("img");
    if (!image) return false;
    const { naturalWidth: width, naturalHeight: height } = image;
    return Math.max(width, height) <= SMALL && shown >= CRISP_FROM * width;
  }
}
