// Saves plots of the page as files: PNG at twice the size, SVG, and their values as CSV. Nothing is fetched or sent.
"use strict";

// The drawing with the colours that it has on the page, so that it stands alone.
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const style = getComputedStyle(document.documentElement);
  const box = svg.viewBox.baseVal;
  const width = parseFloat(svg.style.getPropertyValue("--width")) || svg.clientWidth;
  copy.querySelectorAll(".hover").forEach((part) => part.remove());
  copy.removeAttribute("style");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", (width * box.height) / box.width);
  const text = new XMLSerializer().serializeToString(copy);
  return text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function savePicture(name, svg) {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = image.width * 2;
    canvas.height = image.height * 2;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name + ".png", blob), "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(standalone(svg));
}

document.addEventListener("click", (event) => {
  const format = event.target.dataset && event.target.dataset.save;
  if (!format) return;
  const figure = event.target.closest("figure");
  const svg = figure.querySelector("svg");
  const name = figure.dataset.name || "plot";
  if (format === "PNG") savePicture(name, svg);
  if (format === "SVG") save(name + ".svg", new Blob([standalone(svg)], { type: "image/svg+xml" }));
  if (format === "CSV") save(name + ".csv", new Blob([figure.dataset.csv.replace(/\n/g, "\r\n")], { type: "text/csv" }));
});

// What is folded is printed, too: into a PDF, for example.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
