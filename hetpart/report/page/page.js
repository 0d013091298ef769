"use strict";
(() => {
  const blob = document.getElementById("ops-data");
  if (!blob) return;
  const PAGE = 100;
  const MARKS = ["●", "■", "▲", "◆"];
  const data = JSON.parse(blob.textContent);
  const table = document.getElementById("ops-table");
  const body = table.tBodies[0];
  const filter = document.getElementById("ops-filter");
  const device = document.getElementById("ops-device");
  const count = document.getElementById("ops-count");
  const more = document.getElementById("ops-more");

  // Each text is what it shares with the one before, then its own end.
  const whole = (coded) => {
    const texts = [];
    for (let i = 0, before = ""; i < coded.length; i += 2) {
      before = before.slice(0, coded[i]) + coded[i + 1];
      texts.push(before);
    }
    return texts;
  };
  const names = whole(data.names);
  const types = whole(data.types);
  const scopes = whole(data.scopes);
  const lines = whole(data.lines);
  const reasons = data.reasons.map((filled) => {
    const [form, ...figures] = filled.split(" ");
    return data.forms[form].replace(/\0/g, () => figures.shift());
  });

  const digits = (figure) => figure.toFixed(figure < 9.995 ? 2 : figure < 99.95 ? 1 : 0);
  const inUnits = (units) => (figure) => {
    const found = units.find(([, scale]) => figure >= 0.9995 * scale);
    return found && `${digits(figure / found[1])} ${found[0]}`;
  };
  const longTime = inUnits([["s", 1e6], ["ms", 1e3], ["µs", 1]]);
  const manyBytes = inUnits([["TB", 1e9], ["GB", 1e6], ["MB", 1e3], ["kB", 1]]);
  const time = (us) => (us === null ? "no kernel" : longTime(us) || `${(us * 1e3).toFixed(0)} ns`);
  const bytes = (kilobytes) => manyBytes(kilobytes) || `${Math.round(kilobytes * 1e3)} B`;
  const ratio = (figure) =>
    figure >= 1000 ? figure.toLocaleString("en-US") : figure && figure < 0.001 ? "<0.001" : String(figure);

  // Names and tables of texts are sorted already: their numbers sort as they do.
  const deviceOf = (row) => data.device[data.partition[row]];
  const numbers = (column) => (row) => column[row] ?? Infinity;
  const columns = [
    { key: (row) => row, text: (row) => names[row], style: "name", up: true },
    { key: numbers(data.type), text: (row) => types[data.type[row]], style: "type", up: true },
    { key: deviceOf, text: (row) => data.devices[deviceOf(row)], up: true, mark: true },
    { key: numbers(data.partition), text: (row) => String(data.partition[row]), style: "number", up: true },
    { key: numbers(data.time), text: (row) => time(data.time[row]), style: "number" },
    { key: numbers(data.elsewhere), text: (row) => time(data.elsewhere[row]), style: "number" },
    { key: numbers(data.kilobytes), text: (row) => bytes(data.kilobytes[row]), style: "number" },
    { key: numbers(data.intensity), text: (row) => ratio(data.intensity[row]), style: "number" },
    { key: numbers(data.reason), text: (row) => reasons[data.reason[row]], style: "dim reason", up: true },
  ];
  const state = { column: 4, up: false, shown: PAGE };
  const all = names.map((_, row) => row);
  let found = all;
  let searched = null;

  const element = (name, style, text) => {
    const made = document.createElement(name);
    if (style) made.className = style;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  // As in the text report: the module, where the name does not say it.
  const moduleOf = (row) => {
    const scope = scopes[data.scope[row]];
    return names[row].replace(/^\/+/, "").replaceAll("/", ".").startsWith(scope) ? "" : scope;
  };
  const cell = (column, row) => {
    const made = element("td", column.style);
    made.setAttribute("role", "cell");
    made.dataset.label = column.label;
    if (column.mark) {
      const place = deviceOf(row) % MARKS.length;
      const mark = element("span", `mark d${place}`, MARKS[place]);
      mark.setAttribute("aria-hidden", "true");
      made.append(mark, " ");
    }
    if (column.style === "number" && data.elsewhere[row] === null && column === columns[5]) made.className += " dim";
    made.append(element("bdi", "", column.text(row)));
    const below = column === columns[0] ? [moduleOf(row), lines[data.line[row]]].filter(Boolean).join(" · ") : "";
    if (below) made.append(element("small", "module")), made.lastChild.append(element("bdi", "", below));
    return made;
  };
  const draw = () => {
    const rows = found.slice(0, state.shown).map((row) => {
      const made = element("tr");
      made.setAttribute("role", "row");
      made.append(...columns.map((column) => cell(column, row)));
      return made;
    });
    body.replaceChildren(...rows);
    const of = found.length < all.length ? ` of ${all.length.toLocaleString("en-US")}` : "";
    const sum = found.reduce((seconds, row) => seconds + data.time[row], 0);
    count.textContent = `${found.length.toLocaleString("en-US")}${of} ops, ${time(sum)}`;
    const left = found.length - rows.length;
    more.hidden = left <= 0;
    more.textContent = `Show more (${left.toLocaleString("en-US")} left)`;
  };
  const sort = () => {
    const { key } = columns[state.column];
    const way = state.up ? 1 : -1;
    all.sort((a, b) => way * (key(a) - key(b) || 0) || a - b);
    heads.forEach((head, place) => {
      const own = place === state.column;
      head.setAttribute("aria-sort", own ? (state.up ? "ascending" : "descending") : "none");
    });
  };
  const search = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    searched ??= names.map((name, row) =>
      [name, types[data.type[row]], scopes[data.scope[row]], lines[data.line[row]], reasons[data.reason[row]]].join("\n").toLowerCase());
    const matches = (row) =>
      (!device.value || deviceOf(row) === Number(device.value)) && words.every((word) => searched[row].includes(word));
    found = words.length || device.value ? all.filter(matches) : all;
  };
  const update = () => {
    state.shown = PAGE;
    search();
    draw();
  };

  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    columns[place].label = head.textContent;
    const button = element("button", "", head.textContent);
    button.type = "button";
    button.addEventListener("click", () => {
      const column = columns[place];
      state.up = state.column === place ? !state.up : Boolean(column.up);
      state.column = place;
      sort();
      update();
    });
    head.replaceChildren(button);
  });
  filter.addEventListener("input", update);
  device.addEventListener("change", update);
  more.addEventListener("click", () => {
    state.shown += 5 * PAGE;
    draw();
  });
  filter.form.addEventListener("submit", (event) => event.preventDefault());
  filter.form.hidden = false;
  sort();
  update();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((fold) => (fold.open = true));
  });
  addEventListener("afterprint", () => opened.forEach((fold) => (fold.open = false)));
})();
