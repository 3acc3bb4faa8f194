// Mounts a component: Streamlit calls its module's default function with each payload. State that must outlive
// such a call is kept by the root of the component's shadow tree.

import { dropKeys } from "./keys.js";

/** @import { Component, Mounted } from "../types" */

/** @type {WeakMap<ShadowRoot, object>} */
const mounted = new WeakMap();

/**
 * Return the function that Streamlit calls: it makes one `Made` for each root, and passes it each payload.
 *
 * Streamlit calls the returned cleanup when the component is removed. It also does so for a payload that was
 * replaced while the module was loading, after the next payload is shown: then the component stays.
 *
 * @template Data
 * @param {new (root: ShadowRoot, component: Component<Data>) => Mounted<Data>} Made
 * @returns {(component: Component<Data>) => () => void}
 */
export function mounting(Made) {
  /** @type {WeakMap<object, Component<Data>>} */
  const newest = new WeakMap();
  return (component) => {
    const root = component.parentElement;
    const before = mounted.get(root);
    const shown = before instanceof Made ? before : new Made(root, component);
    mounted.set(root, shown);
    newest.set(shown, component);
    shown.update(component);
    return () => {
      if (newest.get(shown) !== component) return;
      shown.close();
      dropKeys(shown);
      if (mounted.get(root) === shown) mounted.delete(root);
    };
  };
}
