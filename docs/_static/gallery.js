// The gallery: every column head is a button that sorts the table, and a field keeps the rows that hold a text.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("table.sortable");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const text = (row, column) => row.cells[column].textContent.trim();
  const key = (row, column) => {
    const value = text(row, column);
    const number = value.match(/^[+-]?\d+(\.\d+)?(e[+-]?\d+)?/i);
    return number ? Number(number[0]) : value === "-" ? null : value.toLowerCase();
  };
  const compare = (a, b) => (typeof a === typeof b && typeof a === "number" ? a - b : String(a).localeCompare(String(b)));
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("scope", "col");
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const known = rows.filter((row) => key(row, column) !== null);
      known.sort((a, b) => (down ? -1 : 1) * compare(key(a, column), key(b, column)));
      body.append(...known, ...rows.filter((row) => key(row, column) === null)); // rows without a value stay last
    });
  });
  const filter = document.getElementById("gallery-filter");
  const count = document.getElementById("gallery-count");
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    rows.forEach((row) => { row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word)); });
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };
  filter.addEventListener("input", show);
  document.getElementById("gallery-tools").hidden = false;
  show();
});
