// A page that is opened as a file may start no worker. The search then runs in a frame that nobody sees.
// (The plugin `offline` would take this from another host; it leaves that away for a script of this name.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.body.appendChild(document.createElement("iframe"));
      this.frame.hidden = true;
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((resolve) => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        inside.document.head.append(script);
      });
    }

    postMessage(data) {
      const { contentWindow } = this.frame;
      this.ready.then(() => contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
