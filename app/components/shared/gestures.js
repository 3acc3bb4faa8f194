// Touch and mouse gestures on the image. A long enough pull to one side answers, unless the image is zoomed. A tap,
// a click, a pinch or the wheel zooms, and dragging moves a zoomed image.

import { around, present, targetOf } from "./dom.js";

/** @import { Zoom } from "./zoom.js" */

const STILL = 10; // CSS pixels; shorter movements don't count
const FAR = 0.28; // share of the frame's width; a shorter pull gives no answer
const EDGE = 24; // CSS pixels at the screen's sides, where a pull is the browser's gesture for back and forward
const STEEPEST = 0.6; // highest ratio of a pull's height to its width; steeper movements scroll
const WHEEL = 0.002; // zoom per pixel of the wheel

export class Gestures {
  /** @type {HTMLElement} */
  #frame;
  /** @type {Zoom} */
  #zoom;
  /** @type {() => boolean} */
  #mayPull;
  /** @type {(answer: string) => void} */
  #pulled;
  /** @type {Map<number, PointerEvent>} */
  #pointers = new Map();
  #kind = "none"; // kind of the movement: undecided, pull, pan, pinch, or none
  /** @type {PointerEvent | null} */
  #from = null;

  /**
   * Listen to the frame; `mayPull()` returns whether an answer can be given now, `pulled(answer)` is called with it.
   *
   * @param {HTMLElement} frame
   * @param {Zoom} zoom
   * @param {{ mayPull: () => boolean, pulled: (answer: string) => void }} calls
   * @param {AbortSignal} signal
   */
  constructor(frame, zoom, { mayPull, pulled }, signal) {
    this.#frame = frame;
    this.#zoom = zoom;
    this.#mayPull = mayPull;
    this.#pulled = pulled;
    const options = { signal, passive: true };
    frame.addEventListener("pointerdown", (event) => this.#down(event), options);
    frame.addEventListener("pointermove", (event) => this.#move(event), options);
    frame.addEventListener("pointerup", (event) => this.#up(event), options);
    frame.addEventListener("pointercancel", (event) => this.#lost(event), options);
    frame.addEventListener("wheel", (event) => this.#wheel(event), { signal, passive: false });
  }

  /** Ignore the fingers until they are lifted, because the image under them has changed. */
  cancel() {
    this.#kind = "none";
    this.#showPull(0);
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.button !== 0 || around(targetOf(event), "button")) return;
    if (event.pointerType === "mouse" && around(targetOf(event), ".text")) return; // selects and scrolls text
    this.#pointers.set(event.pointerId, event);
    this.#frame.setPointerCapture(event.pointerId);
    this.#from = event;
    this.#showPull(0);
    this.#kind = ["undecided", "pinch"][this.#pointers.size - 1] ?? "none";
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const before = this.#pointers.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [
      event.clientX - present(this.#from).clientX,
      event.clientY - present(this.#from).clientY,
    ];
    if (this.#kind === "undecided" && Math.hypot(dx, dy) > STILL) this.#kind = this.#meant(event, dx, dy);
    if (this.#kind === "pull") this.#showPull(dx);
    if (this.#kind === "pan") this.#zoom.move(event.clientX - before.clientX, event.clientY - before.clientY);
    if (this.#kind === "pinch") this.#pinch(before, event);
    this.#pointers.set(event.pointerId, event);
  }

  /**
   * @param {PointerEvent} event
   * @param {number} dx
   * @param {number} dy
   */
  #meant({ pointerType }, dx, dy) {
    if (this.#zoom.isOn) return "pan";
    const { clientX } = present(this.#from);
    const isInside = clientX > EDGE && clientX < innerWidth - EDGE;
    const isFlat = Math.abs(dy) < STEEPEST * Math.abs(dx);
    return pointerType !== "mouse" && isInside && isFlat && this.#mayPull() ? "pull" : "none";
  }

  /**
   * @param {PointerEvent} before
   * @param {PointerEvent} event
   */
  #pinch(before, event) {
    const other = present(
      [...this.#pointers.values()].find(({ pointerId }) => pointerId !== event.pointerId),
    );
    const apart = (/** @type {PointerEvent} */ one) =>
      Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
    const middle = {
      clientX: (event.clientX + other.clientX) / 2,
      clientY: (event.clientY + other.clientY) / 2,
    };
    this.#zoom.move((event.clientX - before.clientX) / 2, (event.clientY - before.clientY) / 2);
    this.#zoom.by(apart(event) / Math.max(1, apart(before)), middle);
  }

  /** @param {PointerEvent} event */
  #up(event) {
    if (!this.#pointers.delete(event.pointerId)) return;
    const kind = this.#kind;
    const answer = this.#frame.dataset.far === "true" ? this.#frame.dataset.pull : null;
    this.cancel();
    if (kind === "undecided") this.#zoom.toggle(event);
    else if (kind === "pull" && answer) this.#pulled(answer);
  }

  /** @param {PointerEvent} event */
  #lost(event) {
    if (this.#pointers.delete(event.pointerId)) this.cancel();
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    if (around(targetOf(event), ".text")) return; // the wheel scrolls text
    const isBack = event.deltaY > 0;
    if (isBack && !this.#zoom.isOn) return;
    event.preventDefault();
    this.#zoom.by(Math.exp(-WHEEL * event.deltaY), event);
  }

  /** @param {number} dx */
  #showPull(dx) {
    const { style, dataset } = this.#frame;
    style.setProperty("--pull", `${dx}px`);
    dataset.pull = dx ? (dx > 0 ? "yes" : "no") : "";
    dataset.far = String(dx !== 0 && Math.abs(dx) >= FAR * this.#frame.clientWidth);
  }
}
