"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const { pictures } = JSON.parse(element("page-data").textContent);
  const form = element("picture-choices");
  if (!form || !pictures.length) return;
  const canvas = element("picture-canvas");
  const value = element("picture-value");
  // what is shown: the picture, its two axes, the index along each axis, and the cell that is read out
  const shown = { picture: 0, down: 0, across: 0, at: [], cell: [0, 0], bounds: [0, 0] };

  function number(bits) { // of float16
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, digits = bits & 1023;
    if (exponent === 31) return digits ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + digits / 1024) : 2 ** -24 * digits);
  }
  function numbers(picture) {
    const bytes = Uint8Array.from(atob(picture.numbers), (letter) => letter.charCodeAt(0));
    return Float64Array.from({ length: bytes.length / 2 }, (_, i) => picture.scale * number(bytes[2 * i] | (bytes[2 * i + 1] << 8)));
  }
  const cache = new Map();
  function current() {
    const picture = pictures[shown.picture];
    if (!cache.has(picture)) cache.set(picture, numbers(picture));
    return { picture, sides: picture.sides, values: cache.get(picture) };
  }
  function index(sides, row, column) {
    return sides.reduce((sum, side, i) => {
      const at = i === shown.down ? row : i === shown.across ? column : shown.at[i];
      return sum * side.places.length + at;
    }, 0);
  }

  const MAPS = {
    even: [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]],
    signed: [[178, 24, 43], [244, 165, 130], [247, 247, 247], [146, 197, 222], [33, 102, 172]],
  };
  function colour(share, map) {
    const place = Math.min(Math.max(share, 0), 1) * (map.length - 1), i = Math.min(Math.floor(place), map.length - 2);
    return map[i].map((from, k) => Math.round(from + (place - i) * (map[i + 1][k] - from)));
  }
  function bounds(values, picked) {
    let low = Infinity, high = -Infinity;
    for (const i of picked) {
      if (Number.isFinite(values[i])) { low = Math.min(low, values[i]); high = Math.max(high, values[i]); }
    }
    if (low > high) return [0, 0];
    const peak = Math.max(-low, high);
    return low < 0 && high > 0 ? [-peak, peak] : [low, high];
  }

  function draw() {
    const { picture, sides, values } = current();
    const rows = sides[shown.down].places.length, columns = shown.across === shown.down ? 1 : sides[shown.across].places.length;
    const picked = [];
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) picked.push(index(sides, row, column));
    const [low, high] = shown.bounds = bounds(values, picked);
    const map = low < 0 && high > 0 ? MAPS.signed : MAPS.even;
    // whole pixels a cell; no row is thinner than a few pixels
    const cell = Math.max(1, Math.floor(1024 / columns)), tall = Math.max(1, Math.min(cell, Math.floor(560 / rows)));
    const high_cell = Math.max(tall, Math.ceil(200 / rows));
    canvas.width = columns * cell;
    canvas.height = rows * Math.min(high_cell, 24);
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    picked.forEach((at, i) => {
      const [r, g, b] = Number.isFinite(values[at]) ? colour(high > low ? (values[at] - low) / (high - low) : .5, map) : [128, 128, 128];
      image.data.set([r, g, b, 255], 4 * i);
    });
    const small = document.createElement("canvas");
    small.width = columns;
    small.height = rows;
    small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    const legend = element("picture-scale"), strip = legend.getContext("2d");
    for (let x = 0; x < legend.width; x++) {
      strip.fillStyle = `rgb(${colour(x / (legend.width - 1), map).join(",")})`;
      strip.fillRect(x, 0, 1, 1);
    }
    element("picture-low").textContent = words(low);
    element("picture-middle").textContent = words((low + high) / 2);
    element("picture-high").textContent = words(high);
    canvas.setAttribute("aria-label", `Heat map of ${picture.title}, in the call ${picture.case}: ` +
      `${sides[shown.down].name} down (${extent(sides[shown.down])}), ${sides[shown.across].name} across ` +
      `(${extent(sides[shown.across])}), numbers from ${words(low)} to ${words(high)}`);
  }
  // The place of a few cells along a side: the first, the last, and some between them that are not too near to either.
  function ticks(id, side, name) {
    const count = side.places.length, step = Math.max(1, Math.ceil(count / 5));
    const cells = [...Array(count).keys()].filter((i) => i % step === 0 && (i === 0 || count - 1 - i >= step / 2));
    if (count > 1) cells.push(count - 1);
    element(id).replaceChildren(...cells.map((i) => {
      const text = document.createElement("span");
      text.textContent = side.places[i].toLocaleString("en");
      text.style[id === "picture-rows" ? "top" : "left"] = `${100 * (i + .5) / count}%`;
      return text;
    }));
    element(name).textContent = side.name;
  }
  function axes() {
    const { sides } = current();
    ticks("picture-rows", sides[shown.down], "picture-down");
    const across = shown.across === shown.down ? { places: [], name: "" } : sides[shown.across];
    ticks("picture-columns", across, "picture-across");
    const parts = sides.filter((side) => side.places.length < side.size).map((side) => `${side.name}, ${extent(side)}`);
    element("picture-part").textContent = parts.length ? `Shown: ${[...new Set(parts)].join("; ")}.` : "";
  }
  const words = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(3))) : "masked, or no number");

  function read() {
    const { sides, values } = current();
    const [row, column] = shown.cell;
    const place = sides.map((side, i) => `${side.name} ${side.places[i === shown.down ? row : i === shown.across ? column : shown.at[i]].toLocaleString("en")}`);
    value.textContent = `${place.join(", ")}: ${words(values[index(sides, row, column)])}`;
  }
  function move(row, column) {
    const { sides } = current();
    const clamp = (x, side) => Math.min(Math.max(x, 0), sides[side].places.length - 1);
    shown.cell = [clamp(row, shown.down), clamp(column, shown.across)];
    read();
  }

  function choice(label, options, chosen, change) {
    const select = document.createElement("select");
    options.forEach(([text, key]) => select.add(new Option(text, key, key === chosen, key === chosen)));
    select.addEventListener("change", () => { change(Number(select.value)); });
    add(label, select);
  }
  function slider(label, side, at, change) {
    const range = document.createElement("input");
    Object.assign(range, { type: "range", min: 0, max: side.places.length - 1, step: 1, value: at });
    const text = add(label, range);
    const say = () => { text.textContent = `${label} ${side.places[range.value]}`; };
    range.addEventListener("input", () => { change(Number(range.value)); say(); draw(); });
    say();
  }
  function add(label, control) {
    const box = document.createElement("label"), text = document.createElement("span");
    text.textContent = label;
    box.append(text, control);
    form.append(box);
    return text;
  }
  function settle() { // the axes that a picture has at first: places down, features or keys across
    const sides = pictures[shown.picture].sides;
    const places = sides.map((side, i) => i).filter((i) => ["length", "grid"].includes(sides[i].kind));
    const features = sides.map((side, i) => i).filter((i) => sides[i].kind === "features");
    shown.down = places[0] ?? Math.max(0, sides.length - 2);
    shown.across = places.length > 1 ? places[1] : features.at(-1) ?? sides.length - 1;
    if (shown.across === shown.down && sides.length > 1) shown.across = shown.down ? shown.down - 1 : 1;
    shown.at = sides.map(() => 0);
    shown.cell = [0, 0];
  }
  // How much of a side is here: all of it, the first places, or some.
  function extent({ places, size }) {
    const all = size.toLocaleString("en"), count = places.length.toLocaleString("en");
    if (places.length === size) return all;
    const follow = places.every((place, i) => place === places[0] + i);
    return `${follow ? "the first " : ""}${count} of ${all}`;
  }
  function controls() {
    const sides = pictures[shown.picture].sides, focus = document.activeElement?.closest("label")?.textContent;
    form.replaceChildren();
    if (pictures.length > 1) choice("picture", pictures.map((picture, i) => [picture.title, i]), shown.picture, (i) => { shown.picture = i; settle(); all(); });
    const names = sides.map((side, i) => [`${side.name} (${extent(side)})`, i]);
    if (sides.length > 1) {
      choice("down", names, shown.down, (i) => { if (i === shown.across) shown.across = shown.down; shown.down = i; all(); });
      choice("across", names, shown.across, (i) => { if (i === shown.down) shown.down = shown.across; shown.across = i; all(); });
    }
    sides.forEach((side, i) => {
      if (i !== shown.down && i !== shown.across && side.places.length > 1) slider(side.name, side, shown.at[i], (at) => { shown.at[i] = at; });
    });
    [...form.children].find((box) => box.textContent === focus)?.querySelector("select")?.focus();
  }
  function all() { controls(); draw(); axes(); move(...shown.cell); }

  canvas.addEventListener("pointermove", (event) => {
    const { sides } = current(), box = canvas.getBoundingClientRect();
    const columns = shown.across === shown.down ? 1 : sides[shown.across].places.length;
    move(Math.floor((event.clientY - box.top) / box.height * sides[shown.down].places.length), Math.floor((event.clientX - box.left) / box.width * columns));
  });
  const KEYS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    const step = KEYS[event.key];
    if (!step) return;
    event.preventDefault();
    move(shown.cell[0] + step[0], shown.cell[1] + step[1]);
  });
  settle();
  all();
})();
