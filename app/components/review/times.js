// Times as the page says them, in the reader's own time zone; dates as the search takes them.

/** @param {number} number */
const two = (number) => String(number).padStart(2, "0");

/**
 * "14:02", or with its date if that is not today: "2026-11-20 14:02".
 *
 * @param {number} ms
 */
export function clock(ms) {
  const time = new Date(ms);
  const hour = `${two(time.getHours())}:${two(time.getMinutes())}`;
  const sameDay = time.toDateString() === new Date().toDateString();
  return sameDay ? hour : `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${hour}`;
}

/**
 * How long ago: "just now", "12 min ago", "3 h ago", else the date.
 *
 * @param {number} ms
 */
export function ago(ms) {
  const minutes = Math.floor((Date.now() - ms) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  return minutes < 24 * 60 ? `${Math.floor(minutes / 60)} h ago` : clock(ms).slice(0, 10);
}

/**
 * "0.4 s".
 *
 * @param {number} ms
 */
export function seconds(ms) {
  return `${(ms / 1000).toLocaleString("en-US", { maximumFractionDigits: 1, minimumFractionDigits: 1 })} s`;
}
