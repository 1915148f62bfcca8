// Light or dark: the system's, until the button says otherwise.

function beginTheme() {
  const button = byId("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.style.colorScheme || (dark.matches ? "dark" : "light")) === "dark";
  const update = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`);
    button.setAttribute("aria-pressed", String(isDark()));
  };
  button.addEventListener("click", () => { document.documentElement.style.colorScheme = isDark() ? "light" : "dark"; update(); });
  dark.addEventListener("change", update);
  update();
}
