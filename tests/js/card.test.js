// The card's rules, held to the cases that also hold for the simulated pages of `closecall bench team`
// (tests/unit/app/experiments/bench/team/test_card.py).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { Flow, POLL, POLL_AHEAD } from "../../app/components/label/flow.js";
import { RETRIES } from "../../app/components/shared/outbox.js";
import { Clock, settled, useStore } from "./browser.js";

const { cases, ...pauses } = JSON.parse(
  readFileSync(new URL("../fixtures/card.json", import.meta.url), "utf-8"),
);

/** An item as the server sends it. */
const itemOf = (id) => ({ id, selection: `s${id}`, alt: `item ${id}` });

/** The views that may follow, as the server sends them. */
function viewsOf({ next = {}, no_picture: dark = [] }) {
  const views = Object.entries(next).map(([word, id]) => [word, { item: itemOf(id), round: 1, notes: {} }]);
  const pictures = Object.values(next).map((id) => [id, dark.includes(id) ? "" : `picture ${id}`]);
  return { next: Object.fromEntries(views), pictures: Object.fromEntries(pictures) };
}

/** A page with the card, over a browser's store. */
class Page {
  #flow = null;
  #data = null;
  #page = {
    send: () => {
      this.sends += 1;
    },
    picture: () => ({ decode: async () => {} }),
  };
  given = [];
  sends = 0;

  constructor() {
    this.load();
  }

  load() {
    this.sends = 0;
    this.#flow = null;
  }

  async hear({
    project = "p",
    session = "s",
    item,
    selection = `s${item}`,
    next = {},
    no_picture: dark = [],
    acked = [],
    refused = [],
    ...more
  }) {
    const data = {
      ...{ project, session, round: 1, notes: {}, history: {}, concept: {}, message: null },
      ...{ waiting: null, next_is_coming: false, ...more },
      item: item === null ? null : { ...itemOf(item), selection, src: `picture ${item}` },
      ...viewsOf({ next, no_picture: dark }),
      acked: acked.map((i) => this.given[i]),
      refused: refused.map((i) => ({ id: this.given[i], reason: "No." })),
    };
    if (!this.#flow) this.#flow = new Flow(data, this.#page);
    else if (session !== this.#flow.session) this.#flow.begin(data);
    await this.#take(data);
  }

  /** The views that may follow come later, as part of a payload (shared/line.js). */
  async hearAhead(part) {
    const { next, pictures } = viewsOf(part);
    const { next_is_coming = false } = part;
    await this.#take({ ...this.#data, next, pictures, next_is_coming, acked: [], refused: [] });
  }

  async #take(data) {
    this.#data = data;
    this.#flow.settle(data);
    this.#flow.take(data);
    this.#flow.lookAhead();
    await settled();
  }

  answer(word, group) {
    const following = this.#flow.answer({ answer: word }, word, 700, group);
    this.given.push(this.last.id);
    return following !== null;
  }

  get last() {
    return this.#flow.outbox.queue.pending.at(-1);
  }

  look() {
    const { item, isOpen, outbox, pollAfter, awaitsAhead } = this.#flow;
    const { pending } = outbox.queue;
    return {
      in_view: item?.id ?? null,
      open: isOpen,
      waiting: pending.map(({ item, answer, next }) => [
        item,
        answer,
        next === null ? null : Number(next.slice(1)),
      ]),
      sends: this.sends,
      asks_after: pollAfter,
      awaits_ahead: awaitsAhead,
      store: Object.keys(localStorage),
    };
  }
}

for (const { promise, steps } of cases) {
  test(promise, async () => {
    new Clock();
    useStore();
    const page = new Page();
    for (const [i, { server, ahead, answer, reload, followed, ...expected }] of steps.entries()) {
      if (reload) page.load();
      if (server) await page.hear(server);
      if (ahead) await page.hearAhead(ahead);
      if (answer) assert.equal(page.answer(answer), followed ?? false, `step ${i}`);
      if (reload) continue;
      const seen = page.look();
      if (expected.store) expected.store = expected.store.map((key) => key.replace("{0}", page.given[0]));
      for (const [name, value] of Object.entries(expected))
        assert.deepEqual(seen[name], value, `step ${i}: ${name}`);
    }
  });
}

test("an answer about near-duplicates names the others, and the server chooses what follows", async () => {
  new Clock();
  useStore();
  const page = new Page();
  await page.hear({ item: 1, next: { yes: 2, no: 3 } });
  assert.equal(page.answer("yes", [5]), false);
  assert.deepEqual([page.last.item, page.last.group, page.last.next], [1, [5], null]);
  assert.equal(page.look().open, false);
  await page.hear({ item: 6, next: { yes: 7, no: 7 }, acked: [0] });
  assert.equal(page.answer("yes"), true);
  assert.equal("group" in page.last, false);
});

test("a card whose pictures of near-duplicates are being drawn asks for them", async () => {
  new Clock();
  useStore();
  const page = new Page();
  await page.hear({ item: 1, group: { selection: "s1", members: [], more: [], is_coming: true } });
  assert.equal(page.look().asks_after, POLL_AHEAD);
  await page.hear({
    item: 1,
    group: { selection: "s1", members: [{ id: 2, src: "" }], more: [], is_coming: false },
  });
  assert.equal(page.look().asks_after, null);
});

test("the pauses are those of the simulated browsers", () => {
  assert.deepEqual({ retry_ms: RETRIES, poll_ms: POLL, poll_ahead_ms: POLL_AHEAD }, pauses);
});
