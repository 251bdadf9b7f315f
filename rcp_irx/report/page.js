"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const criteria = read("criteria"), systems = read("systems"), printed = read("printed"), packed = read("documents");
  const table = document.getElementById("table"), body = table.tBodies[0];
  const rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const haystack = rows.map((row) => [...row.cells].filter((c) => !c.classList.contains("num")).map((c) => c.textContent).join(" ").toLowerCase());
  const node = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const digits = (value, places) => (value === null || value === undefined ? "–" : value.toFixed(places));

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  const numbers = (held) => {
    const found = [];
    const number = (name, of, kind = "num") => found.push([name, (i) => node("td", of(i), kind), kind]);
    number("Gain", (i) => digits(held.gain[i], 3) + (held.gain_se && held.gain_se[i] !== null ? " ± " + digits(held.gain_se[i], 3) : "") + (held.excluded[i] ? " (excluded)" : ""));
    if (held.label) number("Label", (i) => (held.label[i] === null ? "–" : String(held.label[i])));
    systems.forEach((name, place) => number(name, (i) => (held["rank:" + name][i] === null ? "–" : String(held["rank:" + name][i])), place < printed ? "num system" : "num system beyond"));
    for (const criterion of criteria) number(criterion.id, (i) => (held["pass:" + criterion.id][i] === null ? "–" : held["pass:" + criterion.id][i] + "/" + held.n[i]));
    number("Ability", (i) => digits(held.theta[i], 2));
    number("Raw score", (i) => digits(held.bt[i], 2));
    if (held.not_shown) number("Not shown to the judge", (i) => (held.not_shown[i] ? Math.round(100 * held.not_shown[i]) + "%" : ""));
    return found;
  };

  const detail = (held) => {
    const shown = numbers(held), inner = document.createElement("table");
    inner.append(node("caption", "Documents by gain; a system's column is the rank that it gives, a criterion's its passes of its answers"));
    const head = inner.createTHead().insertRow();
    head.append(node("th", "Document", "id"));
    for (const [name, , kind] of shown) head.append(node("th", name, kind));
    for (const cell of head.cells) cell.scope = "col";
    held.docno.forEach((docno, i) => {
      const group = inner.appendChild(document.createElement("tbody")), row = group.insertRow();
      const name = row.appendChild(node("th", docno, "id"));
      name.scope = "row";
      for (const [, make] of shown) row.append(make(i));
      if (!held.text) return;
      const text = group.insertRow().appendChild(node("td", undefined, "text"));
      text.colSpan = shown.length + 1;
      text.append(node("div", held.text[i] === null ? "(no text given)" : held.text[i]));
    });
    return inner;
  };

  const toggle = async (button) => {
    const row = button.closest("tr"), open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) { row.nextElementSibling.remove(); return; }
    const place = node("tr", undefined, "detail"), cell = place.appendChild(document.createElement("td"));
    cell.colSpan = heads.length;
    row.after(place);
    try {
      const scroll = node("div", undefined, "scroll");
      scroll.append(detail(await unpack(packed[row.dataset.query])));
      cell.append(scroll);
    } catch (error) {
      cell.textContent = "This browser cannot show the documents (" + error.message + "); a newer one can.";
    }
  };

  const close = () => {
    for (const place of [...body.querySelectorAll("tr.detail")]) place.remove();
    for (const button of body.querySelectorAll('.open[aria-expanded="true"]')) button.setAttribute("aria-expanded", "false");
  };

  const value = (row, column) => {
    const cell = row.cells[column], text = cell.textContent.trim();
    if (!cell.classList.contains("num")) return text;
    const number = parseFloat(text);
    return Number.isNaN(number) ? -Infinity : number;
  };
  const compare = new Intl.Collator("en", { numeric: true }).compare;

  const sort = (column) => {
    close();
    const head = heads[column], isNumber = head.classList.contains("num");
    const now = head.getAttribute("aria-sort"), up = now === "none" ? !isNumber : now === "descending";
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = rows.map((row, place) => [value(row, column), place, row]);
    keyed.sort((a, b) => ((isNumber ? a[0] - b[0] || 0 : compare(a[0], b[0])) * (up ? 1 : -1)) || a[1] - b[1]);
    body.append(...keyed.map((item) => item[2]));
  };

  const search = (text) => {
    close();
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => haystack[i].includes(word));
      found += !row.hidden;
    });
    document.getElementById("count").textContent = words.length ? found + " of " + rows.length + " queries" : rows.length + " queries";
  };

  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sort(column)));
  body.addEventListener("click", (event) => { const button = event.target.closest(".open"); if (button) toggle(button); });
  document.getElementById("search").addEventListener("input", (event) => search(event.target.value));
})();
