// The page "Drag the scale of a block": shows the row of the measured grid that the slider names, and where it lies.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const grid = JSON.parse(document.getElementById("explore-grid").textContent);
  const slider = document.getElementById("explore-scale");
  const said = document.getElementById("explore-said");
  const superscript = (value) => [...String(value)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? { "-": "⁻", ".": "·" }[c]).join("");
  const power = (value) => {
    const exponent = Math.floor(Math.log10(value));
    return `${(value / 10 ** exponent).toFixed(1)} · 10${superscript(exponent)}`;
  };
  const shown = {
    state: (v) => (v < 1e3 ? v.toPrecision(3) : power(v)),
    gradient: power,
    clamped: (v) => v.toFixed(3),
    exact: (v) => v.toFixed(3),
    sensitivity: (v) => v.toFixed(2),
    accuracy: (v) => `${(100 * v).toFixed(1)} %`,
  };
  const show = () => {
    const step = Number(slider.value);
    const row = grid.rows[step];
    for (const [name, text] of Object.entries(shown)) {
      document.getElementById(`explore-${name}`).textContent = text(row[name]);
      const mark = document.getElementById(`explore-mark-${name}`);
      const point = grid.points[name][step];
      mark.setAttribute("cx", point[0]);
      mark.setAttribute("cy", point[1]);
    }
    const factor = grid.exponents[step] === 0 ? "1" : `10${superscript(grid.exponents[step])}`;
    document.getElementById("explore-factor").textContent = factor;
    slider.setAttribute("aria-valuetext", `10 to the power ${grid.exponents[step]}`);
    said.textContent = `Scale ${factor}: clamped Γ ${shown.clamped(row.clamped)}, exact Γ ${shown.exact(row.exact)}, ` +
      `accuracy ${shown.accuracy(row.accuracy)}.`;
  };
  slider.addEventListener("input", show);
  slider.disabled = false;
  show();
});
