// Records, in the page and before the page's own handlers, which image is painted when a key is pressed and when
// another image is on the screen. The recording must not slow down what it measures: painted items are read from
// attributes, only at key presses and when an attribute changes, and it causes no layout or drawing.
//
// Times run from the key event's time stamp until the first frame with another image has been handed over for
// painting: a message posted from that frame's animation callback arrives after the painting.

{
  const WORDS = { y: "yes", n: "no" };
  const ALL = "4"; // answers whose next view can be prepared: yes, no, skip, unsure
  const HOST = "[data-testid=stBidiComponentIsolated]";

  const card = () => document.querySelector(HOST)?.shadowRoot?.querySelector(".card");
  const grid = () => (card()?.matches(".grid") ? card() : null);
  const plain = () => document.querySelector(".m-plain");
  /** Return the image in view, in a grid the first one; each new image is a different element. */
  const image = () => card()?.querySelector(".frame img, .tile img") ?? plain()?.querySelector("img");

  const presses = []; // key presses that gave answers
  // In milliseconds: when the selection was painted, and how long after that all views that may follow were ready.
  let inView = { selection: null, painted: null, ahead: null };

  function page() {
    if (grid()) {
      const { painted, answerable, saving } = grid().dataset;
      const tiles = [...card().querySelectorAll(".tile")];
      const cursor = tiles.findIndex((tile) => tile.matches(".cursor"));
      const columns = Number(card().querySelector(".cells").style.getPropertyValue("--columns"));
      return {
        items: painted,
        takesAnswers: answerable === "true",
        isSaved: saving === "0",
        cursor,
        columns,
      };
    }
    if (card()) {
      const { paintedItem, answerable, saving, ahead } = card().dataset;
      const takesAnswers = answerable === "true";
      return {
        items: paintedItem,
        takesAnswers,
        isSaved: saving === "0",
        allMayFollow: takesAnswers && ahead === ALL,
      };
    }
    const shown = image();
    if (!shown) return null;
    const { item, selection } = plain().dataset;
    const isNew = presses.every(({ answers: [answer] }) => answer.selection !== selection);
    return { items: item, takesAnswers: isNew && getComputedStyle(shown).opacity === "1", isSaved: isNew };
  }

  /** Record from now on when all views that may follow the image in view are ready. */
  function noteWhatFollows() {
    inView.selection = card().dataset.paintedSelection; // the time when it was painted is unknown
    const note = () => {
      const { paintedSelection: selection, ahead } = card().dataset;
      const now = performance.now();
      if (selection && selection !== inView.selection) inView = { selection, painted: now, ahead: null };
      if (selection && ahead === ALL && inView.painted !== null) inView.ahead ??= now - inView.painted;
    };
    const attributeFilter = ["data-painted-selection", "data-ahead"];
    new MutationObserver(note).observe(card(), { attributeFilter });
  }

  window.bench = { presses, page, noteWhatFollows };

  /** Return the answers that a key gives, with the item, its selection and the painted picture. */
  function answersBy(key) {
    const read = ({ item, selection }, shown, answer) => ({
      item: Number(item),
      selection,
      picture: shown.src,
      answer,
    });
    if (grid()) {
      const marked =
        key === "Enter" ? [...card().querySelectorAll(".tile")].filter((tile) => tile.dataset.mark) : [];
      return marked.map((tile) => read(tile.dataset, tile.querySelector("img"), tile.dataset.mark));
    }
    if (!WORDS[key]) return [];
    const { paintedItem: item, paintedSelection: selection } = card()?.dataset ?? {};
    return [read(card() ? { item, selection } : plain().dataset, image(), WORDS[key])];
  }

  document.addEventListener(
    "keydown",
    (event) => {
      if (event.repeat || !page()?.takesAnswers) return;
      const answers = answersBy(event.key);
      if (!answers.length) return;
      const before = image();
      const press = { answers, ms: null, waited: false, visibly: false, ahead_ms: inView.ahead };
      presses.push(press);
      const look = () =>
        requestAnimationFrame(() => {
          const after = image();
          if (!after || after === before) {
            press.waited = true;
            press.visibly ||= card()?.hasAttribute("data-waiting") ?? false;
            look();
            return;
          }
          const channel = new MessageChannel();
          channel.port1.onmessage = () => {
            press.ms = performance.now() - event.timeStamp;
          };
          channel.port2.postMessage(null);
        });
      look();
    },
    true,
  );
}
