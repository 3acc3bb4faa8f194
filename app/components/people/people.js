// The people page: who labeled how much and how fast, and how far they agree.

import { element, say } from "../shared/dom.js";
import { ABSENT, between, Figure, fixed, whole } from "../shared/figures.js";
import { mayChoose, releaseFocus } from "../shared/keys.js";

class People {
  constructor(root) {
    this.card = root.querySelector(".card");
    for (const part of ["title", "about", "pairs", "explained"]) this[part] = root.querySelector(`.${part}`);
    this.body = root.querySelector("tbody");
    this.table = root.querySelector(".table");
    this.pace = root.querySelector(".pace");
    this.list = root.querySelector(".list");
    this.notes = root.querySelector(".notes");
    const rows = root.querySelector(".rows");
    this.alpha = new Figure(rows, ["Krippendorff\u2019s alpha"]);
    this.fleiss = new Figure(rows, ["Fleiss\u2019 kappa"]);
    this.contested = new Figure(rows, ["They disagree on"]);
    this.abort = new AbortController();
    for (const kind of ["keydown", "click"]) {
      const options = { signal: this.abort.signal, capture: true };
      document.addEventListener(kind, (event) => mayChoose(event) && releaseFocus(), options);
    }
  }

  close() {
    this.abort.abort();
  }

  update({ data }) {
    const { people, pairs, question, is_owner: isOwner } = data;
    const given = people.reduce((sum, person) => sum + person.items, 0);
    say(this.title, headline(people, given, isOwner));
    say(this.about, isOwner ? question : `${question} Owners see everybody\u2019s.`);
    this.body.replaceChildren(...people.map(row));
    this.table.hidden = this.pace.hidden = !people.length;
    this.list.replaceChildren(...pairs.map(pair));
    this.pairs.hidden = !pairs.length;
    this.notes.hidden = !isOwner;
    this.showAgreement(data);
    this.card.dataset.state = "shown";
  }

  showAgreement({ together, contested, decided }) {
    this.alpha.show({
      value: together?.alpha == null ? null : fixed(2)(together.alpha),
      unit: between(together?.interval),
      aside: together ? count(together.items, "item") : "",
    });
    this.fleiss.show({
      value: together?.fleiss == null ? null : fixed(2)(together.fleiss),
      aside: together ? `${count(together.fleiss_items, "item")} of ${together.voices} answers each` : "",
    });
    this.contested.show({
      value: whole(contested),
      aside: decided ? `${count(decided, "item")} decided` : "",
    });
    const none =
      "Nobody answered an item that another one had answered. Settings, on the Label page, lets each item be for several people.";
    say(
      this.explained,
      together
        ? "1 is agreement on every item, 0 what chance alone would give. The interval holds the figure in 95 of 100 cases."
        : none,
    );
  }
}

function headline(people, given, isOwner) {
  if (!people.length) return isOwner ? "Nobody has labeled yet" : "You have not labeled yet";
  const answers = count(given, "answer");
  return isOwner ? `${count(people.length, "person", "people")}, ${answers}` : `You gave ${answers}`;
}

function row({ name, is_you: isYou, today, items, per_hour: hour, seconds }) {
  const title = element("th", { scope: "row", title: name }, name);
  if (isYou) title.append(element("span", { className: "you" }, "you"));
  const pace = hour === null ? ABSENT : whole(hour);
  const median = seconds === null ? ABSENT : `${fixed(1)(seconds)} s`;
  return element(
    "tr",
    {},
    title,
    ...[whole(today), whole(items), pace, median].map((text) => element("td", {}, text)),
  );
}

function pair({ names, items, kappa, interval }) {
  const value = kappa === null ? ABSENT : fixed(2)(kappa);
  const parts = [
    element("b", {}, value),
    ...[between(interval), count(items, "item")].map((text) => element("span", {}, text)),
  ];
  return element("li", {}, element("span", {}, names.join(" and ")), ...parts);
}

function count(n, one, several = `${one}s`) {
  return `${whole(n)} ${n === 1 ? one : several}`;
}

export default function (component) {
  const root = component.parentElement;
  root.closecallPeople ??= new People(root);
  root.closecallPeople.update(component);
  return () => {
    root.closecallPeople?.close();
    root.closecallPeople = null;
  };
}
