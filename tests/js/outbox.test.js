import assert from "node:assert/strict";
import test from "node:test";
import { Outbox, RETRIES } from "../../app/components/shared/outbox.js";
import { Queue } from "../../app/components/shared/queue.js";
import { Clock, define, Store, settled, useStore } from "./browser.js";

const ids = (answers) => answers.map(({ id }) => id);

/** An outbox with nobody who hears it, unless the test settles something. */
function open({ session = "s", server = false } = {}) {
  const clock = new Clock();
  const sent = [];
  const reloads = [];
  define("sessionStorage", new Store());
  define("location", { reload: () => reloads.push(clock.now) });
  define("fetch", async () => {
    if (!server) throw new TypeError("Failed to fetch");
    return { ok: true };
  });
  const began = clock.now;
  const outbox = new Outbox("p", session, (answers) =>
    sent.push({ at: clock.now - began, ids: ids(answers) }),
  );
  return { clock, sent, reloads, outbox };
}

test("an answer is handed over again and again until the server has it", async () => {
  useStore();
  const { clock, sent, outbox } = open();
  const id = outbox.add({ item: 1, answer: "yes" });
  await clock.pass(30_000);
  const due = [0, 2000, 5000, 10_000, 18_000, 26_000];
  assert.deepEqual(
    sent,
    due.map((at) => ({ at, ids: [id] })),
  );
  assert.deepEqual(RETRIES, [2000, 3000, 5000, 8000]);
  outbox.settle([id], []);
  await clock.pass(60_000);
  assert.equal(sent.length, due.length);
  assert.deepEqual(Object.keys(localStorage), []);
});

test("an answer that was lost is tried again after two seconds, whatever was saved before", async () => {
  useStore();
  const { clock, sent, outbox } = open();
  const saved = outbox.add({ item: 1, answer: "yes" });
  await clock.pass(100);
  outbox.settle([saved], []);
  await clock.pass(60_000);
  outbox.add({ item: 2, answer: "no" });
  await clock.pass(2000);
  const last = sent.slice(-2).map(({ at }) => at);
  assert.equal(last[1] - last[0], 2000);
});

test("a lost message loses nothing: what is handed over is always all that waits, in order", async () => {
  useStore();
  const { clock, sent, outbox } = open();
  const [one] = outbox.addAll([{ item: 1 }]);
  const [two, three] = outbox.addAll([{ item: 2 }, { item: 3 }]);
  assert.deepEqual(sent.at(-1).ids, [one, two, three]);
  outbox.settle([two], []);
  await clock.pass(2000);
  assert.deepEqual(sent.at(-1).ids, [one, three]);
});

test("after a reload the page hands over what it had left", () => {
  useStore();
  const id = open().outbox.add({ item: 1 });
  const { sent } = open();
  assert.deepEqual(sent, [{ at: 0, ids: [id] }]);
});

test("what a former version left over is handed over at once, and only until it is settled", async () => {
  const entry = { place: 0, answer: { id: "old", item: 7, session: "s" } };
  useStore(new Store({ "marginalia/p/s/old": JSON.stringify(entry) }));
  const { clock, sent, outbox } = open();
  assert.deepEqual(sent, [{ at: 0, ids: ["old"] }]);
  outbox.settle(["old"], []);
  await clock.pass(60_000);
  assert.equal(sent.length, 1);
  assert.deepEqual(open().sent, []);
});

test("what another session left over is tried four times, and kept", async () => {
  const store = useStore();
  new Queue("p", "before").add({ id: "old" });
  const { clock, sent } = open();
  await clock.pass(600_000);
  assert.equal(sent.length, RETRIES.length);
  assert.equal(Object.keys(store).length, 1);
});

test("a refused answer is reported once and never sent again", async () => {
  useStore();
  const { clock, sent, outbox } = open();
  const [bad, good] = outbox.addAll([{ item: 1 }, { item: 2 }]);
  const refused = [{ id: bad, reason: "There is no such item." }];
  assert.deepEqual([...outbox.settle([], refused)], [[bad, "There is no such item."]]);
  assert.deepEqual([...outbox.settle([], refused)], []);
  await clock.pass(2000);
  assert.ok(sent.slice(1).length >= 2);
  for (const { ids } of sent.slice(1)) assert.deepEqual(ids, [good]);
});

test("every answer says when it was given, and names what it is about or null", () => {
  useStore();
  const { clock, outbox } = open();
  outbox.add({ item: 1, answer: "undo", undoes: "x" });
  const [answer] = outbox.queue.pending;
  const { id, ...rest } = answer;
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const blank = { selection: null, corrects: null, time_taken_ms: null };
  assert.deepEqual(rest, {
    ...blank,
    browser_time: clock.now,
    item: 1,
    answer: "undo",
    undoes: "x",
    session: "s",
  });
});

test("the page says what is not saved: nothing at first, then where it waits, then why it can't be saved", async () => {
  const store = useStore();
  const { clock, outbox } = open();
  assert.equal(outbox.sentence(null), "");
  outbox.add({ item: 1 });
  await clock.pass(900);
  assert.equal(outbox.sentence(null), "");
  await clock.pass(200);
  assert.equal(outbox.sentence(null), "1 answer waits in this browser");
  store.fill();
  outbox.add({ item: 2 });
  await clock.pass(5000);
  assert.equal(
    outbox.sentence(null),
    "No connection to the server. 2 answers wait in this tab: keep it open.",
  );
  assert.match(outbox.sentence("The disk is full"), /^The disk is full\. 2 answers/);
});

test("a page that does not reach its server is reloaded, once, where its answers survive that", async () => {
  useStore();
  const { clock, reloads, outbox } = open({ server: true });
  outbox.add({ item: 1 });
  await clock.pass(50_000);
  await settled();
  assert.equal(reloads.length, 1);
  assert.ok(reloads[0] - 1_700_000_000_000 >= 25_000);
  const lost = open({ server: true });
  localStorage.fill();
  lost.outbox.add({ item: 2 });
  await lost.clock.pass(200_000);
  assert.deepEqual(lost.reloads, []);
});

test("a page whose server is gone waits for it", async () => {
  useStore();
  const { clock, reloads, outbox } = open();
  outbox.add({ item: 1 });
  await clock.pass(300_000);
  assert.deepEqual(reloads, []);
});

test("a closed outbox hands over nothing more", async () => {
  useStore();
  const { clock, sent, outbox } = open();
  outbox.add({ item: 1 });
  outbox.close();
  await clock.pass(60_000);
  assert.equal(sent.length, 1);
});
