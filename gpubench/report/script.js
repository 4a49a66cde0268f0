"use strict";
// Sorting and filtering of the result tables; the page reads the same without them.
for (const part of document.querySelectorAll("[data-table]")) {
  const body = part.querySelector("tbody");
  const rows = [...body.rows];
  const heads = [...part.querySelectorAll("thead th")];
  const valueOf = (row, column) => row.cells[column].dataset.value;

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const isNumber = head.classList.contains("number");
      rows.sort((a, b) => {
        const [x, y] = [valueOf(a, column), valueOf(b, column)];
        if (x === "" || y === "") return (x === "") - (y === "");  // what was not measured stays last
        const order = isNumber ? Number(x) - Number(y) : x.localeCompare(y);
        return descending ? -order : order;
      });
      body.append(...rows);
    });
  });

  const filter = part.querySelector(".filter");
  const count = filter.querySelector("output");
  filter.hidden = false;
  filter.querySelector("input").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    count.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} cases` : "";
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
