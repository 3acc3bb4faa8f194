// The progress page: whether to stop, how the labeling went, and what the audit says. What must outlive a new
// payload is kept on the root element.

import { say } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { mayChoose, releaseFocus } from "../shared/keys.js";
import { linear, logarithmic, ratioTicks, roundTicks } from "../shared/scales.js";
import { Audit } from "./audit.js";
import { Chart } from "./chart.js";

const POLL = 700; // milliseconds, while something is being computed

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
    note: "How far predictions agree with those of a quarter fewer labels (kappa).",
  },
};

const wholePercent = (value) => `${Math.round(100 * value)} %`;
const short = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1e4 ? `${value / 1e3}k` : whole(value));

class Progress {
  constructor(root) {
    this.card = root.querySelector(".card");
    for (const part of ["title", "about", "charts", "empty"]) this[part] = root.querySelector(`.${part}`);
    this.audit = new Audit(this.card, (share) => this.component.setTriggerValue("share", share));
    this.answers = new Chart(this.charts, { name: "Answers over time", className: "wide", height: 220 });
    for (const [name, about] of Object.entries(COURSES)) this[name] = new Chart(this.charts, about);
    this.abort = new AbortController();
    for (const kind of ["keydown", "click"]) {
      const options = { signal: this.abort.signal, capture: true };
      document.addEventListener(kind, (event) => mayChoose(event) && releaseFocus(), options);
    }
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

  update(component) {
    this.component = component;
    this.data = component.data;
    const { advice, milestones, labels, is_coming: isComing } = this.data;
    say(this.title, this.headline());
    say(this.about, labels ? advice.reason : "There are no labels yet.");
    this.card.dataset.state = isComing ? "coming" : "shown";
    this.showAnswers();
    this.showCourses();
    say(
      this.empty,
      milestones.length
        ? ""
        : isComing
          ? "The course so far is being computed…"
          : "The first milestone comes with 20 labels.",
    );
    this.audit.show(this.data);
    clearTimeout(this.timer);
    if (isComing) this.timer = setTimeout(() => component.setStateValue("beat", ++this.beat), POLL);
  }

  headline() {
    const { advice, milestones, labels } = this.data;
    if (advice.stop) return "You may stop here";
    return milestones.length && labels ? "Go on: it is still learning" : "Too early to tell";
  }

  showAnswers() {
    const { when, yes, no } = this.data.course;
    if (when.length < 2) {
      this.answers.show(null);
      return;
    }
    const most = Math.max(...yes, ...no, 1);
    const [first, last] = [when[0], when.at(-1)];
    const x = linear(first, last, timeTicks(first, last), timeOf(first, last));
    this.answers.show({
      xs: when,
      lines: [
        { className: "no", values: no, label: `${whole(no.at(-1))} no` },
        { className: "yes", values: yes, label: `${whole(yes.at(-1))} yes` },
      ],
      x,
      y: linear(0, most, roundTicks(0, most, 4), short),
      said: `${whole(yes.at(-1))} yes and ${whole(no.at(-1))} no so far.`,
    });
  }

  showCourses() {
    const { milestones } = this.data;
    const xs = milestones.map(({ labels }) => labels);
    const column = (name) => milestones.map((milestone) => milestone[name]);
    const [few, many] = [xs[0] ?? 1, xs.at(-1) ?? 1];
    const x = logarithmic(few, many, ratioTicks(few, many), short);
    const isThere = milestones.length > 1;
    const [validated, heldOut, within, kappa] = [
      "cross_validated",
      "held_out",
      "within_margin",
      "agreement",
    ].map(column);
    const shares = [...validated, ...heldOut].filter((value) => value != null);
    this.accuracy.show(
      isThere && shares.length ? { xs, x, ...accuracies(validated, heldOut, shares) } : null,
    );
    this.within.show(isThere ? { xs, x, ...inside(within) } : null);
    this.agreement.show(milestones.length > 2 ? { xs, x, ...stability(kappa, this.data.enough) } : null);
  }
}

function accuracies(validated, heldOut, shares) {
  const low = Math.min(0.9, Math.floor(10 * Math.min(...shares)) / 10);
  const said = `${wholePercent(shares.at(-1))} at last.`;
  const lines = [{ className: "", values: validated, label: "labels" }];
  if (heldOut.some((value) => value != null))
    lines.push({ className: "brand", values: heldOut, label: "held out" });
  return {
    lines,
    y: linear(low, 1, roundTicks(low, 1, 4), wholePercent),
    aside: "by number of labels",
    said,
  };
}

function inside(within) {
  const high = Math.max(10, ...within);
  const low = Math.max(1, Math.min(...within));
  const label = whole(within.at(-1));
  const y = logarithmic(low, high, ratioTicks(low, high), short);
  return {
    lines: [{ className: "", values: within, label }],
    y,
    aside: "by number of labels",
    said: `${label} are left.`,
  };
}

function stability(kappa, enough) {
  const low = Math.min(0.8, ...kappa.filter((value) => value != null));
  const floor = Math.floor(10 * low) / 10;
  const label = kappa.at(-1) == null ? "" : kappa.at(-1).toFixed(2);
  const y = linear(floor, 1, roundTicks(floor, 1, 4), (value) => value.toFixed(2));
  const mark = { value: enough, text: "enough" };
  return {
    lines: [{ className: "", values: kappa, label }],
    y,
    mark,
    aside: "by number of labels",
    said: `Agreement ${label}.`,
  };
}

function timeTicks(first, last) {
  return [first, (first + last) / 2, last];
}

/** Clock times within a day, with seconds where minutes would come twice; dates beyond. */
function timeOf(first, last) {
  const clock = { hour: "2-digit", minute: "2-digit" };
  const span = last - first;
  const format =
    span > 86_400_000
      ? { day: "numeric", month: "short" }
      : span > 300_000
        ? clock
        : { ...clock, second: "2-digit" };
  return (value) => new Date(value).toLocaleString("en-GB", format);
}

export default function (component) {
  const root = component.parentElement;
  root.closecallProgress ??= new Progress(root);
  root.closecallProgress.update(component);
  return () => {
    root.closecallProgress?.close();
    root.closecallProgress = null;
  };
}
