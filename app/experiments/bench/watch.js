// Records, in the page and before the page's own handlers, which image is painted when a key is pressed and when
// another image is on the screen, and when a zoomed image is on the screen at full resolution. The recording must not
// slow down what it measures: painted items are read from attributes, only at key presses and when an attribute
// changes, and it causes no layout or drawing.
//
// Times run from the event's time stamp until the first frame with another image, or with all tiles in view, has been
// handed over for painting.

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
  const looks = []; // events that zoomed in on an image
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

  window.bench = { presses, looks, page, noteWhatFollows };

  /** Call a function after painting; a message that an animation callback posts arrives after its frame's painting. */
  function afterPainting(note) {
    const channel = new MessageChannel();
    channel.port1.onmessage = note;
    channel.port2.postMessage(null);
  }

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
          afterPainting(() => {
            press.ms = performance.now() - event.timeStamp;
          });
        });
      look();
    },
    true,
  );

  /** If an event zooms in on an image, record when all tiles in view are painted, and whence the browser had them. */
  function noteLook(event) {
    const frame = card()?.querySelector(".frame");
    if (!frame || frame.dataset.zoomed === "true") return;
    const look = { ms: null };
    looks.push(look);
    performance.clearResourceTimings(); // the browser keeps a limited number
    const see = () =>
      requestAnimationFrame(() => {
        if (frame.dataset.detail !== "shown") {
          see();
          return;
        }
        afterPainting(() => {
          look.ms = performance.now() - event.timeStamp;
          const tiles = [...frame.querySelectorAll(".detail img")];
          look.tiles = tiles.length;
          look.level = Math.max(...tiles.map((tile) => Number(tile.dataset.level)));
          const requests = performance.getEntriesByType("resource");
          look.fetched = requests.filter(
            ({ name, transferSize }) => name.includes("&level=") && transferSize > 0,
          ).length;
        });
      });
    see();
  }

  const isMagnifier = (target) => target instanceof Element && target.closest(".look");
  document.addEventListener("keydown", (event) => event.key === "z" && noteLook(event), true);
  document.addEventListener("wheel", noteLook, { capture: true, passive: true });
  document.addEventListener(
    "click",
    (event) => isMagnifier(event.composedPath()[0]) && noteLook(event),
    true,
  );
}
