// The way from an item to what is like it.

/**
 * Where the Find similar page looks for it, in the session that the address names.
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
