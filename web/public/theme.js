// Before the first paint, so that no page flashes in the other theme.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("netaclaw-theme");
  } catch (e) {
    // Storage is denied: the system's theme applies.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
