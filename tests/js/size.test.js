import assert from "node:assert/strict";
import test from "node:test";
import { isLarge, setLarge } from "../../app/components/shared/size.js";
import { define, Store, useStore } from "./browser.js";

/** Open a page at an address, or load it again. */
function open(address, type = "navigate") {
  define("location", new URL(address));
  define("document", {});
  define("performance", { getEntriesByType: (kind) => (kind === "navigation" ? [{ type }] : []) });
}

test("without a size in the address, the browser keeps the size that the user chose", () => {
  useStore();
  open("http://here/?project=digits");
  assert.equal(isLarge(), false);
  setLarge(true);
  assert.equal(isLarge(), true);
});

for (const [asked, other] of [
  ["large", false],
  ["usual", true],
]) {
  test(`the size ${asked} of the address holds until the user changes it`, () => {
    useStore();
    open(`http://here/?project=digits&size=${asked}`);
    assert.equal(isLarge(), !other);
    setLarge(other);
    assert.equal(isLarge(), other);
    for (const again of ["reload", "back_forward"]) {
      open(`http://here/?project=digits&size=${asked}`, again);
      assert.equal(isLarge(), other, again);
    }
    open("http://here/map");
    assert.equal(isLarge(), other, "the browser keeps it");
    open(`http://here/map?size=${asked}`);
    assert.equal(isLarge(), !other, "another page asks for it");
  });
}

test("without storage, the size of the address can be turned off, too", () => {
  useStore(new Store({}, { isForbidden: true }));
  open("http://here/?size=large");
  assert.equal(isLarge(), true);
  setLarge(false);
  assert.equal(isLarge(), false);
});
