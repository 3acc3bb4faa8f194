import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

import { Line, PAUSES } from "../../app/components/shared/line.js";

const HTTP = { address: "api/v1/projects/p/sessions/s", key: "key 1", view: "one", size: null };

/** @type {{ url: string, options: any, reply: (response: any) => void, cut: () => void }[]} */
let requests;
/** @type {any[]} */
let scripts;
/** @type {any[]} */
let shown;
/** @type {any[]} */
let pending;
let clock = 0;
let isUrgent = false;

const payload = (number, more = {}) => ({
  session: "s",
  stamp: { process: "a", number },
  acked: [],
  refused: [],
  message: null,
  item: { selection: `selection ${number}` },
  http: HTTP,
  ...more,
});
const answer = (id) => ({ id, session: "s" });
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Respond to the last request. */
async function reply(body, { status = 200, type = "application/json" } = {}) {
  const response = {
    ok: status < 300,
    status,
    headers: new Map([["content-type", type]]),
    json: async () => body,
  };
  requests.at(-1)?.reply(response);
  await settled();
}

const PROBLEM = { type: "application/problem+json" };

function open(first = payload(1)) {
  const line = new Line(first, {
    pending: () => pending,
    script: (answers) => scripts.push(answers.map(({ id }) => id)),
    show: (data) => {
      shown.push(data);
      pending = pending.filter(({ id }) => !data.acked.includes(id));
    },
    isUrgent: () => isUrgent,
  });
  return line;
}

const give = (line, id) => {
  pending.push(answer(id));
  line.send([...pending]);
};
const sent = () => requests.map(({ options }) => JSON.parse(options.body).answers.map(({ id }) => id));

beforeEach(() => {
  requests = [];
  scripts = [];
  shown = [];
  pending = [];
  clock = 1000;
  isUrgent = false;
  mock.restoreAll();
  mock.method(performance, "now", () => clock);
  globalThis.document = /** @type {any} */ ({ baseURI: "http://here/prefix/" });
  globalThis.fetch = /** @type {any} */ (
    (url, options) =>
      new Promise((resolve, reject) => {
        requests.push({ url: String(url), options, reply: resolve, cut: () => reject(new TypeError("cut")) });
      })
  );
});

test("an answer goes out by a request, and what comes back is shown", async () => {
  const line = open();
  give(line, "1");
  assert.equal(requests[0].url, "http://here/prefix/api/v1/projects/p/sessions/s/card");
  assert.equal(requests[0].options.headers["X-Closecall-Page"], "key 1");
  await reply(payload(2, { acked: ["1"], http: undefined }));
  assert.deepEqual(shown[0].acked, ["1"]);
  assert.equal(shown[0].http, HTTP);
  assert.deepEqual(scripts, []);
});

test("an answer given during a request goes out right after it, and only once", async () => {
  const line = open();
  give(line, "1");
  give(line, "2");
  give(line, "3");
  assert.deepEqual(sent(), [["1"]]);
  await reply(payload(2, { acked: ["1"] }));
  assert.deepEqual(sent(), [["1"], ["2", "3"]]);
  await reply(payload(3, { acked: ["2", "3"] }));
  assert.equal(requests.length, 2);
});

test("a person who waits for an item does not wait for the items that may follow the last one", async () => {
  const line = open();
  give(line, "1");
  isUrgent = true;
  give(line, "2");
  give(line, "3");
  assert.deepEqual(sent(), [["1"], ["1", "2"]]); // one request more, and no third
  assert.deepEqual(
    requests.map(({ options }) => JSON.parse(options.body).wait),
    [undefined, 0],
  );
  const [first] = requests;
  await reply(payload(3, { acked: ["1", "2"] }));
  assert.deepEqual(sent().at(-1), ["3"]);
  await reply(payload(4, { acked: ["3"] }));
  requests.push(first);
  await reply(payload(2, { acked: ["1"] })); // the first, which was made earlier, comes last
  assert.equal(requests.length, 4);
  assert.equal(shown.at(-1).stamp.number, 4);
  assert.deepEqual(pending, []);
});

test("two requests that are cut off together are one failure", async () => {
  const line = open();
  give(line, "1");
  isUrgent = true;
  give(line, "2");
  for (const { cut } of requests) cut();
  await settled();
  assert.equal(line.isOpen, false);
  clock += PAUSES[0];
  assert.equal(line.isOpen, true);
  assert.equal(pending.length, 2);
});

test("an answer that is not acknowledged is left to the outbox", async () => {
  const line = open();
  give(line, "1");
  await reply(payload(2));
  assert.equal(requests.length, 1);
  assert.equal(pending.length, 1);
});

test("where requests are cut off, the script runs, and requests are tried again after a pause", async () => {
  const line = open();
  give(line, "1");
  requests[0].cut();
  await settled();
  assert.deepEqual(scripts, [["1"]]);
  assert.equal(line.isOpen, false);
  give(line, "2");
  assert.deepEqual(scripts, [["1"], ["1", "2"]]);
  clock += PAUSES[0];
  line.send([...pending]);
  requests[1].cut();
  await settled();
  clock += PAUSES[0];
  assert.equal(line.isOpen, false); // the second pause is longer
  clock += PAUSES[1];
  assert.equal(line.isOpen, true);
});

test("the page of a proxy is no payload", async () => {
  for (const [status, ok] of [
    [403, false],
    [502, false],
    [200, true],
  ]) {
    scripts = [];
    pending = [];
    const line = open();
    give(line, "1");
    requests.at(-1)?.reply({
      ok,
      status,
      headers: new Map([["content-type", "text/html"]]),
      json: async () => JSON.parse("<html>"),
    });
    await settled();
    assert.deepEqual(scripts, [["1"]]);
    assert.deepEqual(shown, []);
  }
});

test("a key that the server does not know is not used again", async () => {
  const line = open();
  give(line, "1");
  await reply({ detail: "expired" }, { status: 401, ...PROBLEM });
  assert.deepEqual(scripts, [["1"]]);
  clock += 1e6;
  assert.equal(line.isOpen, false);
  line.take(payload(2, { http: { ...HTTP, key: "key 2" } }));
  line.send([...pending]);
  assert.equal(requests.at(-1)?.options.headers["X-Closecall-Page"], "key 2");
});

test("the page says that the database is in trouble, and the answers wait", async () => {
  const line = open();
  give(line, "1");
  await reply({ detail: "The disk is full" }, { status: 503, ...PROBLEM });
  assert.equal(shown[0].message, "The disk is full");
  assert.equal(shown[0].item.selection, "selection 1");
  assert.deepEqual(scripts, []);
  assert.equal(pending.length, 1);
});

test("a payload of the script that was made earlier does not replace a later one", async () => {
  const line = open();
  give(line, "1");
  await reply(payload(5, { acked: ["1"] }));
  const late = line.take(payload(3, { acked: ["0"], http: { ...HTTP, key: "key 2" } }));
  assert.equal(late.item.selection, "selection 5");
  assert.deepEqual(late.acked, ["0"]);
  assert.equal(late.http?.key, "key 2");
  const other = line.take(payload(1, { stamp: { process: "b", number: 1 } }));
  assert.equal(other.item.selection, "selection 1"); // the server was restarted
});

test("the items that may follow are shown once they come, unless another item is in view by then", async () => {
  const line = open();
  const first = line.awaitAhead("selection 1");
  assert.match(requests[0].url, /ahead\?selection=selection\+1&known=0&view=one$/);
  await reply({ selection: "selection 1", next: { yes: {} }, pictures: {}, next_is_coming: false });
  assert.equal(await first, true);
  assert.deepEqual(shown[0].next, { yes: {} });
  assert.equal(shown[0].item.selection, "selection 1");

  const second = line.awaitAhead("selection 1");
  line.take(payload(2));
  await reply({ selection: "selection 1", next: { no: {} }, pictures: {}, next_is_coming: false });
  assert.equal(await second, true);
  assert.equal(shown.length, 1);
});

test("if the items that may follow can't be had, the card asks in another way", async () => {
  const line = open();
  const asked = line.awaitAhead("selection 1");
  requests[0].cut();
  assert.equal(await asked, false);
  assert.equal(await open(payload(1, { http: null })).awaitAhead("selection 1"), false);
});

test("after the page is closed, nothing is shown", async () => {
  const line = open();
  give(line, "1");
  line.close();
  await reply(payload(2, { acked: ["1"] }));
  assert.deepEqual(shown, []);
  assert.deepEqual(scripts, []);
});
