"use strict";
// Draw the report that this page holds as JSON; report_page.py says what is in it.
// Its texts become text nodes and labels on a canvas, never markup.

const report = JSON.parse(document.getElementById("report").textContent);

// ------------------------------------------------------------------------------------------------ elements

/** Make an element with properties; children are elements and texts. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Make an SVG element with attributes; children are elements and texts. */
function makeSvg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function formatNumber(number) {
  return number.toLocaleString("en");
}

function formatBytes(bytes) {
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["KB", 1e3]]) {
    if (bytes >= factor) return `${(bytes / factor).toFixed(bytes < 10 * factor ? 1 : 0)} ${unit}`;
  }
  return bytes === 1 ? "1 byte" : `${bytes} bytes`;
}

function formatPercent(share) {
  return `${Number((share * 100).toPrecision(2))} %`;
}

/** Return how many of the numbers from 0 on pass a test that all before a certain one pass, by bisection. */
function countPassing(length, passes) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (passes(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

// ------------------------------------------------------------------------------------------------ texts and tables

function showTexts() {
  document.title = `${report.title}: ${report.where}`.slice(0, 120);
  document.querySelector("h1").textContent = report.title;
  const where = document.querySelector(".where");
  where.textContent = report.where;
  where.hidden = !report.where;
  for (const [label, number, remark] of report.facts) {
    const value = make("dd", {}, number, " ", make("small", {}, remark));
    document.querySelector(".facts").append(make("div", {}, make("dt", {}, label), value));
  }
  const main = document.querySelector("main");
  main.append(...report.notes.map((note) => make("p", { className: "quiet" }, note)));
  for (const [purpose, command] of report.commands) {
    main.append(make("h2", {}, purpose), make("code", {}, command));
  }
  main.append(...report.tables.map(makeTable));
}

/** Make a section with a table, without the columns in which nothing stands, and its curves. */
function makeTable({ heading, about, heads, rows, numbers, curves }) {
  const used = heads.map((_, column) => column).filter((column) => rows.some((row) => row[column]));
  const makeRow = (tag, cells) =>
    make("tr", {}, ...used.map((i) => make(tag, { className: numbers.includes(i) ? "number" : "" }, cells[i])));
  const table = make(
    "table",
    { ariaLabel: heading },
    make("thead", {}, makeRow("th", heads)),
    make("tbody", {}, ...rows.map((row) => makeRow("td", row))),
  );
  return make(
    "section",
    {},
    make("h2", {}, heading),
    make("p", { className: "quiet" }, about),
    make("div", { className: "scroll" }, table),
    make("div", { className: "curves" }, ...curves.map(makeCurve)),
  );
}

/** Plot filters: bytes to the right, false-positive probability upwards, both logarithmic. */
function makeCurve({ column, caption, span, line, dots, asked }) {
  const [width, height, left, right, top, bottom] = [380, 230, 64, 354, 12, 196];
  const [first, last] = span.map(Math.log2);
  const x = (bytes) => left + ((Math.log2(bytes) - first) / (last - first)) * (right - left);
  const y = (fpp) => top + (Math.log10(fpp) / -6) * (bottom - top);
  const text = (content, atX, atY, anchor = "end") =>
    makeSvg("text", { x: atX, y: atY, "text-anchor": anchor }, content);
  const level = (fpp, name) => makeSvg("path", { class: name, d: `M${left} ${y(fpp)}H${right}` });
  const label = `${column}: false-positive probability by bytes of a filter. ${caption}`;
  const plot = makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (let power = 0; power >= -6; power--) {
    plot.append(level(10 ** power, "rule"));
    if (power % 2 === 0) plot.append(text(formatPercent(10 ** power), left - 6, y(10 ** power) + 4));
  }
  for (let power = first; power <= last; power += Math.ceil((last - first) / 5)) {
    const bytes = 2 ** power;
    const name = bytes >= 1 << 20 ? `${bytes >> 20} MiB` : bytes >= 1 << 10 ? `${bytes >> 10} KiB` : `${bytes} B`;
    plot.append(text(name, x(bytes), bottom + 18, "middle"));
  }
  plot.append(text("bytes of a filter", right, height - 3));
  const points = line.map(([bytes, fpp]) => `${x(bytes).toFixed(1)} ${y(fpp).toFixed(1)}`);
  plot.append(makeSvg("path", { class: "line", d: `M${points.join("L")}` }));
  if (asked) plot.append(level(asked, "asked"), text(`asked: ${formatPercent(asked)}`, right, y(asked) - 4));
  plot.append(...dots.map(([bytes, fpp]) => makeSvg("circle", { class: "dot", cx: x(bytes), cy: y(fpp), r: 3.5 })));
  return make("figure", {}, plot, make("figcaption", {}, make("b", {}, column), `: ${caption}`));
}

// ------------------------------------------------------------------------------------------------ where cells stand

const STEPS = [22, 18, 15, 12, 10, 8, 6, 5, 4]; // pixels from square to square: the first that is low enough
const LOW_ENOUGH = 560; // pixels of all lines of squares
const LABEL_WIDTH = 230; // left of the cells, where the page is at least WIDE
const WIDE = 700;
const LINE_OF_TEXT = 16;
const TOP = 6; // pixels above the first line
const GROUP_GAP = 5; // after a group of several cells
const LONG = 4; // cells of a group that is a strip of its own, unless there are more than MOST_STRIPS of these
const MOST_STRIPS = 60;
const STRIP_HEIGHT = 17;
const STRIP_GAP = 6; // between a strip and squares
const WIDEST = 108; // of the cells of a strip
const SHORT = 8; // characters of an ending that labels keep, such as ".parquet"

/** The cells with their groups, and where they stand: small groups fill lines of squares, a long one is a strip. */
class CellMap {
  constructor(data) {
    this.data = data;
    this.length = data.kind_of.length;
    this.x = new Float32Array(this.length);
    this.groupOf = new Uint32Array(this.length);
    this.firstOf = new Uint32Array(data.groups.length);
    this.readsOf = new Uint32Array(data.groups.length);
    let cell = 0;
    data.groups.forEach(([, , count], group) => {
      this.firstOf[group] = cell;
      for (const end = cell + count; cell < end; cell++) {
        this.groupOf[cell] = group;
        if (this.stateOf(cell).read) this.readsOf[group]++;
      }
    });
  }

  stateNumber(cell) {
    return this.data.kinds[this.data.kind_of[cell]][0];
  }

  stateOf(cell) {
    return this.data.states[this.stateNumber(cell)];
  }

  pathOf(group) {
    const [folder, name] = this.data.groups[group];
    return this.data.folders[folder] + name + this.data.ending;
  }

  /** Return the path of a group without a long ending that all have. */
  labelOf(group) {
    const [folder, name] = this.data.groups[group];
    return this.data.ending.length > SHORT ? `${this.data.folders[folder]}${name}…` : this.pathOf(group);
  }

  layOut(width) {
    this.width = width;
    this.left = width >= WIDE ? LABEL_WIDTH : 0;
    for (const step of STEPS) {
      this.place(step);
      if (this.lines.reduce((sum, line) => sum + (line.isStrip ? 0 : line.high), 0) <= LOW_ENOUGH) return;
    }
  }

  /** Place all cells, squares at a distance of `step`, and list the lines with their first and last cells. */
  place(step) {
    const { groups, is_share: isShare } = this.data;
    const room = this.width - this.left;
    const counts = groups.map(([, , count]) => count);
    const fewAreLong = counts.filter((count) => count >= LONG).length <= MOST_STRIPS;
    const isAlone = (count) => isShare || (fewAreLong && count >= LONG);
    const fits = (count) => isAlone(count) && count * step <= room;
    const longest = counts.reduce((most, count) => (fits(count) ? Math.max(most, count) : most), 1);
    const across = Math.max(step, Math.min(WIDEST, Math.floor(room / longest)));
    let line = null;
    let x = 0;
    const begin = (group, cell, isFirst) => {
      const [isStrip, alone] = [fits(counts[group]), isAlone(counts[group])];
      const high = isStrip ? STRIP_HEIGHT : step;
      let y = line ? line.y + line.high : TOP;
      if (line && isFirst && (alone || line.alone)) y += isStrip && line.isStrip ? 0 : STRIP_GAP;
      if (alone && isFirst && !this.left) y += LINE_OF_TEXT + 4; // its label stands above
      line = { y, high, wide: isStrip ? across : step, isStrip, alone, isFirst, group, first: cell, last: cell };
      this.lines.push(line);
      x = this.left;
    };
    this.lines = [];
    counts.forEach((count, group) => {
      let cell = this.firstOf[group];
      const isFull = x > this.left && x + count * step > this.width && count * step <= room;
      if (count && (!line || line.alone || isFull || isAlone(count))) begin(group, cell, true);
      for (const end = cell + count; cell < end; cell++) {
        if (x + line.wide > this.width && x > this.left) begin(group, cell, false);
        this.x[cell] = x;
        line.last = cell;
        x += line.wide;
      }
      if (count > 1) x += GROUP_GAP;
    });
    this.height = line ? line.y + Math.max(line.high, LINE_OF_TEXT) : 0;
  }

  /** Return the number of the line at a height. */
  lineAt(y) {
    return countPassing(this.lines.length, (line) => this.lines[line].y <= y) - 1;
  }

  /** Return the cell at a place, or -1. */
  cellAt(x, y) {
    const line = this.lines[this.lineAt(y)];
    if (!line || y >= line.y + line.high) return -1;
    const cell = line.first + countPassing(line.last - line.first + 1, (i) => this.x[line.first + i] <= x) - 1;
    return cell >= line.first && x < this.x[cell] + line.wide ? cell : -1;
  }

  /** Return the number of the line of a cell. */
  lineOf(cell) {
    return countPassing(this.lines.length, (line) => this.lines[line].first <= cell) - 1;
  }

  /** Return the cell that a key leads to from another, among those that pass `isShown`; -1 if there is none. */
  neighbour(from, key, isShown) {
    const scan = (cell, step, last) => {
      while (cell !== last + step && !isShown(cell)) cell += step;
      return cell === last + step ? -1 : cell;
    };
    const here = this.lineOf(from);
    const { first, last } = this.lines[here];
    const rows = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 }[key];
    if (rows) {
      const start = Math.max(0, Math.min(this.lines.length - 1, here + rows));
      for (let line = start; line !== here && this.lines[line]; line += Math.sign(rows)) {
        const cell = this.nearest(this.lines[line], this.x[from], isShown);
        if (cell >= 0) return cell;
      }
      return -1;
    }
    if (key === "ArrowRight") return from === this.length - 1 ? -1 : scan(from + 1, 1, this.length - 1);
    if (key === "ArrowLeft") return from === 0 ? -1 : scan(from - 1, -1, 0);
    return key === "Home" ? scan(first, 1, last) : scan(last, -1, first);
  }

  nearest(line, x, isShown) {
    let found = -1;
    for (let cell = line.first; cell <= line.last; cell++) {
      if (isShown(cell) && (found < 0 || Math.abs(this.x[cell] - x) < Math.abs(this.x[found] - x))) found = cell;
    }
    return found;
  }
}

// ------------------------------------------------------------------------------------------------ drawing

const PATTERN_STEP = 8; // smaller cells have plain colours
const TILE = 8;
const [READ_INK, SKIPPED_INK] = [0.65, 0.35]; // of the pattern's colour in plain cells: those that are read stand out
const FADED = 0.13; // of cells that the legend does not show
const MOST_PIXELS = 16e6; // of a canvas, which phones limit
const MOST_HIGH = 16000;
const isDark = matchMedia("screen and (prefers-color-scheme: dark)");

function colorsOf(state) {
  return isDark.matches ? state.dark : state.light;
}

/** Return the colour of cells that are too small for a pattern: between that of the state and that of its pattern. */
function plainOf(state) {
  const [ground, ink] = colorsOf(state);
  const channels = [1, 3, 5].map((at) => {
    const [from, to] = [ground, ink].map((color) => parseInt(color.slice(at, at + 2), 16));
    return Math.round(from + (state.read ? READ_INK : SKIPPED_INK) * (to - from));
  });
  return `rgb(${channels})`;
}

/** Return what fills cells of a state: its colour, with its pattern if it has one. */
function fillOf(state, context, scale) {
  const [ground, ink] = colorsOf(state);
  if (!state.pattern) return ground;
  const tile = make("canvas", { width: TILE * scale, height: TILE * scale });
  const brush = tile.getContext("2d");
  brush.scale(tile.width / TILE, tile.height / TILE);
  brush.fillStyle = ground;
  brush.fillRect(0, 0, TILE, TILE);
  brush.strokeStyle = ink;
  brush.lineWidth = 1.4;
  brush.stroke(new Path2D(state.pattern));
  const fill = context.createPattern(tile, "repeat");
  fill.setTransform(new DOMMatrix().scale(TILE / tile.width));
  return fill;
}

function makeSwatch(state) {
  const scale = devicePixelRatio;
  const swatch = make("canvas", { className: "swatch", width: 14 * scale, height: 14 * scale });
  const context = swatch.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = fillOf(state, context, scale);
  context.fillRect(0, 0, 14, 14);
  return swatch;
}

/** Draw all cells and the labels of lines. */
function drawMap(map, canvas, isStateShown) {
  const { width, height, lines } = map;
  const scale = Math.min(devicePixelRatio, Math.sqrt(MOST_PIXELS / (width * height)), MOST_HIGH / height);
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  map.data.states.forEach((state, number) => {
    const [plain, patterned] = [plainOf(state), fillOf(state, context, scale)];
    context.globalAlpha = isStateShown(number) ? 1 : FADED;
    for (const { y, high, wide, first, last } of lines) {
      const gap = high > 8 ? 2 : high > 5 ? 1 : 0;
      context.fillStyle = high < PATTERN_STEP ? plain : patterned;
      for (let cell = first; cell <= last; cell++) {
        if (map.stateNumber(cell) === number) context.fillRect(map.x[cell], y, wide - gap, high - gap);
      }
    }
  });
  context.globalAlpha = 1;
  drawLabels(map, context);
}

/** Write the first group of each line on its left, or, where there is no room, above the lines of one group. */
function drawLabels(map, context) {
  const style = getComputedStyle(document.documentElement);
  const room = map.left ? map.left - 12 : map.width;
  context.textAlign = map.left ? "right" : "left";
  context.textBaseline = map.left ? "middle" : "bottom";
  let last = -Infinity;
  for (const line of map.lines) {
    if (!line.isFirst && line.alone) continue;
    if (map.left ? line.y - last < LINE_OF_TEXT : !line.alone) continue;
    const isRead = line.alone && !map.data.is_share && map.readsOf[line.group] > 0;
    context.font = `${isRead ? "600 " : ""}11.5px ${style.getPropertyValue("--mono")}`;
    context.fillStyle = style.getPropertyValue(isRead ? "--ink" : "--quiet");
    const text = fitText(context, map.labelOf(line.group), room);
    context.fillText(text, map.left ? room : 0, map.left ? line.y + line.high / 2 : line.y - 4);
    last = line.y;
  }
}

/** Shorten a text to a width by leaving out its middle. */
function fitText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const characters = [...text];
  const shorten = (length) => {
    const tail = Math.floor(length / 2);
    return `${characters.slice(0, length - tail).join("")}…${characters.slice(characters.length - tail).join("")}`;
  };
  return shorten(countPassing(characters.length, (length) => context.measureText(shorten(length + 1)).width <= width));
}

// ------------------------------------------------------------------------------------------------ the map in use

/** Show the map, and let pointer and keys point at cells, pin one, and choose what is shown. */
function showMap(data) {
  const section = document.querySelector(".map");
  const find = (selector) => section.querySelector(selector);
  const canvas = find(".board canvas");
  const map = new CellMap(data);
  const chosen = new Set(); // numbers of the states that the legend was asked for; none for all
  const isStateShown = (number) => !chosen.size || chosen.has(number);
  const isShown = (cell) => isStateShown(map.stateNumber(cell));
  let current = -1; // cell under the pointer or the keys
  let pinned = -1;

  section.hidden = false;
  find("h2").textContent = data.heading;
  find(".about").textContent = data.about;
  canvas.ariaLabel = `${data.heading}. ${data.states.map(({ label, count }) => `${label}: ${count}`).join(", ")}`;

  function draw() {
    drawMap(map, canvas, isStateShown);
  }

  /** Lay out and draw the map anew if the page has another width. */
  function fit() {
    const width = find(".board").clientWidth;
    if (width === map.width || !width) return;
    map.layOut(width);
    draw();
    showDetails();
  }

  function drawLegend() {
    const buttons = data.states.map((state, number) => {
      const button = make("button", { type: "button" }, makeSwatch(state), state.label);
      if (!data.is_share) button.append(make("b", {}, formatNumber(state.count)));
      button.dataset.state = state.key;
      button.ariaPressed = String(chosen.has(number));
      button.addEventListener("click", () => choose(number));
      return button;
    });
    find(".legend").replaceChildren(...buttons);
  }

  function choose(number) {
    if (!chosen.delete(number)) chosen.add(number);
    drawLegend();
    find(`[data-state="${data.states[number].key}"]`).focus();
    draw();
  }

  /** Describe a cell in nodes: what it is, what becomes of it, and why. */
  function describe(cell) {
    const group = map.groupOf[cell];
    const state = map.stateOf(cell);
    const [, , count] = data.groups[group];
    const place = state.is_group || data.is_share ? "" : `, ${data.cell} ${cell - map.firstOf[group]}`;
    const rows = data.rows[cell] >= 0 ? `, ${formatNumber(data.rows[cell])} rows` : "";
    const bytes = data.bytes[cell] >= 0 ? `, ${formatBytes(data.bytes[cell])}` : "";
    const [, text] = data.kinds[data.kind_of[cell]];
    const lines = [`${state.label}${rows}${bytes}`, text];
    if (place && count > 1) {
      lines.push(`${map.readsOf[group]} of the ${count} ${data.cell}s of this ${data.group} are read`);
    }
    return [make("b", {}, map.pathOf(group) + place), "\n", makeSwatch(state), lines.filter(Boolean).join("\n")];
  }

  function mark(element, cell) {
    element.hidden = cell < 0;
    if (cell < 0) return;
    const { y, high, wide } = map.lines[map.lineOf(cell)];
    const [left, top, width, height] = [map.x[cell] - 2, y - 2, wide + 2, high + 2].map((pixels) => `${pixels}px`);
    Object.assign(element.style, { left, top, width, height });
  }

  function showDetails() {
    mark(find(".mark:not(.pin)"), current);
    mark(find(".mark.pin"), pinned);
    const [pinBox, box] = [find(".pinned"), find(".current")];
    pinBox.hidden = pinned < 0;
    box.classList.toggle("quiet", current < 0);
    box.hidden = pinned >= 0 && (current < 0 || current === pinned);
    if (pinned >= 0) pinBox.replaceChildren(...describe(pinned));
    if (current >= 0) box.replaceChildren(...describe(current));
    else box.textContent = "Point at a cell, or tap it, to see what it is.";
  }

  function pointAt(cell) {
    if (cell === current) return;
    current = cell;
    showDetails();
  }

  function pin(cell) {
    pinned = cell === pinned ? -1 : cell;
    showDetails();
  }

  function clear() {
    pinned = -1;
    chosen.clear();
    drawLegend();
    draw();
    showDetails();
  }

  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") pointAt(map.cellAt(event.offsetX, event.offsetY));
  });
  canvas.addEventListener("pointerleave", () => pointAt(-1));
  canvas.addEventListener("click", (event) => {
    const cell = map.cellAt(event.offsetX, event.offsetY);
    if (cell < 0) return;
    pointAt(cell);
    pin(cell);
  });
  canvas.addEventListener("keydown", (event) => {
    const key = event.key;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === "Escape") clear();
    else if ((key === "Enter" || key === " ") && current >= 0) pin(current);
    else if (/^(Arrow(Left|Right|Up|Down)|Home|End|Page(Up|Down))$/.test(key) && map.length) {
      const from = current >= 0 ? current : Math.max(pinned, 0);
      const next = current < 0 && isShown(from) ? from : map.neighbour(from, key, isShown);
      if (next >= 0) pointAt(next);
      find(".mark:not(.pin)").scrollIntoView({ block: "nearest" });
    } else return;
    event.preventDefault();
  });
  isDark.addEventListener("change", () => {
    drawLegend();
    draw();
    showDetails();
  });
  new ResizeObserver(fit).observe(find(".board"));
  fit();
  drawLegend();
}

showTexts();
if (report.map) showMap(report.map);
