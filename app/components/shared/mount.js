// How a component comes into the page: Streamlit calls its module's default function with each payload. What must
// outlive such a call is kept by the root of the component's shadow tree.

/** @import { Component, Mounted } from "../types" */

/** @type {WeakMap<ShadowRoot, object>} */
const mounted = new WeakMap();

/**
 * What Streamlit calls: it makes one `Made` for each root, and hands it each payload.
 *
 * @template Data
 * @param {new (root: ShadowRoot, component: Component<Data>) => Mounted<Data>} Made
 * @returns {(component: Component<Data>) => () => void} What it returns is called when the component goes.
 */
export function mounting(Made) {
  return (component) => {
    const root = component.parentElement;
    const before = mounted.get(root);
    const shown = before instanceof Made ? before : new Made(root, component);
    mounted.set(root, shown);
    shown.update(component);
    return () => {
      shown.close();
      if (mounted.get(root) === shown) mounted.delete(root);
    };
  };
}
