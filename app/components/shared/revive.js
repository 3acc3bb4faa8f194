// A page whose server was started again may be connected, and yet never be heard: the part of it that speaks is
// not known there. Loaded anew it is heard, and what waits to be saved is in the browser's store.

// Milliseconds.
const PATIENCE = 25_000; // of silence, although the server is there
const APART = 60_000; // never loaded again sooner

const LAST = "marginalia revived";

/** Load the page anew, if answers of `queue` wait since the server was last `heardAt`; only where they outlive that. */
export async function revive(queue, heardAt) {
  const isSilent = queue.own.length && performance.now() - heardAt > PATIENCE;
  if (!isSilent || !queue.durable || Date.now() - Number(sessionStorage.getItem(LAST)) < APART) return;
  if (!(await isThere()) || !queue.own.length) return;
  sessionStorage.setItem(LAST, String(Date.now()));
  location.reload();
}

async function isThere() {
  try {
    return (await fetch("healthz", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
