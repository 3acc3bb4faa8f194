// Browsers start no Worker for a page that is read from the disk (file:). There the search runs in a hidden frame.

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = Object.assign(document.createElement("iframe"), { hidden: true });
      document.body.append(frame);
      const inside = (this.inside = frame.contentWindow);
      inside.postMessage = (data) => this.tell(this, data);
      inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => load(inside, one)), Promise.resolve());
      load(inside, url).then(() => {
        this.isReady = true;
        for (const data of this.waiting.splice(0)) this.tell(inside, data);
      });
    }

    postMessage(data) {
      if (this.isReady) this.tell(this.inside, data);
      else this.waiting.push(data);
    }

    tell(whom, data) {
      const event = new MessageEvent("message", { data });
      whom.dispatchEvent(event);
      if (whom === this) this.onmessage?.(event);
    }

    terminate() {
      this.inside.frameElement?.remove();
    }
  };

  const load = (inside, src) =>
    new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.onload = resolve;
      script.onerror = reject;
      script.src = src;
      inside.document.body.append(script);
    });
}
