// Draws what stands in #plots. A plot: {kind, x, y, limit: what the dotted lines are, lines: {label: line}}.
// A line: {family: what it is, file: the one it is from or null, points, limits}, the last two [[x, y], …].
(function () {
  "use strict";
  // Near Okabe and Ito's colours, told apart by colour-blind readers too; [on light, on dark].
  const colours = [["#0072b2", "#56b4e9"], ["#c2410c", "#f58f5b"], ["#00795a", "#2fc79a"], ["#a3497d", "#e090bd"], ["#8a6d00", "#e6c229"],
                   ["#444b54", "#c5ccd3"], ["#5b3fb5", "#a994f5"], ["#b3261e", "#ff8a80"]];
  const shapes = ["circle", "rect", "triangle", "rectRot", "star", "crossRot"];
  const dashes = [[], [8, 3], [10, 3, 3, 3], [4, 4]];
  const dark = window.matchMedia("screen and (prefers-color-scheme: dark)");
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const families = new Map(); // numbers on the whole page: a family has one colour, and in a plot a file one shape and dash
  let printing = false;

  function theme() {
    return !printing && dark.matches ? {at: 1, ink: "#e6edf3", grid: "#353c45", quiet: "#9aa5b1"} : {at: 0, ink: "#1b1f24", grid: "#d0d7de", quiet: "#57606a"};
  }

  function sizeText(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit++; }
    return `${Number(bytes.toPrecision(4))} ${units[unit]}`;
  }

  function numberOf(known, name) {
    if (!known.has(name)) known.set(name, known.size);
    return known.get(name);
  }

  const isLog = (plot) => plot.kind !== "replicas";
  const tickText = (plot, x) => plot.kind === "machines" ? String(Math.round(2 ** x)) : isLog(plot) ? sizeText(Math.round(2 ** x)) : String(x);
  const one = {machines: "machine", replicas: "replica"};
  const xText = (plot, x) => tickText(plot, x) + (one[plot.kind] ? ` ${one[plot.kind]}${tickText(plot, x) === "1" ? "" : "s"}` : "");

  // Chart.js has logarithms to the base 10 only: sizes and numbers of machines are drawn at their binary logarithm.
  function place(plot, points) {
    return points.map(([x, y]) => ({x: isLog(plot) ? Math.log2(x) : x, y})).sort((a, b) => a.x - b.x);
  }

  function describe(plot) {
    const paint = theme(), files = new Map(), lines = [], limits = [];
    for (const [label, line] of Object.entries(plot.lines)) {
      const number = label ? numberOf(families, line.family || line.file) : 0, colour = colours[number % colours.length][paint.at];
      const file = line.file === null ? 0 : numberOf(files, line.file), shape = line.file === null ? number : file;
      lines.push({label: label || "measured", data: place(plot, line.points), borderColor: colour, backgroundColor: colour, borderWidth: 2,
                  pointStyle: shapes[shape % shapes.length], pointRadius: 3.5, borderDash: dashes[file % dashes.length]});
      if (line.limits.length) limits.push({label: "", data: place(plot, line.limits), borderColor: colour, pointRadius: line.limits.length > 1 ? 0 : 2});
    }
    const aside = {borderDash: [2, 4], borderWidth: 1.5, pointStyle: "line", pointHitRadius: 0};
    const same = limits.every((set) => JSON.stringify(set.data) === JSON.stringify(limits[0].data));
    const kept = same ? limits.slice(0, 1).map((set) => ({...set, borderColor: paint.quiet})) : limits;
    if (kept.length) kept[0].label = plot.limit; // the legend needs it once
    return {datasets: [...lines, ...kept.map((set) => ({...aside, ...set}))]};
  }

  function axis(title, more) {
    const paint = theme();
    return {...more, title: {display: true, text: title, color: paint.quiet}, grid: {color: paint.grid, borderColor: paint.grid},
            border: {color: paint.grid}, ticks: {color: paint.ink, maxRotation: 0, autoSkipPadding: 12, ...more.ticks}};
  }

  function xAxis(plot) {
    const all = Object.values(plot.lines).flatMap((line) => place(plot, line.points).map((point) => point.x));
    const least = Math.floor(Math.min(...all)), most = Math.ceil(Math.max(...all));
    const alone = least === most ? 1 : 0; // a single column of points goes to the middle
    const room = {type: "linear", min: Math.max(least - alone, 0), max: most + alone};
    if (!isLog(plot)) return axis(plot.x, {...room, ticks: {stepSize: 1, precision: 0}});
    return axis(plot.x, {...room, ticks: {stepSize: most - least > 12 ? 2 : 1, callback: (v) => Number.isInteger(v) ? tickText(plot, v) : ""}});
  }

  // Over many decades powers of ten are enough to read by; within a few, 2 and 5 help.
  function logTick(value) {
    const lead = Number(value.toExponential()[0]), decades = Math.log10(this.max / this.min);
    return lead === 1 || decades < 1 || (decades < 4 && (lead === 2 || lead === 5)) ? String(Number(value.toPrecision(3))) : "";
  }

  function options(plot) {
    const paint = theme();
    const y = plot.kind === "size-time" ? axis(plot.y, {type: "logarithmic", ticks: {callback: logTick}})
                                        : axis(plot.y, {type: "linear", beginAtZero: true});
    const legend = {position: "bottom", labels: {color: paint.ink, usePointStyle: true, boxWidth: 8, boxHeight: 8, padding: 12, filter: (item) => item.text !== ""}};
    return {animation: false, maintainAspectRatio: false, devicePixelRatio: Math.max(2, window.devicePixelRatio), scales: {x: xAxis(plot), y},
            clip: 8, interaction: {mode: "nearest", intersect: false},
            plugins: {legend, tooltip: {callbacks: {title: (items) => items.length ? xText(plot, items[0].parsed.x) : ""}}}};
  }

  document.documentElement.classList.add("drawn");
  const charts = plots.map((plot, i) => {
    const canvas = document.getElementById(`plot-${i}`), rows = Math.ceil(Object.keys(plot.lines).length / 2);
    canvas.parentElement.style.height = `${20 + 1.6 * rows}rem`; // the legend grows with the lines
    return new Chart(canvas, {type: "line", data: describe(plot), options: options(plot)});
  });

  function redraw(width, height) {
    charts.forEach((chart, i) => {
      chart.data = describe(plots[i]);
      chart.options = options(plots[i]);
      if (width) chart.resize(width, height); else chart.resize();
      chart.update();
    });
  }

  function unfold(open) {
    document.querySelectorAll("details.fold").forEach((table) => { table.open = open; });
  }

  unfold(false);
  dark.addEventListener("change", () => redraw());
  // Paper is light, one plot wide, and cannot unfold a table.
  window.addEventListener("beforeprint", () => { printing = true; unfold(true); redraw(640, 340); });
  window.addEventListener("afterprint", () => { printing = false; unfold(false); redraw(); });
})();
