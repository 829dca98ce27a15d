"use strict";
// Values under the pointer.
function watchPlots(root) {
  for (const figure of root.querySelectorAll("figure")) {
    const svg = figure.querySelector("svg");
    const out = figure.querySelector("output");
    const cursor = figure.querySelector(".cursor");
    let data = null;
    svg.addEventListener("pointermove", (event) => {
      data ??= JSON.parse(figure.querySelector("script").textContent);
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      let at = 0;
      for (let i = 1; i < data.x.length; i++) {
        if (Math.abs(data.x[i] - x) < Math.abs(data.x[at] - x)) at = i;
      }
      cursor.setAttribute("d", `M${data.x[at]} 8V176`);
      const lines = data.names.map((name, i) => `${name}: ${data.v[i][at]}`);
      out.textContent = [data.t[at], ...lines].join("\n");
      out.style.display = "block";
      const left = data.x[at] > svg.viewBox.baseVal.width / 2;
      out.style.left = left ? "4rem" : "auto";
      out.style.right = left ? "auto" : ".75rem";
    });
    svg.addEventListener("pointerleave", () => {
      out.style.display = "none";
      cursor.setAttribute("d", "");
    });
  }
}
watchPlots(document);
// Counters by name.
for (const input of document.querySelectorAll(".filter")) {
  const rows = input.parentElement.querySelectorAll(".counters tr");
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    rows.forEach((row, at) => { row.hidden = at > 0 && !row.cells[0].textContent.toLowerCase().includes(wanted); });
  });
}
