// The people page: each annotator's number of labels and pace, and the agreement between annotators.

import { element, part, say } from "../shared/dom.js";
import { ABSENT, between, Figure, fixed, whole } from "../shared/figures.js";
import { Help } from "../shared/help.js";
import { takeKeys, watchPickers } from "../shared/keys.js";
import { mounting } from "../shared/mount.js";

/** @import { Component, PairRow, PeopleData, PersonRow } from "../types" */

const ABOUT = "How much each person has labeled, and how far they agree.";

class People {
  /** @param {ShadowRoot} root */
  constructor(root) {
    this.card = part(root, ".card");
    this.title = part(root, ".title");
    this.about = part(root, ".about");
    this.pairs = part(root, ".pairs");
    this.explained = part(root, ".explained");
    this.body = part(root, "tbody");
    this.table = part(root, ".table");
    this.pace = part(root, ".pace");
    this.list = part(root, ".list");
    this.notes = part(root, ".notes");
    const rows = part(root, ".rows");
    this.alpha = new Figure(rows, ["Krippendorff\u2019s alpha"]);
    this.fleiss = new Figure(rows, ["Fleiss\u2019 kappa"]);
    this.contested = new Figure(rows, ["They disagree on"]);
    this.abort = new AbortController();
    watchPickers(this.abort.signal);
    takeKeys(this);
    new Help(this.card, () => ({ about: ABOUT })).listen(this, this.abort.signal);
  }

  close() {
    this.abort.abort();
  }

  /** @param {Component<PeopleData>} component */
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

  /** @param {PeopleData} data */
  showAgreement({ together, contested, decided }) {
    this.alpha.show({
      value: together?.alpha == null ? null : fixed(2)(together.alpha),
      unit: between(together?.interval),
      aside: together ? count(together.items, "item") : "",
    });
    this.fleiss.show({
      value: together?.fleiss == null ? null : fixed(2)(together.fleiss),
      aside: together ? `${count(together.fleiss_items, "item")} with ${together.voices} answers each` : "",
    });
    this.contested.show({
      value: whole(contested),
      aside: decided ? `${count(decided, "item")} decided` : "",
    });
    const none =
      "No item has answers of two people yet. Set “People per item” in Settings, on the Label page.";
    say(
      this.explained,
      together
        ? "1 is agreement on every item, 0 is agreement by chance. The interval contains the true value in 95 of 100 cases."
        : none,
    );
  }
}

/**
 * @param {PersonRow[]} people
 * @param {number} given
 * @param {boolean} isOwner
 */
function headline(people, given, isOwner) {
  if (!people.length) return isOwner ? "Nobody has labeled yet" : "You have not labeled yet";
  const answers = count(given, "answer");
  return isOwner ? `${count(people.length, "person", "people")}, ${answers}` : `You gave ${answers}`;
}

/** @param {PersonRow} person */
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

/** @param {PairRow} pair */
function pair({ names, items, kappa, interval }) {
  const value = kappa === null ? ABSENT : fixed(2)(kappa);
  const parts = [
    element("b", {}, value),
    ...[between(interval), count(items, "item")].map((text) => element("span", {}, text)),
  ];
  return element("li", {}, element("span", {}, names.join(" and ")), ...parts);
}

/**
 * @param {number} n
 * @param {string} one
 * @param {string} several
 */
function count(n, one, several = `${one}s`) {
  return `${whole(n)} ${n === 1 ? one : several}`;
}

export default mounting(People);
