// The progress page: advice on when to stop, the course of the labeling, and the audit. State that must outlive a
// payload is kept on the root element.

import { part, say } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { Help } from "../shared/help.js";
import { takeKeys, watchPickers } from "../shared/keys.js";
import { mounting } from "../shared/mount.js";
import { linear, logarithmic, ratioTicks, roundTicks } from "../shared/scales.js";
import { aheadInWords } from "./ahead.js";
import { Audit } from "./audit.js";
import { Chart } from "./chart.js";

/** @import { Component, Milestone, ProgressData } from "../types" */

const POLL = 700; // milliseconds between requests while something is being computed

const COURSES = {
  accuracy: {
    name: "Accuracy",
    note: "Of labels under classifiers that did not see them. Labels chosen at the margin are the hardest there are.",
  },
  within: {
    name: "Items within the margin",
    note: "Unanswered items that would move the hyperplane, if labeled.",
  },
  agreement: {
    name: "Stability",
    note: "How far predictions agree with those of the classifier before (kappa).",
  },
};

/** @param {number} value */
const wholePercent = (value) => `${Math.round(100 * value)} %`;
/** @param {number} value */
const short = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1e4 ? `${value / 1e3}k` : whole(value));

const ABOUT = "How far the labeling is, and when you may stop; an audit estimates figures for all items.";

class Progress {
  /**
   * @param {ShadowRoot} root
   * @param {Component<ProgressData>} component
   */
  constructor(root, component) {
    this.component = component;
    this.data = component.data;
    this.card = part(root, ".card");
    this.title = part(root, ".title");
    this.about = part(root, ".about");
    this.charts = part(root, ".charts");
    this.empty = part(root, ".empty");
    this.audit = new Audit(this.card, (share) => this.component.setTriggerValue("share", share));
    this.answers = new Chart(this.charts, { name: "Answers over time", className: "wide", height: 220 });
    this.accuracy = new Chart(this.charts, COURSES.accuracy);
    this.within = new Chart(this.charts, COURSES.within);
    this.agreement = new Chart(this.charts, COURSES.agreement);
    this.abort = new AbortController();
    watchPickers(this.abort.signal);
    takeKeys(this);
    new Help(this.card, () => ({ about: ABOUT })).listen(this, this.abort.signal);
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.charts);
    this.beat = 0;
  }

  close() {
    this.abort.abort();
    this.observer.disconnect();
    clearTimeout(this.timer);
  }

  draw() {
    for (const chart of [this.answers, this.accuracy, this.within, this.agreement]) chart.draw();
  }

  /** @param {Component<ProgressData>} component */
  update(component) {
    this.component = component;
    this.data = component.data;
    const { advice, milestones, labels, is_coming: isComing } = this.data;
    say(this.title, this.headline());
    say(
      this.about,
      labels ? `${advice.reason} ${aheadInWords(this.data)}`.trim() : "There are no labels yet.",
    );
    this.card.dataset.state = isComing ? "coming" : "shown";
    this.showAnswers();
    this.showCourses();
    say(
      this.empty,
      milestones.length
        ? ""
        : isComing
          ? "Computing the course so far…"
          : "Accuracy is shown from the first check on.",
    );
    this.audit.show(this.data);
    clearTimeout(this.timer);
    if (isComing) this.timer = setTimeout(() => component.setStateValue("beat", ++this.beat), POLL);
  }

  headline() {
    const { advice, milestones, labels } = this.data;
    if (advice.stop) return "You may stop here";
    return milestones.length && labels ? "Keep going" : "Too early to say";
  }

  showAnswers() {
    const { when, yes, no } = this.data.course;
    if (when.length < 2) {
      this.answers.show(null);
      return;
    }
    const most = Math.max(...yes, ...no, 1);
    const [first, last] = [when[0], when[when.length - 1]];
    const now = { no: whole(no[no.length - 1]), yes: whole(yes[yes.length - 1]) };
    const x = linear(first, last, timeTicks(first, last), timeOf(first, last));
    this.answers.show({
      xs: when,
      lines: [
        { className: "no", values: no, label: `${now.no} no` },
        { className: "yes", values: yes, label: `${now.yes} yes` },
      ],
      x,
      y: linear(0, most, roundTicks(0, most, Math.min(4, most)), short),
      summary: `${now.yes} yes and ${now.no} no so far.`,
    });
  }

  showCourses() {
    const { milestones } = this.data;
    const xs = milestones.map(({ labels }) => labels);
    const [few, many] = [xs[0] ?? 1, xs.at(-1) ?? 1];
    const x = logarithmic(few, many, ratioTicks(few, many), short);
    const isThere = milestones.length > 1;
    const validated = milestones.map((milestone) => milestone.cross_validated);
    const heldOut = milestones.map((milestone) => milestone.held_out);
    const within = milestones.map((milestone) => milestone.within_margin);
    const kappa = milestones.map((milestone) => milestone.agreement);
    const shares = [...validated, ...heldOut].filter((value) => value != null);
    this.accuracy.show(
      isThere && shares.length ? { xs, x, ...accuracies(validated, heldOut, shares) } : null,
    );
    this.within.show(isThere ? { xs, x, ...inside(within) } : null);
    this.agreement.show(milestones.length > 2 ? { xs, x, ...stability(kappa, this.data.enough) } : null);
  }
}

/**
 * @param {(number | null)[]} validated
 * @param {(number | null)[]} heldOut
 * @param {number[]} shares
 */
function accuracies(validated, heldOut, shares) {
  const low = Math.min(0.9, Math.floor(10 * Math.min(...shares)) / 10);
  const summary = `${wholePercent(shares[shares.length - 1])} at last.`;
  const lines = [{ className: "", values: validated, label: "labels" }];
  if (heldOut.some((value) => value != null))
    lines.push({ className: "brand", values: heldOut, label: "held out" });
  return {
    lines,
    y: linear(low, 1, roundTicks(low, 1, 4), wholePercent),
    aside: "by number of labels",
    summary,
  };
}

/** @param {number[]} within */
function inside(within) {
  const high = Math.max(10, ...within);
  const low = Math.max(1, Math.min(...within));
  const label = whole(within[within.length - 1]);
  const y = logarithmic(low, high, ratioTicks(low, high), short);
  return {
    lines: [{ className: "", values: within, label }],
    y,
    aside: "by number of labels",
    summary: `${label} are left.`,
  };
}

/**
 * @param {(number | null)[]} kappa
 * @param {number} enough
 */
function stability(kappa, enough) {
  const low = Math.min(0.8, ...kappa.filter((value) => value != null));
  const floor = Math.floor(10 * low) / 10;
  const label = kappa.at(-1)?.toFixed(2) ?? "";
  const y = linear(floor, 1, roundTicks(floor, 1, 4), (value) => value.toFixed(2));
  const mark = { value: enough, text: "enough" };
  return {
    lines: [{ className: "", values: kappa, label }],
    y,
    mark,
    aside: "by number of labels",
    summary: `Agreement ${label}.`,
  };
}

/**
 * @param {number} first
 * @param {number} last
 */
function timeTicks(first, last) {
  return [first, (first + last) / 2, last];
}

/**
 * Return a formatter for the times between two times: clock times within a day, with seconds where minutes would
 * repeat, and otherwise dates.
 *
 * @param {number} first
 * @param {number} last
 */
function timeOf(first, last) {
  /** @type {Intl.DateTimeFormatOptions} */
  const clock = { hour: "2-digit", minute: "2-digit" };
  const span = last - first;
  /** @type {Intl.DateTimeFormatOptions} */
  const format =
    span > 86_400_000
      ? { day: "numeric", month: "short" }
      : span > 300_000
        ? clock
        : { ...clock, second: "2-digit" };
  return (/** @type {number} */ value) => new Date(value).toLocaleString("en-GB", format);
}

export default mounting(Progress);
