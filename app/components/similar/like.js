// What is looked for, and the ways to another: an upload, all yes answers, the item on Label, a selected one.

import { element, newId, say } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { openingOf } from "../shared/text.js";

const LARGEST = 20_000_000; // bytes; the server takes no more

export class Like {
  #card;
  #file;
  #ask;
  #upload;
  #picture = "";
  #refusal = "";

  /** `ask(word)` looks for something else, `upload(image)` sends one. */
  constructor(card, { ask, upload, selected }) {
    this.#card = card;
    this.#file = card.querySelector(".file");
    this.#ask = ask;
    this.#upload = upload;
    this.#file.addEventListener("change", () => this.#chosen());
    card.querySelector(".ways").addEventListener("click", (event) => {
      const button = event.target.closest("[data-way]");
      if (!button) return;
      this.#refusal = "";
      const { way } = button.dataset;
      if (way === "upload") this.#openFiles();
      else if (way === "selected") selected();
      else this.#ask(way);
    });
  }

  show({ like, kind, problem, why_no_upload: whyNoUpload, several }, canLookForSelected) {
    this.#whyNoUpload = whyNoUpload;
    const openings = like?.openings ?? [];
    const pictures = like?.pictures ?? [];
    const written =
      [...pictures, ...openings.map(({ title, text }) => title + text)].map((one) => one.length).join(" ") +
      like?.word;
    if (written !== this.#picture) {
      this.#picture = written;
      const what = this.#card.querySelector(".what");
      what.dataset.n = String(Math.min(9, pictures.length + openings.length));
      what.dataset.kind = openings.length ? "text" : "image";
      what.replaceChildren(
        ...pictures.map((src) => element("img", { src, alt: "", draggable: false })),
        ...openings.map((opening) => openingOf(openings.length === 1 ? opening : lineOf(opening))),
      );
    }
    say(this.#card.querySelector(".name"), queryName(like));
    say(this.#card.querySelector(".trouble"), this.#refusal || problem || "");
    say(this.#card.querySelector("[data-way=yes] span"), several ? "All yes answers" : "All my yes answers");
    this.#card.querySelector("[data-way=upload]").hidden = kind !== "image";
    say(this.#card.querySelector("[data-way=label] span"), `The ${kind} on Label`);
    say(this.#card.querySelector("[data-way=selected] span"), `The selected ${kind}`);
    const usable = { upload: !whyNoUpload, selected: canLookForSelected };
    for (const [way, is] of Object.entries(usable)) {
      this.#card.querySelector(`[data-way=${way}]`).setAttribute("aria-disabled", String(!is));
    }
    for (const button of this.#card.querySelectorAll("[data-way]")) {
      button.setAttribute("aria-pressed", String(button.dataset.way === "yes" && like?.word === "yes"));
    }
  }

  #whyNoUpload = null;

  #openFiles() {
    if (this.#whyNoUpload) this.#refuse(this.#whyNoUpload);
    else this.#file.click();
  }

  #refuse(sentence) {
    this.#refusal = sentence;
    say(this.#card.querySelector(".trouble"), sentence);
  }

  async #chosen() {
    const [file] = this.#file.files;
    this.#file.value = "";
    if (!file) return;
    this.#refusal = "";
    if (file.size > LARGEST) {
      this.#refuse(
        `“${file.name}” can't be used: it has ${whole(file.size)} bytes, and at most ${whole(LARGEST)} are taken`,
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

/** One of several: a line is all that it gets. */
function lineOf({ title, text }) {
  return { title: "", text: title || text };
}

function queryName(like) {
  if (!like) return "";
  if (like.word !== "yes") return like.name;
  if (!like.of) return "";
  return like.n < like.of
    ? `any of ${whole(like.n)} of ${whole(like.of)} yes answers`
    : `any of ${whole(like.of)} yes ${like.of === 1 ? "answer" : "answers"}`;
}

function base64Of(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = failed;
    reader.readAsDataURL(file);
  });
}
