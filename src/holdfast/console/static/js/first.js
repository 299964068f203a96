// Runs before anything else is loaded: sets the theme that was chosen, so that the page does not
// flash in the other one, and says which file failed if one does, in place of a white page.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("holdfast.theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;

  const failed = (what) => {
    const box = document.getElementById("boot-failure");
    if (!box) return; // The console has started, and says itself what goes wrong.
    document.getElementById("boot-why").textContent = what;
    document.getElementById("boot-wait").hidden = true;
    box.hidden = false;
  };
  addEventListener(
    "error",
    (event) => {
      const from = event.target;
      if (from instanceof HTMLScriptElement) failed(`This file did not load: ${from.src}`);
      else if (from instanceof HTMLLinkElement) failed(`This file did not load: ${from.href}`);
      else if (event.message) failed(`${event.message} (${event.filename}:${event.lineno})`);
    },
    true,
  );
  setTimeout(() => failed("It has not started within 15 seconds."), 15000);
})();
