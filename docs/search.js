// Browsers start no worker from a page on disk. There, the search's script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.ready = new Promise((resolve) => (frame.begun = resolve));
      const own = "postMessage = (data) => frameElement.answer(data)";
      this.inside.document.write(`<script>${own}</script><script src="${url}" onload="frameElement.begun()"></script>`);
      this.inside.document.close();
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
