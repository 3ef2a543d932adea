"use strict";
(() => {
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const toggle = document.querySelector(".theme");
  const stored = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("covec-theme");
      localStorage.setItem("covec-theme", value);
    } catch { /* a browser may forbid storage to files */ }
    return null;
  };
  const wear = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    toggle.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[theme];
    toggle.setAttribute("aria-label", `Colours: ${theme}. Change.`);
    toggle.value = theme;
  };
  wear(themes.includes(stored()) ? stored() : "auto");
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const next = themes[(themes.indexOf(toggle.value) + 1) % themes.length];
    stored(next);
    wear(next);
  });

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = button.closest(".code").querySelector("pre");
      getSelection().selectAllChildren(code);
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  for (const table of document.querySelectorAll("table.cells")) {
    const [top, rest] = table.tBodies;
    const more = table.closest("section").querySelector("button.more");
    const shown = top.rows.length;
    if (rest) {
      rest.hidden = true;
      more.hidden = false;
      more.addEventListener("click", () => {
        rest.hidden = !rest.hidden;
        more.setAttribute("aria-expanded", String(!rest.hidden));
        more.textContent = rest.hidden ? more.dataset.more : more.dataset.fewer;
      });
    }
    table.querySelectorAll("th").forEach((head, column) => {
      const button = head.querySelector("button");
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
        const rows = [...table.querySelectorAll("tbody tr")].sort((a, b) => {
          const [one, two] = [key(a), key(b)];
          const order = one !== "" && two !== "" && !isNaN(one) && !isNaN(two) ? one - two : one.localeCompare(two);
          return down ? -order : order;
        });
        rows.forEach((row, index) => (index < shown || !rest ? top : rest).append(row));
      });
    });
  }

  const open = () => {
    const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = place; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (place) place.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
})();
