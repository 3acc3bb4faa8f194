// Mounting of components. Streamlit calls the default function of a component's module with each payload. State that
// must outlive a call is kept by the root of the component's shadow tree.

import { dropKeys } from "./keys.js";
import { applySize } from "./size.js";

/** @import { Component, Mounted } from "../types" */

/**
 * A mounted component and its last two payloads.
 *
 * @typedef {{ shown: Mounted<any>, payloads: Component<any>[] }} Place
 */

/** @type {WeakMap<ShadowRoot, Place>} */
const places = new WeakMap();

/**
 * Return the function that Streamlit calls, which creates one `Made` per root and passes it each payload.
 *
 * Streamlit calls the returned cleanup after it has removed the root. It also does so for a payload that another
 * one replaced while the module was loading. The two calls may then come in either order, so the component goes
 * back to the payload that was not replaced.
 *
 * @template Data
 * @param {new (root: ShadowRoot, component: Component<Data>) => Mounted<Data>} Made
 * @returns {(component: Component<Data>) => () => void}
 */
export function mounting(Made) {
  return (component) => {
    const root = component.parentElement;
    const before = places.get(root);
    const place = before?.shown instanceof Made ? before : { shown: new Made(root, component), payloads: [] };
    places.set(root, place);
    place.payloads = [...place.payloads.slice(-1), component];
    place.shown.update(component);
    applySize(root.host);
    return () => {
      if (root.isConnected) withdraw(place, component);
      else close(root, place);
    };
  };
}

/**
 * @param {Place} place
 * @param {Component<any>} component
 */
function withdraw(place, component) {
  const isInView = place.payloads.at(-1) === component;
  place.payloads = place.payloads.filter((payload) => payload !== component);
  const valid = place.payloads.at(-1);
  if (isInView && valid) place.shown.update(valid);
}

/**
 * @param {ShadowRoot} root
 * @param {Place} place
 */
function close(root, place) {
  place.shown.close();
  dropKeys(place.shown);
  if (places.get(root) === place) places.delete(root);
}
