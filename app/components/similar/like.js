// The query, and the ways to change it: an upload, all yes answers, the item on Label, or a selected one.

import { around, element, newId, part, partsOf, say, targetOf } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { openingOf } from "../shared/text.js";

/** @import { About, Like as Query, Opening } from "../types" */

/** @typedef {{ id: string, name: string, data: string }} Upload */

const LARGEST = 20_000_000; // bytes, the server's limit

export class Like {
  /** @type {HTMLElement} */
  #card;
  /** @type {HTMLInputElement} */
  #file;
  /** @type {(word: string) => void} */
  #ask;
  /** @type {(image: Upload) => void} */
  #upload;
  #picture = "";
  #refusal = "";

  /**
   * Create the controls; `ask(word)` starts another search, `upload(image)` sends an image.
   *
   * @param {HTMLElement} card
   * @param {{ ask: (word: string) => void, upload: (image: Upload) => void, selected: () => void }} calls
   */
  constructor(card, { ask, upload, selected }) {
    this.#card = card;
    this.#file = part(card, ".file");
    this.#ask = ask;
    this.#upload = upload;
    this.#file.addEventListener("change", () => this.#chosen());
    part(card, ".ways").addEventListener("click", (event) => {
      const button = around(targetOf(event), "[data-way]");
      if (!button) return;
      this.#refusal = "";
      const { way } = button.dataset;
      if (way === "upload") this.#openFiles();
      else if (way === "selected") selected();
      else if (way) this.#ask(way);
    });
  }

  /**
   * @param {About} about
   * @param {boolean} canLookForSelected
   */
  show({ like, kind, problem, why_no_upload: whyNoUpload, several }, canLookForSelected) {
    this.#whyNoUpload = whyNoUpload;
    const openings = like?.openings ?? [];
    const pictures = like?.pictures ?? [];
    const written =
      [...pictures, ...openings.map(({ title, text }) => title + text)].map((one) => one.length).join(" ") +
      like?.word;
    if (written !== this.#picture) {
      this.#picture = written;
      const what = part(this.#card, ".what");
      what.dataset.n = String(Math.min(9, pictures.length + openings.length));
      what.dataset.kind = openings.length ? "text" : "image";
      what.replaceChildren(
        ...pictures.map((src) => element("img", { src, alt: "", draggable: false })),
        ...openings.map((opening) => openingOf(openings.length === 1 ? opening : lineOf(opening))),
      );
    }
    say(part(this.#card, ".name"), queryName(like));
    say(part(this.#card, ".trouble"), this.#refusal || problem || "");
    say(part(this.#card, "[data-way=yes] span"), several ? "All yes answers" : "All my yes answers");
    part(this.#card, "[data-way=upload]").hidden = kind !== "image";
    say(part(this.#card, "[data-way=label] span"), `The ${kind} on Label`);
    say(part(this.#card, "[data-way=selected] span"), `The selected ${kind}`);
    const usable = { upload: !whyNoUpload, selected: canLookForSelected };
    for (const [way, is] of Object.entries(usable)) {
      part(this.#card, `[data-way=${way}]`).setAttribute("aria-disabled", String(!is));
    }
    for (const button of partsOf(this.#card, "[data-way]")) {
      button.setAttribute("aria-pressed", String(button.dataset.way === "yes" && like?.word === "yes"));
    }
  }

  /** @type {string | null} */
  #whyNoUpload = null;

  #openFiles() {
    if (this.#whyNoUpload) this.#refuse(this.#whyNoUpload);
    else this.#file.click();
  }

  /** @param {string} sentence */
  #refuse(sentence) {
    this.#refusal = sentence;
    say(part(this.#card, ".trouble"), sentence);
  }

  async #chosen() {
    const file = this.#file.files?.[0];
    this.#file.value = "";
    if (!file) return;
    this.#refusal = "";
    if (file.size > LARGEST) {
      this.#refuse(
        `“${file.name}” can't be used: it is too large (${whole(LARGEST)} bytes at most, got ${whole(file.size)})`,
      );
      return;
    }
    try {
      this.#upload({ id: newId(), name: file.name, data: await base64Of(file) });
    } catch {
      this.#refuse(`“${file.name}” can't be read by this browser`);
    }
  }
}

/**
 * Return a text's preview in one line, for queries of several texts.
 *
 * @param {Opening} opening
 * @returns {Opening}
 */
function lineOf({ title, text }) {
  return { title: "", text: title || text };
}

/** @param {Query | null} like */
export function queryName(like) {
  if (!like) return "";
  if (like.word !== "yes") return like.name;
  if (!like.of) return "";
  const without = like.audited ? `, without ${whole(like.audited)} for the audit` : "";
  return like.n < like.of
    ? `any of ${whole(like.n)} of ${whole(like.of)} yes answers${without}`
    : `any of ${whole(like.of)} yes ${like.of === 1 ? "answer" : "answers"}${without}`;
}

/**
 * @param {File} file
 * @returns {Promise<string>}
 */
function base64Of(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => {
      const address = String(reader.result);
      done(address.slice(address.indexOf(",") + 1));
    };
    reader.onerror = failed;
    reader.readAsDataURL(file);
  });
}
