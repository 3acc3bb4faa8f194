// Times in the reader's time zone, as the page shows them, with dates in the format of the search.

/** @param {number} number */
const two = (number) => String(number).padStart(2, "0");

/**
 * Format a time, with its date unless that is today: "14:02", "2026-11-20 14:02".
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
 * Format the time since a moment: "just now", "12 min ago", "3 h ago", or the date if it is longer ago.
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
 * Format milliseconds as seconds: "0.4 s".
 *
 * @param {number} ms
 */
export function seconds(ms) {
  return `${(ms / 1000).toLocaleString("en-US", { maximumFractionDigits: 1, minimumFractionDigits: 1 })} s`;
}
