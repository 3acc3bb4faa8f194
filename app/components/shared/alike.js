// The way from an item to what is like it.

/** Where the Find similar page looks for it, in the session that the address names. */
export function alikeAddress(item) {
  const here = new URLSearchParams(location.search);
  const wanted = ["project", "session"].flatMap((name) => (here.get(name) ? [[name, here.get(name)]] : []));
  return new URL(`similar?${new URLSearchParams([...wanted, ["like", item]])}`, location.href).href;
}
