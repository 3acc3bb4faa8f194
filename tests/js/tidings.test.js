import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Tidings } from "../../app/components/shared/tidings.js";
import { Clock, define } from "./browser.js";

const HTTP = { address: "api/v1/projects/p/sessions/s", key: "k", changes: 4, view: "one", size: null };

/** @type {{ url: string, key: string, signal: AbortSignal, write: (text: string) => void, end: () => void }[]} */
let streams;
/** @type {Record<string, () => void>} */
let listeners;
/** @type {string[]} */
let heard;
let refuses = false;

/** Let streams be read, which takes more turns than promises of our own. */
async function settled() {
  for (let i = 0; i < 10; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

beforeEach(() => {
  streams = [];
  listeners = {};
  heard = [];
  refuses = false;
  define("document", {
    baseURI: "http://here/",
    visibilityState: "visible",
    addEventListener: (name, act) => {
      listeners[name] = act;
    },
  });
  define("fetch", async (url, { headers, signal }) => {
    if (refuses) return { ok: false };
    const encoder = new TextEncoder();
    let control;
    const body = new ReadableStream({
      start: (one) => {
        control = one;
      },
    });
    signal.addEventListener("abort", () => control.error(new DOMException("aborted", "AbortError")));
    streams.push({
      url: String(url),
      key: headers["X-Closecall-Page"],
      signal,
      write: (text) => control.enqueue(encoder.encode(text)),
      end: () => control.close(),
    });
    return { ok: true, body };
  });
});

test("events are heard one by one, however they are cut into pieces", async () => {
  new Tidings((kind) => heard.push(kind)).listen(HTTP);
  await settled();
  assert.equal(streams[0].url, "http://here/api/v1/projects/p/events?changes=4");
  assert.equal(streams[0].key, "k");
  streams[0].write(": connected\n\nevent: po");
  streams[0].write('ol\ndata: {"items": 7}\n\n: still here\n\nevent: index\ndata: {}\n');
  await settled();
  assert.deepEqual(heard, ["pool"]);
  streams[0].write("\n");
  await settled();
  assert.deepEqual(heard, ["pool", "index"]);
});

test("a tab that is not in view does not listen", async () => {
  new Tidings((kind) => heard.push(kind)).listen(HTTP);
  await settled();
  document.visibilityState = "hidden";
  listeners.visibilitychange();
  assert.equal(streams[0].signal.aborted, true);
  document.visibilityState = "visible";
  listeners.visibilitychange();
  await settled();
  assert.equal(streams.length, 2);
});

test("a stream that ends is opened again after a pause, and none is opened twice", async () => {
  const tidings = new Tidings(() => {});
  tidings.listen(HTTP);
  await settled();
  const clock = new Clock();
  streams[0].end();
  await settled();
  tidings.listen(HTTP);
  await clock.pass(900);
  assert.equal(streams.length, 1);
  await clock.pass(200);
  await settled();
  assert.equal(streams.length, 2);
});

test("after the page is closed, or without an address, nothing is listened to", async () => {
  const tidings = new Tidings(() => {});
  tidings.listen(null);
  await settled();
  assert.equal(streams.length, 0);
  tidings.listen(HTTP);
  await settled();
  tidings.close();
  assert.equal(streams[0].signal.aborted, true);
});

test("each connection says how many changes the page knows of; a missed event counts as a change", async () => {
  const tidings = new Tidings((kind) => heard.push(kind));
  tidings.listen(HTTP);
  await settled();
  const again = async () => {
    document.visibilityState = "hidden";
    listeners.visibilitychange();
    document.visibilityState = "visible";
    listeners.visibilitychange();
    await settled();
    return new URL(streams.at(-1).url).searchParams.get("changes");
  };
  streams[0].write('event: concept\ndata: {"concept": 1, "changes": 5}\n\nevent: index\ndata: {}\n\n');
  await settled();
  assert.equal(await again(), "5");
  streams[1].write('event: missed\ndata: {"changes": 9}\n\n');
  await settled();
  assert.deepEqual(heard, ["concept", "index", "concept"]);
  tidings.listen({ ...HTTP }); // a payload that is shown again
  assert.equal(await again(), "9");
  tidings.listen({ ...HTTP, changes: 11 });
  assert.equal(await again(), "11");
});
