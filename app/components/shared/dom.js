// Small helpers to build the card's elements. Names and questions come from people: always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties, and children that are elements or text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

/** An SVG element with attributes. */
export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** One of the symbols that card.html defines. */
export function glyph(symbol, className = "glyph") {
  return drawn("svg", { class: className, "aria-hidden": "true" }, drawn("use", { href: `#${symbol}` }));
}

/** Set an element's text, touching the page only where it changes. */
export function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

/** An identifier for a new answer; pages served over plain HTTP have no crypto.randomUUID. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** After the next frame has been painted, or as soon as the page is in view again. */
export function painted() {
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}
