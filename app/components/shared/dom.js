// Helpers to find and create elements. Names and questions are user input and inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return the element of the component's markup that matches a selector. It must exist.
 *
 * @template {Element} [T=HTMLElement]
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {T}
 */
export function part(root, selector) {
  return /** @type {T} */ (root.querySelector(selector));
}

/**
 * Return all elements that match a selector.
 *
 * @template {Element} [T=HTMLElement]
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {T[]}
 */
export function partsOf(root, selector) {
  return /** @type {T[]} */ ([...root.querySelectorAll(selector)]);
}

/**
 * Return the target of an event in a component.
 *
 * @param {Event} event
 * @returns {Element}
 */
export function targetOf(event) {
  return /** @type {Element} */ (event.target);
}

/**
 * Return the shadow root that contains an element of a component.
 *
 * @param {Node} inner
 * @returns {ShadowRoot}
 */
export function treeOf(inner) {
  return /** @type {ShadowRoot} */ (inner.getRootNode());
}

/**
 * Return a value, or throw a TypeError if it is null or undefined.
 *
 * @template T
 * @param {T} value
 * @returns {NonNullable<T>}
 */
export function present(value) {
  if (value === null || value === undefined) throw new TypeError("Something is missing that is always there");
  return value;
}

/**
 * Return an element's closest ancestor, or itself, that matches a selector, or null.
 *
 * @template {Element} [T=HTMLElement]
 * @param {Element} inner
 * @param {string} selector
 * @returns {T | null}
 */
export function around(inner, selector) {
  return /** @type {T | null} */ (inner.closest?.(selector) ?? null); // the document has no `closest`
}

/**
 * Create an element with properties and with children, which are elements or text.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} properties
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, String(value));
    else Object.assign(made, { [name]: value });
  }
  made.append(...children);
  return made;
}

/**
 * Create an SVG element with attributes.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number>} attributes
 * @param {(Node | string)[]} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/**
 * Create an element that shows one of the symbols defined in card.html.
 *
 * @param {string} symbol
 * @param {string} className
 */
export function glyph(symbol, className = "glyph") {
  return drawn("svg", { class: className, "aria-hidden": "true" }, drawn("use", { href: `#${symbol}` }));
}

/**
 * Set an element's text; leave the page untouched if it is the same.
 *
 * @param {Element} where
 * @param {string} text
 */
export function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

const END = 8; // characters, as in 0012.jpg

/**
 * Set an element's text. If there is no room for all of it, its middle is left out, and its end stays in view.
 *
 * @param {Element} where
 * @param {string} text
 */
export function sayWithEnd(where, text) {
  if (where.textContent === text) return;
  const signs = [...text];
  let cut = signs.length - END;
  while (cut > 0 && /\p{M}/u.test(signs[cut])) cut -= 1; // an accent stays with its letter
  const isLong = cut > 0;
  where.classList.toggle("cut", isLong);
  if (!isLong) return say(where, text);
  const [start, end] = [signs.slice(0, cut).join(""), signs.slice(cut).join("")];
  where.replaceChildren(
    element("span", { className: "start" }, start),
    element("span", { className: "end" }, end),
  );
}

let terms = 0; // hints so far

/**
 * Create a term that is explained in a sentence while the mouse or the focus is on it.
 *
 * @param {string} hint
 * @param {(Node | string)[]} name
 */
export function term(hint, ...name) {
  terms += 1;
  const id = `hint-${terms}`;
  const tip = element("span", { className: "hint", id, role: "tooltip" }, hint);
  const made = element("span", { className: "term", tabIndex: 0, "aria-describedby": id }, ...name);
  made.append(tip);
  return made;
}

/** Return a random id for a new answer; pages served over plain HTTP have no crypto.randomUUID. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/**
 * Resolve after the next frame has been painted, or once the page is visible again.
 *
 * @returns {Promise<void>}
 */
export function painted() {
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}

const HIDDEN = 100; // milliseconds after which no frame is expected, because the page is hidden

/**
 * Resolve as soon as the browser has drawn what has changed, or after a moment if it draws nothing.
 *
 * @returns {Promise<void>}
 */
export function afterDrawing() {
  return new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => done(); // a message from a frame's callback arrives after the drawing
    requestAnimationFrame(() => port2.postMessage(null));
    setTimeout(done, HIDDEN);
  });
}
