"use strict";
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const THEME = "pirank-report-theme";

// A browser may refuse storage to a file that was opened by double click.
function remembered(value) {
  try {
    if (value) localStorage.setItem(THEME, value);
    return localStorage.getItem(THEME);
  } catch {
    return value || null;
  }
}
const chosen = remembered();
if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

function themes() {
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const say = () => {
    const label = isDark() ? "Light colours" : "Dark colours";
    button.setAttribute("aria-label", label);
    button.title = label;
  };
  button.innerHTML = '<svg viewBox="0 0 20 20" aria-hidden="true"><circle cx="10" cy="10" r="8" fill="none" ' +
    'stroke="currentColor" stroke-width="1.8"/><path d="M10 2a8 8 0 0 1 0 16Z" fill="currentColor"/></svg>';
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembered(root.dataset.theme);
    say();
  });
  prefersDark.addEventListener("change", say);
  say();
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, index) => {
    const isNumber = head.classList.contains("number");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    // A first column without a heading holds the names of the rows.
    if (!head.textContent.trim()) button.setAttribute("aria-label", "Name");
    const arrow = document.createElement("i");
    arrow.setAttribute("aria-hidden", "true");
    arrow.textContent = "↓";
    button.append(...head.childNodes, arrow);
    head.append(button);
    const key = (row) => {
      const cell = row.cells[index];
      const text = cell.dataset.sort ?? cell.textContent;
      return isNumber ? (text === "" ? NaN : Number(text)) : text;
    };
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const first = isNumber && !head.dataset.lower ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = now === first ? other : first;
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [key(row), row]);
      // What is missing stays last in both directions; equal rows keep their order.
      rows.sort(([a], [b]) =>
        isNumber
          ? Number.isNaN(a) - Number.isNaN(b) || (Number.isNaN(a) ? 0 : sign * (a - b))
          : sign * a.localeCompare(b, "en", { numeric: true }));
      body.append(...rows.map(([, row]) => row));
      heads.forEach((each) => each.setAttribute("aria-sort", each === head ? order : "none"));
      heads.forEach((each) => (each.querySelector("i").textContent =
        each.getAttribute("aria-sort") === "ascending" ? "↑" : "↓"));
    });
  });
}

function element(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function readable(plot, spoken) {
  const data = JSON.parse(plot.querySelector("script").textContent);
  const figure = plot.closest("figure");
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  plot.append(tip);
  let current = -1;
  let cursor = null;

  const view = () => {
    const name = getComputedStyle(plot.querySelector("svg.wide")).display === "none" ? "narrow" : "wide";
    const [width, height, top, bottom, places] = data.views[name];
    return { svg: plot.querySelector("svg." + name), width, height, top, bottom, places };
  };
  const centre = (place) =>
    place.length === 2 ? [place[0], 0] : [place[0] + place[2] / 2, place[1] + place[3] / 2];

  function nearest(x, y, places) {
    let best = -1, least = Infinity;
    places.forEach((place, index) => {
      const [cx, cy] = centre(place);
      const away = data.near === "x" ? Math.abs(cx - x) : data.near === "y" ? Math.abs(cy - y)
        : Math.hypot(cx - x, cy - y);
      if (away < least) [best, least] = [index, away];
    });
    return best;
  }

  function draw(place, { svg, top, bottom }) {
    cursor?.remove();
    cursor = element("g", { class: "cursor" });
    if (place.length === 2) {
      cursor.append(element("path", { class: "guide", d: `M${place[0]} ${top}V${bottom}` }));
      for (const [series, y] of place[1]) {
        const dot = { class: "dot " + data.series[series][1], cx: place[0], cy: y, r: 4.5 };
        cursor.append(element("circle", dot));
      }
    } else {
      const [x, y, width, height] = place;
      cursor.append(element("rect", { class: data.near === "y" ? "row" : "frame", x, y, width, height, rx: 3 }));
    }
    svg.append(cursor);
  }

  function fill(title, rows, near) {
    const head = document.createElement("b");
    head.textContent = title;
    const table = document.createElement("table");
    for (const [series, value] of rows) {
      const row = table.insertRow();
      if (series >= 0) {
        // The picture is the report's own drawing; names and values are set as text.
        row.insertCell().innerHTML = data.series[series][2];
        row.insertCell().textContent = data.series[series][0];
      }
      row.insertCell().textContent = value;
      row.classList.toggle("near", series === near && rows.length > 1);
    }
    tip.replaceChildren(head, table);
  }

  function show(index, { y = null, speak = false } = {}) {
    const seen = view();
    const place = seen.places[index];
    if (!place) return;
    current = index;
    let [title, rows] = data.stops[index];
    let near = -2;
    if (place.length === 2) {
      // The list reads from the top line down, as the lines stand.
      const heights = new Map(place[1]);
      rows = [...rows].sort((a, b) => heights.get(a[0]) - heights.get(b[0]));
      if (y !== null) {
        near = [...heights].reduce((a, b) => (Math.abs(b[1] - y) < Math.abs(a[1] - y) ? b : a))[0];
      }
    }
    draw(place, seen);
    fill(title, rows, near);
    tip.hidden = false;
    const scale = seen.svg.getBoundingClientRect().width / seen.width;
    const [cx, cy] = centre(place);
    const space = plot.clientWidth - tip.offsetWidth;
    let left, above;
    if (place.length === 2 && tip.offsetWidth > 0.55 * plot.clientWidth) {
      // On a phone it would hide the lines: it goes above the plot, where no thumb is, or else below.
      left = cx * scale - tip.offsetWidth / 2;
      above = seen.top * scale - tip.offsetHeight - 6;
      if (seen.svg.getBoundingClientRect().top + above < 0) above = seen.height * scale + 6;
    } else if (place.length === 2) {
      left = cx * scale + 16;
      if (left > space) left = cx * scale - tip.offsetWidth - 16;
      // It stands where the lines leave room: below the lowest of them, above the highest, or else at the pointer.
      const heights = place[1].map(([, height]) => height * scale);
      const low = seen.bottom * scale - tip.offsetHeight - 8;
      const high = seen.top * scale;
      if (Math.max(...heights) + 14 < low) above = low;
      else if (Math.min(...heights) - 14 > high + tip.offsetHeight) above = high;
      else above = Math.max(0, Math.min((y ?? 0) * scale - tip.offsetHeight / 2, seen.height * scale - tip.offsetHeight));
    } else {
      left = data.near === "y" ? cx * scale : cx * scale - tip.offsetWidth / 2;
      above = (place[1] + place[3]) * scale + 6;
    }
    tip.style.left = Math.max(0, Math.min(left, space)) + "px";
    tip.style.top = above + "px";
    if (speak) {
      const names = rows.map(([series, value]) => (series >= 0 ? data.series[series][0] + " " : "") + value);
      spoken.textContent = title + ": " + names.join(", ");
    }
  }

  function hide() {
    cursor?.remove();
    tip.hidden = true;
    current = -1;
  }

  const follow = (event) => {
    const seen = view();
    const frame = seen.svg.getBoundingClientRect();
    const scale = frame.width / seen.width;
    const x = (event.clientX - frame.left) / scale, y = (event.clientY - frame.top) / scale;
    const found = nearest(x, y, seen.places);
    if (found >= 0) show(found, { y });
  };
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  plot.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") hide();
  });
  plot.addEventListener("blur", hide);
  plot.addEventListener("focus", () => {
    if (plot.matches(":focus-visible")) show(data.near === "x" ? data.stops.length - 1 : 0, { speak: true });
  });
  plot.addEventListener("keydown", (event) => {
    const last = data.stops.length - 1;
    const wide = data.near === "xy" ? view().places.filter((place) => place[1] === view().places[0][1]).length : 1;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide };
    if (event.key === "Escape") return hide();
    let next = event.key === "Home" ? 0 : event.key === "End" ? last : null;
    if (event.key in steps) next = current + steps[event.key];
    if (next === null) return;
    event.preventDefault();
    if (next >= 0 && next <= last) show(next, { speak: true });
  });

  // Pointing at a name in the legend dims the other lines.
  const groups = [...figure.querySelectorAll("[data-series]")];
  for (const entry of figure.querySelectorAll(".legend li")) {
    const dim = (on) => groups.forEach((each) =>
      each.classList.toggle("dim", on && each.dataset.series !== entry.dataset.series));
    entry.addEventListener("pointerenter", () => dim(true));
    entry.addEventListener("pointerleave", () => dim(false));
  }
}

function copyable(box) {
  if (!navigator.clipboard) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(box.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  box.append(button);
}

addEventListener("DOMContentLoaded", () => {
  themes();
  document.querySelectorAll("table.sortable").forEach(sortable);
  const spoken = document.getElementById("spoken");
  document.querySelectorAll(".plot").forEach((plot) => readable(plot, spoken));
  document.querySelectorAll(".command").forEach(copyable);
  // Containers that scroll can be reached by keyboard; the others are no stop on the way.
  const reach = () => document.querySelectorAll(".scroll").forEach((box) => {
    if (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  });
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
  reach();
});
