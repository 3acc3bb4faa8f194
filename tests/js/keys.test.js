import assert from "node:assert/strict";
import test from "node:test";
import { Finder } from "../../app/components/grid/finder.js";
import { Choices } from "../../app/components/label/choices.js";
import {
  hasKeys,
  isField,
  isShortcut,
  mayClose,
  takeKeys,
  takesEnter,
  takeTyped,
  watchFind,
} from "../../app/components/shared/keys.js";
import { keysOf } from "../../app/components/similar/help.js";
import { Clock, define, Part, press } from "./browser.js";

test("keys with modifiers are left to the browser, and those of an input method to it", () => {
  for (const modifier of ["ctrlKey", "metaKey", "altKey", "isComposing"]) {
    assert.equal(isShortcut(press("y", undefined, { [modifier]: true })), true, modifier);
  }
  assert.equal(isShortcut(press("y")), false);
  assert.equal(isShortcut(press("Y", undefined, { shiftKey: true })), false, "Shift is a part of letters");
});

test("what is typed into a field is the field's", () => {
  const fields = [
    new Part("textarea"),
    new Part("select"),
    new Part("input"),
    new Part("input", { type: "range" }),
    new Part("input", { type: "radio" }),
    new Part("div", { contenteditable: "true" }),
    new Part("span", {}, new Part("div", { role: "combobox" })),
    new Part("div", { role: "slider" }),
    new Part("li", {}, new Part("ul", { role: "listbox" })),
    new Part("p", {}, new Part("div", { role: "radiogroup" })),
  ];
  for (const field of fields) assert.equal(isField(press("y", field)), true, field.tag);
});

test("keys anywhere else are the page's", () => {
  const others = [
    new Part("body"),
    new Part("button"),
    new Part("input", { type: "checkbox" }),
    new Part("input", { type: "button" }),
    new Part("input", { type: "submit" }),
    new Part("input", { type: "file" }),
    {}, // the document, which has no `closest`
  ];
  for (const other of others) assert.equal(isField(press("y", other)), false);
  assert.equal(isField({ composedPath: () => [] }), false);
});

test("Enter is for the control that has the focus, and otherwise for the page", () => {
  for (const tag of ["button", "a", "summary"]) {
    assert.equal(takesEnter(press("Enter", new Part("span", {}, new Part(tag)))), true, tag);
  }
  for (const other of [new Part("body"), new Part("section"), {}]) {
    assert.equal(takesEnter(press("Enter", other)), false);
  }
});

test("the component that came last has the keys", () => {
  define("document", {});
  const [one, other] = [{}, {}];
  takeKeys(one);
  takeKeys(other);
  assert.deepEqual([hasKeys(one), hasKeys(other)], [false, true]);
});

test("Enter, Escape and a click on an option may close a picker; a click beside may not", () => {
  assert.equal(mayClose(press("Enter")), true);
  assert.equal(mayClose(press("Escape")), true);
  assert.equal(mayClose(press("n")), false);
  assert.equal(mayClose({ composedPath: () => [{}, { role: "option" }] }), true);
  assert.equal(mayClose({ composedPath: () => [{}, { role: "radio" }] }), true);
  assert.equal(mayClose({ composedPath: () => [{}, { role: "dialog" }] }), false);
});

test("yes and no have a letter and an arrow, in either case; other keys answer nothing", () => {
  const choices = new Choices(null);
  const meant = { yes: ["y", "Y", "ArrowRight"], no: ["n", "N", "ArrowLeft"], skip: ["s", "ArrowDown"] };
  Object.assign(meant, { unsure: ["m", "ArrowUp"], undo: ["u", "Backspace"] });
  for (const [action, keys] of Object.entries(meant)) {
    for (const key of keys) assert.equal(choices.byKey(key), action, key);
  }
  const letters = Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i));
  assert.deepEqual(
    letters.filter((key) => choices.byKey(key)),
    ["m", "n", "s", "u", "y"],
  );
  for (const key of ["Enter", " ", "Tab", "Escape", "1", "?", "F5", "Dead"]) {
    assert.equal(choices.byKey(key), undefined, key);
  }
});

test("the help card names each key that answers", () => {
  const choices = new Choices(null);
  const named = choices.keys({ has_groups: true }).flatMap(([keys]) => keys);
  for (const key of ["Y", "→", "N", "←", "S", "↓", "M", "↑", "U", "Z", "⇧N"])
    assert.ok(named.includes(key), key);
  assert.ok(!choices.keys({ has_groups: false }).some(([keys]) => keys.includes("⇧N")));
});

test("the help cards speak of texts only where the items are texts", () => {
  const aboutText = (rows) => rows.some(([, what]) => what.includes("text"));
  const choices = new Choices(null);
  assert.ok(aboutText(choices.keys({ item: { text: ["A text."] } })));
  for (const item of [{ src: "picture" }, null]) assert.ok(!aboutText(choices.keys({ item })));
  assert.ok(aboutText(keysOf({ kind: "text" })));
  for (const kind of ["image", "vector", "set", "item"]) assert.ok(!aboutText(keysOf({ kind })), kind);
});

/** The search above a grid, by name, by words or in a lasso. */
function openFinder(words, lasso) {
  const clock = new Clock();
  const asked = [];
  const input = () =>
    Object.assign(new Part("input"), {
      value: "",
      addEventListener: (kind, act) => listeners.push({ kind, act }),
      setAttribute() {},
      focus() {},
      select() {},
      blur: () => asked.push("blur"),
    });
  const listeners = [];
  const tell = (kind) => {
    for (const one of listeners) if (one.kind === kind) one.act();
  };
  const fields = { "input.what": input(), "input.without": input() };
  const place = { dataset: {}, hidden: true, textContent: "", setAttribute() {}, removeAttribute() {} };
  const card = {
    ...place,
    querySelector: (selector) => fields[selector] ?? place,
    querySelectorAll: () => [],
  };
  const finder = new Finder(card, ({ id, ...wanted }) => asked.push(wanted));
  finder.show({ text: "", found: 0, total: 9, first: 0, page: 5, longest: 200, like: "a", words, lasso });
  const type = (field, text) => {
    field.value = text;
    tell("input");
  };
  const [field, without] = Object.values(fields);
  return { finder, field, without, asked, type, tell, card, clock };
}

test("the keys are said to follow Enter as long as a field of the search has them", () => {
  const { card, tell } = openFinder();
  assert.notEqual(card.dataset.typing, "true");
  tell("focus");
  assert.equal(card.dataset.typing, "true");
  tell("blur");
  assert.equal(card.dataset.typing, "false");
});

test("Enter in the search looks for what was typed, and gives the keys back to the images", () => {
  const { finder, field, asked } = openFinder();
  field.value = "  two  words ";
  const enter = press("Enter", field);
  assert.equal(finder.pressed(enter), true);
  assert.deepEqual(asked, [{ text: "two words", excluded: "", first: 0 }, "blur"]);
  assert.equal(enter.isPrevented, true);
  assert.equal(finder.pressed(press("y", field)), true, "a letter is the field's");
  assert.equal(finder.pressed(press("y")), false, "and the page's elsewhere");
});

test("a search by name follows the typing; a description waits for Enter in either field", async () => {
  const byName = openFinder();
  byName.type(byName.field, "fox");
  await byName.clock.pass(1000);
  assert.deepEqual(byName.asked, [{ text: "fox", excluded: "", first: 0 }]);
  const { finder, field, without, asked, type, clock } = openFinder({ excluded: "", problem: null });
  type(field, "a fox ");
  type(without, "a  dog");
  await clock.pass(1000);
  assert.deepEqual(asked, []);
  finder.pressed(press("Enter", without));
  assert.deepEqual(asked, [{ text: "a fox", excluded: "a dog", first: 0 }, "blur"]);
  finder.pressed(press("Enter", field));
  assert.equal(asked.length, 3, "the same is not asked for twice");
});

/** A document that tells its listeners of events, until their signals end. */
function openDocument() {
  const listeners = [];
  define("document", {
    addEventListener: (kind, act, { signal }) => listeners.push({ kind, act, signal }),
  });
  return (kind, event) => {
    for (const one of [...listeners]) if (one.kind === kind && !one.signal.aborted) one.act(event);
  };
}

test("what is typed while the search opens is kept for its field, and answers nothing", async () => {
  const clock = new Clock();
  const tell = openDocument();
  watchFind(new AbortController().signal);
  const pressed = (key, target) => {
    let reaches = true;
    const event = press(key, target, {
      stopImmediatePropagation: () => {
        reaches = false;
      },
    });
    tell("keydown", event);
    return reaches;
  };
  const click = (selector) =>
    tell("click", { composedPath: () => [{ closest: (asked) => (asked === selector ? {} : null) }, {}] });
  click(".st-key-end-find button");
  assert.equal(pressed("y"), true, "another button opens no search");
  click(".st-key-find button");
  for (const key of ["f", "y", "n", "Backspace", "ArrowRight", " ", "x"])
    assert.equal(pressed(key), false, key);
  assert.equal(pressed("y", new Part("input")), true, "another field has its keys");
  assert.equal(takeTyped(), "fy x");
  assert.equal(pressed("y"), true, "the field is there");
  assert.equal(takeTyped(), "");
  click(".st-key-find button");
  assert.equal(pressed("n"), false);
  await clock.pass(5000);
  assert.equal(pressed("y"), true, "the search never came");
});

test("items in a lasso have no text to look for, and no pages", () => {
  const { finder, field, asked } = openFinder(undefined, { problem: null });
  assert.equal(field.hidden, true);
  finder.show({ text: "", found: 90, total: 99, first: 0, page: 60, longest: 0, lasso: { problem: null } });
  finder.turn(1);
  assert.deepEqual(asked, []);
  assert.equal(finder.absence, "No item in the lasso is left to answer.");
  finder.show({
    text: "",
    found: 0,
    total: 0,
    first: 0,
    page: 60,
    longest: 0,
    lasso: { problem: "It is gone" },
  });
  assert.equal(finder.absence, "It is gone");
});

test("items chosen by predictions have no text to look for, and no pages", () => {
  const { finder, asked } = openFinder();
  const predicted = { how: "Scores of resnet nearest to 0.5 first", none: "None is left." };
  finder.show({ text: "", found: 28, total: 90, first: 0, page: 28, longest: 0, predicted });
  finder.turn(1);
  assert.deepEqual(asked, []);
  assert.equal(finder.absence, "None is left.");
});
