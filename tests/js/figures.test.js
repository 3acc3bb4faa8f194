import assert from "node:assert/strict";
import test from "node:test";
import {
  LogAxis,
  milliseconds,
  percentage,
  plain,
  powerOfTen,
  roomIn,
} from "../../app/components/compare/axis.js";
import { yScale } from "../../app/components/compare/heights.js";
import { Records, reaches, spreadOf, verdict } from "../../app/components/compare/records.js";
import { merged, newest } from "../../app/components/label/strip.js";
import { aheadInWords } from "../../app/components/progress/ahead.js";
import { inWords } from "../../app/components/progress/audit.js";
import { byline, standing } from "../../app/components/review/row.js";
import { ago, seconds } from "../../app/components/review/times.js";
import { between, fixed, perSecond, whole } from "../../app/components/shared/figures.js";
import { linear, logarithmic, ratioTicks, roundTicks } from "../../app/components/shared/scales.js";
import { queryName } from "../../app/components/similar/like.js";
import { Clock, define } from "./browser.js";

test("numbers are written with separators, a minus sign, and as many digits as asked", () => {
  assert.equal(whole(1_234_567.4), "1,234,567");
  assert.equal(fixed(2)(1234.5), "1,234.50");
  assert.equal(between([-0.25, 0.5]), "−0.25 – 0.50");
  assert.equal(between(null), "");
  assert.deepEqual([0.0123, 0.52, 6.2, 47.4].map(milliseconds), ["0.012", "0.52", "6.20", "47"]);
  assert.deepEqual([1e-6, 0.005, 1].map(percentage), ["0.0001 %", "0.5 %", "100 %"]);
  assert.deepEqual([-2, 0, 11].map(powerOfTen), ["10⁻²", "1", "10¹¹"]);
  assert.deepEqual([-2, -1, 0, 1].map(plain), ["0.01", "0.1", "1", "10"]);
});

test("a search by all yes answers says how many it uses, and how many it leaves out", () => {
  const like = { word: "yes", name: "", pictures: [], openings: [], n: 18, of: 18, audited: 0 };
  assert.equal(queryName(like), "any of 18 yes answers");
  assert.equal(queryName({ ...like, audited: 7 }), "any of 18 yes answers, without 7 for the audit");
});

test("what more labels bring is written in percent and in items", () => {
  assert.equal(aheadInWords({ ahead: null, items: 2000 }), "");
  assert.equal(
    aheadInWords({ ahead: { labels: 100, share: 0.01234 }, items: 1_000_000 }),
    "100 more labels would probably change at most 1.2 % of the predictions: 12,340 of 1,000,000.",
  );
  assert.match(
    aheadInWords({ ahead: { labels: 100, share: 0.00015 }, items: 1_000_000 }),
    /0\.02 % .*: 150 of/,
  );
  assert.match(aheadInWords({ ahead: { labels: 100, share: 0.25 }, items: 2000 }), /25 % .*: 500 of 2,000/);
});

test("a share is written with its interval, unless nothing is known of it", () => {
  const known = inWords({ estimate: 0.25, low: 0.005, high: 0.4 }, 0.95);
  assert.deepEqual([known.value, known.aside], ["25 %", "95 %: 0.50 % to 40 %"]);
  assert.equal(inWords({ estimate: 0.25, low: 0, high: 0.9 }, 0.95).value, "0 % … 90 %");
  const unknown = inWords({ estimate: null, low: 0, high: 1 }, 0.95);
  assert.deepEqual([unknown.value, unknown.aside, unknown.isKnown], ["–", "can’t be estimated yet", false]);
  assert.deepEqual([inWords(null, 0.95).value, inWords(null, 0.95).aside], ["–", ""]);
});

test("a rate of one is in the singular", () => {
  assert.deepEqual(
    [0.5, 1, 3].map((rate) => perSecond(rate, "round")),
    ["0.5 rounds/s", "1 round/s", "3 rounds/s"],
  );
});

test("a scale puts its ends at 0 and 1, and equal steps or equal ratios at equal distances", () => {
  const even = linear(2, 6, [], String);
  assert.deepEqual([2, 4, 6].map(even.at), [0, 0.5, 1]);
  const ratios = logarithmic(10, 1000, [], String);
  for (const [value, place] of [
    [10, 0],
    [100, 0.5],
    [1000, 1],
    [1, 0],
  ]) {
    assert.ok(Math.abs(ratios.at(value) - place) < 1e-12);
  }
  assert.equal(Number.isFinite(linear(3, 3, [], String).at(3)), true);
  assert.equal(Number.isFinite(logarithmic(5, 5, [], String).at(5)), true);
});

test("round ticks are multiples of 1, 2 or 5 times a power of ten, within their range", () => {
  for (const [low, high, n] of [
    [0, 7, 4],
    [0.63, 1, 4],
    [0, 123_456, 6],
    [3, 3, 4],
  ]) {
    const ticks = roundTicks(low, high, n);
    for (const tick of ticks) assert.ok(tick >= low - 1e-9 && tick <= high + 1e-9);
    const steps = ticks.slice(1).map((tick, i) => tick - ticks[i]);
    for (const step of steps) {
      const digit = step / 10 ** Math.floor(Math.log10(step) + 1e-9);
      assert.ok([1, 2, 5].some((one) => Math.abs(digit - one) < 1e-6));
    }
    assert.ok(ticks.length <= 2.5 * n + 1);
  }
  assert.deepEqual(ratioTicks(20, 600), [20, 50, 100, 200, 500]);
  assert.deepEqual(ratioTicks(1, 1e6), [1, 10, 100, 1000, 1e4, 1e5, 1e6]);
  assert.deepEqual(ratioTicks(20, 40), [20, 25, 30, 35, 40], "1, 2 and 5 would leave two");
  assert.deepEqual(ratioTicks(1510, 1890), [1600, 1700, 1800], "and here none");
  assert.deepEqual(ratioTicks(20, 22), [20, 21, 22]);
  assert.deepEqual(ratioTicks(7, 7), [7]);
});

test("a logarithmic axis holds all its values, and its ticks are powers of ten", () => {
  const axis = new LogAxis([0.03, 250, null], { write: plain });
  assert.deepEqual([axis.low, axis.high], [-2, 3]);
  assert.deepEqual(
    [0.01, 1000, 0, 1e9].map((value) => axis.at(value)),
    [0, 100, 0, 100],
  );
  assert.ok(axis.ticks.length <= 6);
  assert.ok(axis.ticks.includes(3));
});

test("a logarithmic axis has only as many ticks as there is room for", () => {
  define("getComputedStyle", ({ fontSize }) => ({ fontSize }));
  const ticks = (clientWidth, fontSize) => {
    const mostTicks = roomIn({ clientWidth, fontSize: `${fontSize}px` }, 5);
    return new LogAxis([0.001, 10], { mostTicks, write: plain }).ticks;
  };
  assert.deepEqual(ticks(160, 13), [-3, -2, -1, 0, 1]);
  assert.deepEqual(ticks(160, 18), [-3, -1, 1]);
  assert.deepEqual(ticks(0, 18), [-3, 1], "while it is hidden");
  for (const [width, size] of [
    [90, 18],
    [160, 13],
    [300, 18],
  ]) {
    const apart = (width * (ticks(width, size).at(-1) - ticks(width, size).at(-2))) / 4;
    assert.ok(apart >= 3 * size);
  }
});

test("the outer labels of an axis stay above its plot, and do not touch those of the next one", () => {
  define("document", {
    createElement: () => ({
      style: {},
      append(...texts) {
        this.text = texts.join("");
      },
    }),
  });
  const names = new LogAxis([1e-3, 10], { mostTicks: 2, write: powerOfTen }).names();
  assert.deepEqual(
    names.map(({ className, text }) => [className, text]),
    [
      ["tick first", "10⁻³"],
      ["tick", "10⁻¹"],
      ["tick last", "10¹"],
    ],
  );
  const [first, last] = new LogAxis([1e-3, 1], { mostTicks: 2, write: plain }).names();
  assert.deepEqual([first.className, last.className], ["tick", "tick last"], "the first is inside");
});

test("quantiles are those between neighbours in proportion, of the values that are known", () => {
  const { low, q1, median, q3, high } = spreadOf([null, 40, 10, 30, 20, null]);
  assert.deepEqual([low, q1, median, q3, high], [13, 17.5, 25, 32.5, 37]);
  assert.equal(spreadOf([null]), null);
  assert.equal(spreadOf([]), null);
  assert.equal(spreadOf([10, 9, 100]).median, 10, "as numbers, not as words");
});

const lanes = [
  { strategy: "random", label: "Random" },
  { strategy: "margin-index", label: "Margin" },
];

/** A race in which each lane reaches these AUROCs, at 100 ms a choice. */
function race(...courses) {
  const records = new Records({ lanes, first_auroc: 0.5 });
  const turns = courses[0].map((_, i) => courses.map((course) => [course[i], 1, 100, 10]));
  records.take({ known: 0, turns, firsts: [], picks: ["a", "b"] });
  return records;
}

test("news that are known already, or that skip something, change nothing", () => {
  const records = race([0.6, 0.7], [0.6, 0.9]);
  for (const known of [0, 1, 3]) records.take({ known, turns: [[null, null]], firsts: [], picks: null });
  assert.equal(records.rounds, 2);
  assert.deepEqual(records.picks, ["a", "b"]);
});

test("a course goes by labels, or by the seconds that labeling and choosing took", () => {
  const records = race([0.6, 0.7], [0.6, 0.9]);
  assert.deepEqual(records.course(1, "labels", 2), { xs: [0, 1, 2], ys: [0.5, 0.6, 0.9] });
  assert.deepEqual(records.course(1, "seconds", 2).xs, [0, 2.1, 4.2]);
  const out = new Records({ lanes, first_auroc: 0.5 });
  out.take({ known: 0, turns: [[null, [0.7, 1, 5, 1]]], firsts: [], picks: null });
  assert.deepEqual(out.course(0, "seconds", 2).xs, [0, 2]);
});

const byLabels = { against: "labels", labelSeconds: 0 };
const steady = (aurocs, n = 15) => [...aurocs, ...Array(n).fill(aurocs.at(-1))];

test("the verdict says when the leader had for good what the other one has now", () => {
  const records = race(steady([0.5, 0.55, 0.6, 0.65, 0.7, 0.7]), steady([0.72, 0.6, 0.75, 0.8, 0.85, 0.9]));
  assert.equal(reaches(records.course(1, "labels", 0), 0.7), 3, "not yet at the first label, which was luck");
  const { headline, guide } = verdict(records, lanes, byLabels);
  assert.equal(headline, "3 labels chosen by Margin equal 21 chosen at random.");
  assert.deepEqual([guide.from, guide.to, guide.y], [3, 21, 0.7]);
  assert.equal(verdict(race([], []), lanes, byLabels).headline, null);
});

test("there is no verdict before twenty labels, however far one strategy is ahead", () => {
  const said = (n) => verdict(race(Array(n).fill(0.5), Array(n).fill(0.9)), lanes, byLabels);
  for (const n of [1, 7, 19]) {
    assert.equal(said(n).headline, "Too early to say: fewer than 20 labels per strategy.");
    assert.equal(said(n).guide, null);
  }
  assert.equal(said(20).headline, "So far labels chosen at random have taught nothing.");
});

test("a strategy leads only if all of its last ten AUROCs are above all of the other's", () => {
  const said = (random, own) => verdict(race(random, own), lanes, byLabels).headline;
  const undecided = "Undecided so far: labels chosen by Margin or at random.";
  const wavering = Array.from({ length: 30 }, (_, i) => 0.7 + 0.1 * (i % 2));
  assert.equal(said(wavering, Array(30).fill(0.75)), undecided);
  assert.equal(said(wavering, Array(30).fill(0.79)), undecided, "though it is ahead in the mean");
  assert.equal(said(wavering, wavering), undecided);
  assert.equal(said(wavering, steady(Array(21).fill(0.7).concat(0.9), 8)), undecided, "for nine rounds");
  assert.match(
    said(wavering, steady(Array(20).fill(0.7).concat(0.9), 9)),
    /^21 labels chosen by Margin equal 30/,
  );
});

test("the verdict counts no labels while the follower wavers around where it began", () => {
  const around = Array.from({ length: 30 }, (_, i) => 0.49 + 0.02 * (i % 2));
  const { headline, guide } = verdict(race(around, Array(30).fill(0.9)), lanes, byLabels);
  assert.equal(headline, "So far labels chosen by Margin teach more than those chosen at random.");
  assert.equal(guide, null);
});

test("the verdict does not blame random labels where nothing is left to learn, or neither kind taught anything", () => {
  const said = (first) => {
    const aurocs = Array(20).fill(first);
    const records = race(aurocs, aurocs);
    records.firstAuroc = first;
    return verdict(records, lanes, byLabels).headline;
  };
  assert.match(said(1), /first labels are enough/);
  assert.match(said(0.8), /neither labels chosen by Margin nor at random/);
});

test("the verdict names the strategy whose labels taught nothing, or which is behind", () => {
  const said = (own, against = "labels") => {
    const records = race(steady([0.6, 0.6, 0.7, 0.7, 0.7, 0.8]), steady(own));
    return verdict(records, lanes, { against, labelSeconds: 2 }).headline;
  };
  assert.equal(said([0.5, 0.5, 0.4, 0.4, 0.5, 0.5]), "So far labels chosen by Margin have taught nothing.");
  assert.equal(said([0.5, 0.5, 0.5, 0.6, 0.6, 0.6]), "1 label chosen at random equals 21 chosen by Margin.");
  assert.equal(
    said([0.5, 0.5, 0.5, 0.6, 0.6, 0.6], "seconds"),
    "2.1 s of labels chosen at random equal 44 s of labels chosen by Margin.",
  );
});

test("the axis of the curves ends at 1, the highest AUROC", () => {
  for (const course of [
    [1, 1],
    [0.999, 1],
    [0.5, 0.9],
  ]) {
    const { low, high } = yScale([course]);
    assert.ok(low < high && high <= 1 && low <= course[0] && high >= course[1], `${low} to ${high}`);
  }
});

test("an axis with even steps holds all values, those of a few bad rounds, too", () => {
  const falls = [0.6, 0.15, ...Array.from({ length: 40 }, (_, i) => 0.6 + i / 200)];
  for (const courses of [[falls], [falls, [0.7, 0.05, 0.8]], [[0.01, 0.5]], [[0.3, 0.3]], [[0, 1]]]) {
    const { at, ticks, note } = yScale(courses);
    assert.equal(note, "", "even steps");
    const steps = ticks.slice(1).map((tick, i) => at(tick) - at(ticks[i]));
    for (const step of steps) assert.ok(Math.abs(step - steps[0]) < 1e-9);
    assert.ok(Math.abs(at(ticks[0])) < 1e-9 && Math.abs(at(ticks.at(-1)) - 1) < 1e-9);
    for (const value of courses.flat()) assert.ok(at(value) > -1e-9 && at(value) < 1 + 1e-9, `${value}`);
    assert.ok(ticks.length <= 11);
  }
});

test("curves that crowd below 1 can be distinguished, and none of them leaves the plot", () => {
  const crowded = [
    [0.6, 0.9, 0.95, 0.98],
    [0.6, 0.95, 0.98, 0.99],
    [0.6, 0.97, 0.99, 0.998],
  ];
  const { at, ticks, note } = yScale(crowded);
  const ends = crowded.map((ys) => at(ys[ys.length - 1]));
  assert.ok(ends[1] - ends[0] > 0.1 && ends[2] - ends[1] > 0.1, String(ends));
  for (const value of crowded.flat()) assert.ok(at(value) >= 0 && at(value) <= 1, String(value));
  assert.ok(ticks.every((tick, i) => !i || at(tick) > at(ticks[i - 1])));
  assert.ok(ticks.length <= 9 && note);
  const dip = yScale([
    [0.6, 0.02, 0.97, 0.99],
    [0.6, 0.95, 0.98, 0.998],
  ]);
  assert.ok(dip.note && dip.at(0.02) >= 0 && dip.at(0.998) - dip.at(0.99) > 0.1);
  const perfect = yScale([
    [0.7, 1, 1],
    [0.7, 0.98, 0.99],
  ]);
  assert.equal(perfect.at(1), 1);
  const apart = yScale([
    [0.5, 0.7, 0.8],
    [0.5, 0.8, 0.95],
  ]);
  assert.equal(apart.note, "", "even steps where they are enough");
});

test("the strip shows what is stored, changed by what waits to be saved", () => {
  const stored = [
    { answer_id: "a", item: 1, answer: "yes", src: "1" },
    { answer_id: "b", item: 2, answer: "no", src: "2" },
  ];
  const pending = [
    { id: "c", item: 3, selection: "s3", answer: "yes", undoes: null, corrects: null },
    { id: "d", item: 1, selection: null, answer: "no", undoes: null, corrects: "a" },
    { id: "e", item: 1, selection: null, answer: "skip", undoes: null, corrects: "d" },
    { id: "f", item: 3, selection: null, answer: "undo", undoes: "c", corrects: null },
    { id: "b", item: 2, selection: "s2", answer: "no", undoes: null, corrects: null }, // acknowledged meanwhile
  ];
  const shown = merged(stored, pending, new Map([["s3", "3"]])).map(({ answer_id, answer, saving }) => [
    answer_id,
    answer,
    saving,
  ]);
  assert.deepEqual(shown, [
    ["e", "skip", true],
    ["b", "no", false],
  ]);
  assert.equal(merged([], pending.slice(0, 1), new Map([["s3", "3"]]))[0].src, "3");
  const decided = {
    id: "g",
    item: 3,
    selection: "decide 3 x 0",
    answer: "yes",
    undoes: null,
    corrects: null,
  };
  const later = { ...decided, id: "h", item: 4, selection: "decide 4 x 0", answer: "skip" };
  assert.deepEqual(
    merged([], [decided, later], new Map()).map(({ answer_id, decides }) => [answer_id, decides]),
    [["g", true]],
    "an item that is put off has no decision to undo or correct",
  );
});

test("what was given last may be a correction, which stands in the place of the corrected answer", () => {
  const stored = [
    { answer_id: "c", seq: 3, item: 1, answer: "yes", src: "1" },
    { answer_id: "b", seq: 2, item: 2, answer: "no", src: "2" },
  ];
  const answer = { selection: "s3", answer: "no", undoes: null, corrects: null };
  const last = (pending) => newest(merged(stored, pending, new Map()))?.answer_id;
  const given = { ...answer, id: "d", item: 3 };
  const corrected = { ...answer, id: "e", item: 2, answer: "skip", corrects: "b" };
  assert.equal(newest([]), null);
  assert.equal(last([]), "c");
  assert.equal(last([given]), "d");
  assert.equal(last([given, corrected]), "e");
  assert.equal(last([corrected, given]), "d");
  assert.equal(last([corrected, { ...answer, id: "f", item: 2, answer: "undo", undoes: "e" }]), "c");
});

test("an undo takes the answers about a whole group from the strip", () => {
  const ids = (pending) => merged(stored, pending, new Map()).map(({ answer_id }) => answer_id);
  const stored = [
    { answer_id: "a", item: 1, answer: "no", along: null, src: "" },
    { answer_id: "b", item: 2, answer: "yes", along: "d", src: "" },
    { answer_id: "c", item: 3, answer: "yes", along: "d", src: "" },
    { answer_id: "d", item: 4, answer: "yes", along: null, src: "" },
  ];
  const undo = { selection: null, answer: "undo", corrects: null };
  assert.deepEqual(ids([{ ...undo, id: "e", item: 3, undoes: "c" }]), ["a", "b", "d"]);
  assert.deepEqual(ids([{ ...undo, id: "e", item: 4, undoes: "d" }]), ["a"]);
});

test("an annotator's answer is the last one that was not taken back", () => {
  const event = (id, answer, more = {}) => ({ id, answer, annotator: "ada", undoes: null, ...more });
  const events = [
    event("a", "yes"),
    event("b", "no", { annotator: "bob" }),
    event("c", "no"),
    event("d", "undo", { undoes: "c" }),
  ];
  const pending = [
    { id: "e", answer: "skip", undoes: null },
    { id: "c", answer: "no", undoes: null },
  ];
  const names = (stack) => stack.map(({ id, answer }) => [id, answer]);
  assert.deepEqual(names(standing(events, "ada", [])), [["a", "yes"]]);
  assert.deepEqual(names(standing(events, "ada", pending.slice(0, 1))), [
    ["a", "yes"],
    ["e", "skip"],
  ]);
  const undone = [
    ...pending.slice(0, 1),
    { id: "f", answer: "undo", undoes: "e" },
    { id: "g", answer: "undo", undoes: "a" },
  ];
  assert.deepEqual(standing(events, "ada", undone), []);
  assert.deepEqual(names(standing([], "ada", [pending[0], pending[0]])), [["e", "skip"]]);
  const decided = { id: "h", answer: "no", selection: "decide 1 x 0", undoes: null };
  const changed = { id: "i", answer: "yes", corrects: "h", undoes: null };
  const undo = { id: "j", answer: "undo", undoes: "h" };
  assert.deepEqual(names(standing(events, "ada", [decided, changed, undo])), [["a", "yes"]]);
  const stored = event("h", "no", { annotator: "ada (decision)" });
  assert.deepEqual(names(standing([...events, stored], "ada", [changed])), [["a", "yes"]]);
  const decisions = standing([...events, stored], "ada (decision)", [changed]);
  assert.deepEqual(names(decisions), [
    ["h", "no"],
    ["i", "yes"],
  ]);
});

test("a row says which answer was corrected, not which correction was undone before", () => {
  const said = (id, answer, more = {}) => ({ id, annotator: "ada", answer, undoes: null, time: 0, ...more });
  const events = [
    said("a", "no"),
    said("b", "skip", { is_correction: true }),
    said("c", "undo", { undoes: "b" }),
    said("d", "yes", { is_correction: true, in_force: true }),
  ];
  assert.match(byline(1, "leaf", events, null), /corrected from no$/);
  assert.match(byline(1, "leaf", events.slice(1), null), /, corrected$/);
});

test("a row gives the number of its item, unless its name is that number", () => {
  const numbered = (item, name) => byline(item, name, [], null).startsWith(`item ${item}, `);
  for (const name of ["wild_cat/image_0004.jpg", "digit 10", "leaf"]) assert.ok(numbered(0, name), name);
  assert.ok(numbered(4, "wild_cat/image_0004.jpg"));
  assert.ok(!numbered(0, "digit 0"));
  assert.ok(!numbered(10, "digit 10"));
});

test("times are formatted for readers", () => {
  const { now } = new Clock();
  assert.equal(ago(now - 59_000), "just now");
  assert.equal(ago(now - 12 * 60_000), "12 min ago");
  assert.equal(ago(now - 3.9 * 3_600_000), "3 h ago");
  assert.match(ago(now - 2 * 86_400_000), /^\d{4}-\d\d-\d\d$/);
  assert.equal(seconds(449), "0.4 s");
});
