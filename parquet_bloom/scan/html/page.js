"use strict";
const map = document.querySelector("svg.map");
const details = document.querySelector(".details");
if (map && details) {
  const rows = [...map.querySelectorAll("[role=row]")].map((row) => [...row.querySelectorAll(".cell")]);
  const places = new Map();
  rows.forEach((row, y) => row.forEach((cell, x) => { cell.tabIndex = -1; places.set(cell, [y, x]); }));
  const first = rows.flat()[0];
  const hint = details.textContent;
  let current = first;
  if (first) first.tabIndex = 0;
  const tell = (cell) => { details.textContent = cell ? cell.getAttribute("aria-label") : hint; };
  const cellOf = (event) => event.target.closest(".cell");
  map.addEventListener("pointerover", (event) => { const cell = cellOf(event); if (cell) tell(cell); });
  map.addEventListener("pointerleave", () => tell(document.activeElement.closest(".cell")));
  map.addEventListener("focusin", (event) => {
    const cell = cellOf(event);
    if (!cell) return;
    current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
    tell(cell);
  });
  map.addEventListener("keydown", (event) => {
    const [y, x] = places.get(current) || [0, 0];
    const near = (row) => row && (row[Math.min(x, row.length - 1)] || null);
    const wanted = {
      ArrowRight: () => rows[y][x + 1], ArrowLeft: () => rows[y][x - 1],
      ArrowDown: () => near(rows[y + 1]), ArrowUp: () => near(rows[y - 1]),
      Home: () => rows[y][0], End: () => rows[y][rows[y].length - 1],
    }[event.key];
    if (!wanted) return;
    event.preventDefault();
    const next = wanted();
    if (next) next.focus();
  });
}
