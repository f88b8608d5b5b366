"use strict";
// Draws the charts of a page, and makes legend, sorting, copying and printing work. Asks the network for nothing.
(() => {
  const views = [];
  const options = {
    ast: true, // no code is made from text, so that the page's policy can forbid it
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };
  const breath = () => new Promise((resolve) => setTimeout(resolve, 0));

  async function draw() {
    await breath(); // texts and tables can be read before the first chart
    for (const figure of document.querySelectorAll("figure[data-chart]")) {
      const place = figure.querySelector(".canvas");
      try {
        const spec = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
        for (const each of spec.params ?? []) if (each.name === "hidden") each.value = hidden(); // drawn once, not twice
        const { view } = await window.creditscopeDraw(place, spec, options);
        views.push(view);
      } catch (error) {
        place.textContent = "This chart could not be drawn. Its numbers are in the tables.";
        console.error(error);
      }
      await breath();
    }
    document.documentElement.dataset.drawn = String(views.length);
  }

  function hidden() {
    return [...document.querySelectorAll("input[data-series]:not(:checked)")].map((box) => box.dataset.series);
  }

  function legend() {
    const show = () => views.forEach((view) => view.signal("hidden", hidden()).runAsync());
    for (const box of document.querySelectorAll("input[data-series]")) box.addEventListener("change", show);
  }

  function value(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.order === undefined) return cell.textContent.trim();
    const number = Number(cell.dataset.order.replace("inf", "Infinity"));
    return Number.isNaN(number) ? null : number;
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function sortBy(table, head, column) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const absent = (found) => found === null || found === "" || found === "-";
    const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => {
      if (absent(a) || absent(b)) return absent(a) - absent(b); // what was not measured stays at the end
      return down ? compare(b, a) : compare(a, b);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  function sorting() {
    for (const table of document.querySelectorAll("table[data-sortable]")) {
      [...table.tHead.rows[0].cells].forEach((head, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => sortBy(table, head, column));
      });
    }
  }

  function copying() {
    for (const button of document.querySelectorAll("button[data-copy]")) {
      button.addEventListener("click", async () => {
        const source = document.getElementById(button.dataset.copy);
        const told = button.parentElement.querySelector("[role=status]");
        try {
          await navigator.clipboard.writeText(source.textContent);
          told.textContent = "Copied.";
        } catch {
          getSelection().selectAllChildren(source);
          told.textContent = "Selected: copy it with your keyboard.";
        }
      });
    }
  }

  function printing() {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = [...document.querySelectorAll("details:not([open]):not(.export):not(.numbers)")];
      for (const part of opened) part.open = true;
    });
    addEventListener("afterprint", () => {
      for (const part of opened) part.open = false;
    });
  }

  function followLinks() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target) target.scrollIntoView();
  }

  legend();
  sorting();
  copying();
  printing();
  followLinks();
  addEventListener("hashchange", followLinks);
  draw().then(followLinks); // charts move what is below them
})();
