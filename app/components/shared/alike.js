// The link from an item to similar items.

/**
 * Return the address of the Find similar page for an item, in the session of the current address.
 *
 * @param {number} item
 */
export function alikeAddress(item) {
  const here = new URLSearchParams(location.search);
  const wanted = new URLSearchParams();
  for (const name of ["project", "session"]) {
    const value = here.get(name);
    if (value) wanted.set(name, value);
  }
  wanted.set("like", String(item));
  return new URL(`similar?${wanted}`, location.href).href;
}
