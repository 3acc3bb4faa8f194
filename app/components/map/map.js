// The map of a pool: tiles coloured by wᵀx + b, the last answers on them, and a lasso. The server is asked for the state
// several times a second; with another hyperplane, the tiles in view are requested again. State that must outlive a
// payload is kept on the root element.

import { around, element, part, say } from "../shared/dom.js";
import { ABSENT, Figure, fixed, whole } from "../shared/figures.js";
import { Help } from "../shared/help.js";
import { hasKeys, isField, isShortcut, takeKeys, watchPickers } from "../shared/keys.js";
import { mounting } from "../shared/mount.js";
import { isLarge } from "../shared/size.js";
import { openingOf } from "../shared/text.js";
import { counted, Found, signed, standsOf } from "./found.js";
import { Lasso, written } from "./lasso.js";
import { Tiles } from "./tiles.js";
import { View } from "./view.js";

/** @import { Component, LassoData, MapData, MapItem, Place } from "../types" */

// Milliseconds.
const POLL = 600; // between requests for the state
const PATIENCE = 2000; // before a retry if the server doesn't answer
const LOOK = 60; // least time between two requests for the item under the pointer

// CSS pixels.
const REACH = 16; // radius around the pointer in which an item is looked for
const FAR = 150; // radius around the middle in which an item is looked for after a key
const STEP = 90; // per arrow key
const STILL = 4; // movement up to which a press is a click
const GAP = 14; // between an item and its preview
const NEWEST = 9; // radius of the newest answer's mark
const MARK = 6;
const AFAR = 1.5; // times as large marks in the presenter's size
const RING = 10; // radius of the ring around the item of the preview

const FACTOR = 1.5; // of the keys and buttons that zoom
const PER_PIXEL = 0.0016; // of the mouse wheel
const HISTORY = 60; // margins that are plotted

/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

const ABOUT = "Similar items are near each other; colours show on which side of the hyperplane they are.";
/** @type {[string[], string][]} */
const KEYS = [
  [["←", "↑", "↓", "→"], "move the map, and look at the item in the middle"],
  [["+", "−"], "zoom in or out"],
  [["0"], "show the whole map"],
  [["L"], "draw a lasso with the mouse; the Shift key does the same while it is held"],
  [["↵"], "list the items in view; in the list, label them"],
  [["Esc"], "close the list"],
];

class MapPage {
  /**
   * @param {ShadowRoot} root
   * @param {Component<MapData>} component
   */
  constructor(root, component) {
    this.component = component;
    this.data = component.data;
    this.card = part(root, ".card");
    this.title = part(root, ".title");
    this.about = part(root, ".about");
    this.field = part(root, ".field");
    /** @type {HTMLCanvasElement} */
    this.canvas = part(root, ".canvas");
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.lassoButton = part(root, ".draw");
    this.preview = part(root, ".preview");
    this.picture = part(root, ".picture");
    this.trouble = part(root, ".trouble");
    this.bandWords = part(root, ".bandwords");
    const list = part(root, ".rows");
    this.figures = {
      items: new Figure(list, ["On the map"]),
      labels: new Figure(list, ["Labels"]),
      positive: new Figure(list, ["Side of yes"], "%"),
      margin: new Figure(list, ["|w", element("sup", {}, "T"), "x| in the band, up to"]),
    };
    this.found = new Found(
      this.card,
      () => this.dropLasso(),
      (lasso) => this.component.setTriggerValue("lasso", lasso),
    );
    this.help = new Help(this.card, () => ({ about: ABOUT, keys: KEYS }));
    this.view = new View(this.data);
    this.tiles = new Tiles(
      (spot) => this.load(spot),
      () => this.redraw(),
    );
    /** @type {number[]} */
    this.margins = [];
    /** @type {number[]} */
    this.shares = [];
    this.version = -1;
    /** @type {Record<string, string>} */
    this.hues = {};
    this.theme = "light";
    /** @type {Lasso | null} */
    this.lasso = null; // while it is drawn
    /** @type {Place[] | null} */
    this.polygon = null; // on the map
    /** @type {Map<number, Place>} */
    this.pointers = new Map(); // those that are down, by id
    this.travelled = 0; // CSS pixels since the first of them went down
    /** @type {Place | null} */
    this.looksAt = null; // on the screen
    /** @type {MapItem | null} */
    this.seen = null; // the item of the preview
    this.isDrawing = this.isLooking = this.isAsking = this.isClosed = this.hasCrosshair = false;
    this.isLassoing = false; // whether the next press draws a lasso
    this.looked = 0;
    this.beat = 0;
    /** @type {string | null} */
    this.lost = null; // the key of a map that the server doesn't know
    this.abort = new AbortController();
    this.listen();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.field);
    takeKeys(this);
  }

  close() {
    this.isClosed = true;
    this.abort.abort();
    this.observer.disconnect();
    this.tiles.close();
    clearTimeout(this.timer);
    clearTimeout(this.looking);
  }

  listen() {
    const options = { signal: this.abort.signal };
    const { canvas, card } = this;
    document.addEventListener("keydown", (event) => this.pressed(event), options);
    document.addEventListener("visibilitychange", () => this.poll(), options);
    watchPickers(this.abort.signal);
    canvas.addEventListener("pointerdown", (event) => this.down(event), options);
    canvas.addEventListener("pointermove", (event) => this.move(event), options);
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => this.up(/** @type {PointerEvent} */ (event)), options);
    }
    canvas.addEventListener("pointerleave", (event) => this.left(event), options);
    canvas.addEventListener("wheel", (event) => this.wheel(event), { ...options, passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(2, this.pointOf(event)), options);
    this.lassoButton.addEventListener("click", () => this.setLassoing(!this.isLassoing));
    part(card, ".list").addEventListener("click", () => this.listView());
    part(card, ".nearer").addEventListener("click", () => this.zoom(FACTOR));
    part(card, ".farther").addEventListener("click", () => this.zoom(1 / FACTOR));
    part(card, ".whole").addEventListener("click", () => this.showWhole());
  }

  /** @param {Component<MapData>} component */
  update(component) {
    this.component = component;
    if (component.data.map !== this.data.map) this.version = -1;
    this.lost = null;
    this.take(component.data);
    this.found.offersGrid = Boolean(component.data.offers_grid);
    if (component.data.refused) this.found.refuse(component.data.refused);
    this.card.dataset.state = "shown";
    this.poll();
  }

  /** Request the state, again and again; one request at a time, and none while the page is hidden. */
  async poll() {
    clearTimeout(this.timer);
    if (this.isAsking || this.isClosed || document.hidden) return;
    this.isAsking = true;
    const key = this.data.map;
    let pause = PATIENCE;
    try {
      const state = await (await this.ask("state")).json();
      if (key === this.data.map && !this.isClosed) this.take(state);
      pause = POLL;
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      if (this.lost !== key) say(this.trouble, "No connection to the server. Retrying…");
    } finally {
      this.isAsking = false;
    }
    if (!this.isClosed) this.timer = setTimeout(() => this.poll(), pause);
  }

  /**
   * Return the answer of a route of the map.
   *
   * @param {string} name
   * @param {Record<string, string | number>} parameters
   */
  async ask(name, parameters = {}) {
    const key = this.data.map;
    const words = Object.entries({ map: key, ...parameters }).map(([word, value]) => [word, String(value)]);
    const address = `map/${name}?${new URLSearchParams(words)}`;
    const answer = await fetch(address, { cache: "no-store", signal: this.abort.signal });
    if (answer.ok) return answer;
    if (answer.status === 404 && this.lost !== key) {
      this.lost = key; // the page's next run brings another
      this.component.setStateValue("beat", ++this.beat);
    }
    const { problem } = await answer.json().catch(() => ({}));
    throw new Error(problem ?? `The server answered ${answer.status}`);
  }

  /** @param {{ zoom: number, column: number, row: number }} spot */
  async load(spot) {
    const answer = await this.ask("tile", { ...spot, theme: this.theme });
    return answer.status === 204 ? null : createImageBitmap(await answer.blob());
  }

  /** @param {MapData} data */
  take(data) {
    const { view } = this;
    this.data = data;
    if (view.cells !== data.cells || view.finest !== data.finest) {
      Object.assign(view, { cells: data.cells, finest: data.finest });
      this.tiles.clear();
    }
    if (data.version !== this.version) {
      this.version = data.version;
      if (data.band) {
        this.margins = [...this.margins, data.band.margin].slice(-HISTORY);
        this.shares = [...this.shares, (100 * (data.positive ?? 0)) / data.items].slice(-HISTORY);
      }
    }
    this.card.dataset.version = String(data.version);
    this.readColours();
    view.isLarge = isLarge();
    this.tiles.renew(stampOf(data, this.theme));
    this.describe();
    this.redraw();
  }

  describe() {
    const { question, word, items, elsewhere, labels, positive, band, trouble } = this.data;
    say(this.title, question);
    say(this.about, aboutOf(this.data));
    say(this.trouble, trouble ?? "");
    this.figures.items.show({
      value: whole(items),
      aside: elsewhere > 0 ? `${whole(elsewhere)} are not` : "",
    });
    this.figures.labels.show({ value: whole(labels) });
    this.figures.positive.show({
      value: positive === null ? null : fixed(1)((100 * positive) / items),
      aside: positive === null ? "" : counted(positive, word),
      history: this.shares,
    });
    this.figures.margin.show({
      value: band ? fixed(4)(band.margin) : null,
      aside: band ? counted(band.items, word) : "",
      history: this.margins,
      scale: Math.log,
    });
    say(this.bandWords, band ? `the band: the ${counted(band.items, word)} nearest the hyperplane` : ABSENT);
    this.card.dataset.hyperplane = String(Boolean(band));
    this.canvas.setAttribute("aria-label", `Map of ${counted(items, word)}`);
  }

  /** Read the theme's colours, which may change at any time. */
  readColours() {
    const style = getComputedStyle(this.card);
    for (const name of ["ink", "paper", "yes", "no", "brand"]) {
      this.hues[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.context.fillStyle = this.hues.paper; // which the canvas writes as #rrggbb
    const light = Number.parseInt(String(this.context.fillStyle).slice(3, 5), 16);
    this.theme = light < 128 ? "dark" : "light";
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.field;
    if (!width || !height) return;
    const zoom = this.field.getBoundingClientRect().width / this.field.offsetWidth; // for a projector
    const ratio = window.devicePixelRatio * zoom;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const tools = part(this.card, ".tools");
    this.view.resize(width, height, tools.offsetTop + tools.offsetHeight);
    this.draw(); // a canvas is empty after its size has changed
  }

  redraw() {
    if (this.isDrawing || this.isClosed) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      if (!this.isClosed) this.draw();
    });
  }

  draw() {
    const { context, view, canvas } = this;
    context.setTransform(canvas.width / view.width, 0, 0, canvas.height / view.height, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    this.tiles.draw(context, view);
    this.card.dataset.settled = String(this.tiles.isSettled);
    this.drawMarks();
    this.drawPolygon();
    if (this.hasCrosshair) this.drawCrosshair();
    if (this.seen) this.drawRing(this.seen);
  }

  drawMarks() {
    const { context, hues } = this;
    for (const [place, [x, y, answer]] of [...this.data.marks.entries()].reverse()) {
      const at = this.view.toScreen({ x, y });
      const radius = (place ? MARK : NEWEST) * (this.view.isLarge ? AFAR : 1);
      context.beginPath();
      context.arc(at.x, at.y, radius, 0, 2 * Math.PI);
      context.fillStyle = hues[answer];
      context.fill();
      context.lineWidth = place ? 1.5 : 3;
      context.strokeStyle = place ? hues.paper : hues.ink;
      context.stroke();
      const unit = radius / 2.4;
      context.beginPath();
      if (answer === "yes") {
        context.moveTo(at.x - unit, at.y);
        context.lineTo(at.x - 0.2 * unit, at.y + 0.9 * unit);
        context.lineTo(at.x + 1.1 * unit, at.y - 0.9 * unit);
      } else {
        for (const slope of [1, -1]) {
          context.moveTo(at.x - 0.9 * unit, at.y - 0.9 * slope * unit);
          context.lineTo(at.x + 0.9 * unit, at.y + 0.9 * slope * unit);
        }
      }
      context.lineWidth = 1.6;
      context.strokeStyle = hues.paper;
      context.stroke();
    }
  }

  drawPolygon() {
    const corners = this.lasso?.corners ?? this.polygon?.map((place) => this.view.toScreen(place));
    if (!corners?.length) return;
    const { context, hues } = this;
    context.beginPath();
    for (const { x, y } of corners) context.lineTo(x, y);
    context.closePath();
    context.fillStyle = hues.brand;
    context.globalAlpha = 0.12;
    context.fill("evenodd");
    context.globalAlpha = 1;
    context.lineWidth = 2.5;
    context.setLineDash([7, 4]);
    context.strokeStyle = hues.brand;
    context.stroke();
    context.setLineDash([]);
  }

  /** @param {Place} place */
  drawRing(place) {
    const { x, y } = this.view.toScreen(place);
    this.context.beginPath();
    this.context.arc(x, y, RING, 0, 2 * Math.PI);
    this.strokeTwice();
  }

  /** Draw the path in the text's colour, edged with the page's colour, so that it is visible on any colour. */
  strokeTwice() {
    const { context, hues } = this;
    context.lineWidth = 5;
    context.strokeStyle = hues.paper;
    context.stroke();
    context.lineWidth = 2;
    context.strokeStyle = hues.ink;
    context.stroke();
  }

  drawCrosshair() {
    const { context, view } = this;
    const [x, y] = [view.width / 2, view.height / 2];
    context.beginPath();
    for (const [dx, dy] of Object.values(ARROWS)) {
      context.moveTo(x + 5 * dx, y + 5 * dy);
      context.lineTo(x + 16 * dx, y + 16 * dy);
    }
    this.strokeTwice();
  }

  /** @param {MouseEvent} event */
  pointOf({ clientX, clientY }) {
    const { left, top, width } = this.canvas.getBoundingClientRect();
    const unit = this.view.width / width; // the page may be zoomed for a projector
    return { x: (clientX - left) * unit, y: (clientY - top) * unit };
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button) return;
    const point = this.pointOf(event);
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, point);
    this.hasCrosshair = false;
    if (this.pointers.size > 1) {
      this.lasso = null; // two fingers zoom
    } else {
      this.travelled = 0;
      if (this.isLassoing || event.shiftKey) {
        this.lasso = new Lasso();
        this.lasso.add(point);
      }
    }
    if (event.pointerType === "mouse") this.lookAt(null);
  }

  /** @param {PointerEvent} event */
  move(event) {
    const point = this.pointOf(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "mouse") return;
      this.hasCrosshair = false;
      this.lookAt(point);
      return;
    }
    this.travelled += Math.hypot(point.x - before.x, point.y - before.y);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.pointers.set(event.pointerId, point);
    if (others.length) this.pinch(before, point, others[0]);
    else if (this.lasso) this.lasso.add(point);
    else if (this.travelled > STILL) this.view.panBy(point.x - before.x, point.y - before.y);
    if (this.travelled > STILL) this.lookAt(null);
    this.redraw();
  }

  /**
   * Zoom by the distance of two fingers, one of which has moved.
   *
   * @param {Place} before
   * @param {Place} now
   * @param {Place} other
   */
  pinch(before, now, other) {
    const apart = (/** @type {Place} */ { x, y }) => Math.max(1, Math.hypot(x - other.x, y - other.y));
    this.view.panBy((now.x - before.x) / 2, (now.y - before.y) / 2);
    this.view.zoomBy(apart(now) / apart(before), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
  }

  /** @param {PointerEvent} event */
  up(event) {
    const point = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (!point) return;
    const { lasso } = this;
    this.lasso = null;
    if (lasso && event.type === "pointerup" && this.travelled > STILL) {
      this.setLassoing(false);
      const polygon = lasso.polygon();
      if (polygon) this.enclose(polygon.map((corner) => this.view.toMap(corner)));
    } else if (!lasso && this.travelled <= STILL) {
      this.lookAt(point);
    }
    this.redraw();
  }

  /** @param {PointerEvent} event */
  left({ pointerType }) {
    if (pointerType === "mouse") this.lookAt(null); // a finger leaves with each tap
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    const pixels = event.deltaY * [1, 16, this.view.height][event.deltaMode];
    this.zoom(Math.exp(-pixels * PER_PIXEL), this.pointOf(event));
  }

  /**
   * @param {number} factor
   * @param {Place} [point]
   */
  zoom(factor, point) {
    this.view.zoomBy(factor, point);
    this.lookAt(null);
    this.redraw();
  }

  showWhole() {
    this.view.showWhole();
    this.lookAt(null);
    this.redraw();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (!hasKeys(this) || event.defaultPrevented || isField(event) || isShortcut(event)) return;
    if (this.help.pressed(event)) return;
    const inner = /** @type {Element} */ (event.composedPath()[0]);
    const { key } = event;
    if (key === "Escape") this.escape();
    else if (key === "Enter" && inner === this.found.place && !event.repeat) this.found.label();
    else if (around(inner, ".found")) return;
    else if (ARROWS[key]) this.byKeys(() => this.view.panBy(ARROWS[key][0] * STEP, ARROWS[key][1] * STEP));
    else if (key === "+" || key === "=") this.byKeys(() => this.view.zoomBy(FACTOR));
    else if (key === "-") this.byKeys(() => this.view.zoomBy(1 / FACTOR));
    else if (key === "0") this.byKeys(() => this.view.showWhole());
    else if (key.toLowerCase() === "l" && !event.repeat) this.setLassoing(!this.isLassoing);
    else if (key === "Enter" && inner === this.canvas && !event.repeat) this.listView();
    else return;
    event.preventDefault();
  }

  /**
   * Change the view by a key, and look at the item in the middle.
   *
   * @param {() => void} change
   */
  byKeys(change) {
    change();
    this.hasCrosshair = true;
    this.lookAt({ x: this.view.width / 2, y: this.view.height / 2 });
    this.redraw();
  }

  escape() {
    if (this.found.isOpen) this.found.close();
    else this.setLassoing(false);
    this.hasCrosshair = false;
    this.lookAt(null);
    this.redraw();
  }

  /** @param {boolean} isLassoing */
  setLassoing(isLassoing) {
    this.isLassoing = isLassoing;
    this.lassoButton.setAttribute("aria-pressed", String(isLassoing));
    this.card.dataset.lasso = String(isLassoing);
  }

  dropLasso() {
    this.polygon = null;
    this.canvas.focus({ preventScroll: true });
    this.redraw();
  }

  listView() {
    const { width, height } = this.view;
    const corners = [
      { x: 0, y: 0 },
      { x: width, y: 0 },
      { x: width, y: height },
      { x: 0, y: height },
    ];
    this.enclose(corners.map((corner) => this.view.toMap(corner)));
  }

  /**
   * List the items inside a polygon.
   *
   * @param {Place[]} polygon
   */
  async enclose(polygon) {
    this.polygon = polygon;
    this.lookAt(null);
    this.found.open();
    this.redraw();
    try {
      /** @type {LassoData} */
      const data = await (await this.ask("lasso", { corners: written(polygon) })).json();
      if (this.polygon === polygon) this.found.show(data, this.data.word);
    } catch (error) {
      if (this.polygon === polygon && !this.isClosed)
        this.found.fail(String(/** @type {Error} */ (error).message));
    }
  }

  /**
   * Show the item at a point of the screen, or none.
   *
   * @param {Place | null} point
   */
  lookAt(point) {
    this.looksAt = point;
    clearTimeout(this.looking);
    if (!point) this.showPreview(null);
    else this.looking = setTimeout(() => this.look(), this.looked + LOOK - performance.now());
  }

  /** Request the item at the point; one request at a time. */
  async look() {
    const point = this.looksAt;
    if (!point || this.isLooking || this.isClosed) return;
    this.isLooking = true;
    this.looked = performance.now();
    try {
      const { x, y } = this.view.toMap(point);
      const reach = this.hasCrosshair ? FAR : REACH;
      const answer = await this.ask("near", { x, y, radius: reach / this.view.scale });
      const { item } = await answer.json();
      if (this.looksAt === point) this.showPreview(item);
    } catch {
      this.showPreview(null);
    }
    this.isLooking = false;
    if (this.looksAt && this.looksAt !== point) this.lookAt(this.looksAt);
  }

  /** @param {MapItem | null} item */
  showPreview(item) {
    const { preview, picture, view } = this;
    if (item !== this.seen) this.redraw();
    this.seen = item;
    preview.hidden = !item;
    if (!item) return;
    if (picture.dataset.item !== String(item.id)) {
      picture.dataset.item = String(item.id);
      const { src, alt, opening } = item;
      picture.replaceChildren(opening ? openingOf(opening) : src ? element("img", { src, alt: "" }) : "");
      say(part(preview, ".name"), alt);
    }
    const score = item.score === null ? [] : [`wᵀx + b = ${signed(item.score)}`];
    const stands = standsOf(item);
    say(part(preview, ".score"), [...score, ...(stands ? [stands] : [])].join(", "));
    const at = view.toScreen(item);
    const { offsetWidth: width, offsetHeight: height } = preview;
    const isRight = at.x + GAP + width <= view.width;
    const left = isRight ? at.x + GAP : at.x - GAP - width;
    const top = Math.min(view.height - height - 8, Math.max(8, at.y - height / 2));
    preview.style.transform = `translate(${Math.round(Math.max(8, left))}px, ${Math.round(top)}px)`;
  }
}

/**
 * Return a text that changes whenever the tiles do. The version alone doesn't: a restarted server counts from 0 again.
 *
 * @param {Pick<MapData, "map" | "version">} data
 * @param {string} theme
 */
export function stampOf({ map, version }, theme) {
  return `${map} ${version} ${theme}`;
}

/**
 * Return the sentences below the question.
 *
 * @param {MapData} data
 */
export function aboutOf({ word, items, elsewhere, band }) {
  const near = `Similar ${word}s are near each other.`;
  const missing = `${counted(elsewhere, word)} of ${whole(items + elsewhere)} ${elsewhere === 1 ? "is" : "are"} not on the map`;
  const cure = elsewhere > 0 ? ` ${missing}: run closecall pool map again.` : "";
  return `${near}${band ? "" : " The hyperplane appears after the first yes and no."}${cure}`;
}

export default mounting(MapPage);
