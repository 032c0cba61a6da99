// A stacked chart of requests over time, drawn by uPlot.

import { clockTime, count } from "./dom.js";

/** The unit of steps of so many seconds: requests per second, or the requests of each step if it is long. */
export function unitOf(step) {
  if (step < 60) return { label: "Requests per second", axis: "requests / s", divisor: step, format: (value) => `${Math.round(value * 10) / 10}/s` };
  const [number, word] = step < 3600 ? [step / 60, "min"] : step < 86_400 ? [step / 3600, "h"] : [step / 86_400, "d"];
  const length = number === 1 ? word : `${number} ${word}`;
  return { label: `Requests per ${length}`, axis: `requests / ${length}`, divisor: 1, format: (value) => count(value) };
}

/** The time of a point, with its day where the range is longer than one. */
function label(at, [from, until]) {
  const date = new Date(at * 1000);
  const day = until - from > 86_400 ? `${date.toISOString().slice(5, 10)} ` : "";
  return `${day}${clockTime(date).slice(0, at % 60 ? 8 : 5)}`;
}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
  * Draws `layers` ({label, colour, values}) stacked over `times` (seconds since 1970), from the first to the last of `range`.
  * `unit` is that of the values. `marks` ({at, label}) are instants that get a line, such as a reload; `zoomed` is called with a range that the user selects.
  * Returns `destroy`, and `pointer`, the position of the pointer, which the chart that replaces this one starts with.
 */
export function draw(into, times, layers, { range, unit, pointer, marks, zoomed }) {
  const sums = times.map(() => 0);
  const stacked = layers.map((layer) => layer.values.map((value, at) => (sums[at] += value)));
  // The highest layer is drawn first, so that the lower ones cover it.
  const series = layers.map((layer, index) => ({
    label: layer.label,
    stroke: colour(layer.colour),
    fill: colour(layer.colour),
    width: 0,
    points: { show: false },
    paths: uPlot.paths.stepped({ align: -1 }),
    own: layer.values,
    data: stacked[index],
  })).reverse();
  const axis = {
    stroke: colour("--faint-text"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const options = {
    width: Math.max(into.clientWidth, 240),
    height: 220,
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false } },
    scales: { x: { time: true, range: () => range }, y: { range: (_, least, most) => [0, Math.max(most * 1.05, 1)] } },
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    series: [{}, ...series.map(({ data, own, ...rest }) => rest)],
    axes: [
      { ...axis, size: 28, space: range[1] - range[0] > 86_400 ? 100 : 70, values: (_, ticks) => ticks.map((tick) => label(tick, range)) },
      { ...axis, size: 62, space: 40, label: unit.axis, labelSize: 16, labelFont: axis.font, labelGap: 0 },
    ],
    hooks: {
      // A new chart learns the position of the pointer only when it moves.
      ready: [(chart) => pointer && chart.setCursor(pointer)],
      setCursor: [(chart) => showValues(chart, times, layers, { range, unit })],
      setSelect: [(chart) => {
        const { left, width } = chart.select;
        if (width > 4) zoomed([chart.posToVal(left, "x"), chart.posToVal(left + width, "x")]);
      }],
      draw: [(chart) => mark(chart, marks)],
    },
  };
  const chart = new uPlot(options, [times, ...series.map(({ data }) => data)], into);
  const sized = new ResizeObserver(() => chart.setSize({ width: Math.max(into.clientWidth, 240), height: 220 }));
  sized.observe(into);
  const place = () => (chart.cursor.left >= 0 ? { left: chart.cursor.left, top: chart.cursor.top } : null);
  return { destroy: () => (sized.disconnect(), chart.destroy()), pointer: place };
}

/** The rows, from 0, in which labels run into no other. `spans` are their left and right ends, in the order of the marks. */
export function rowsOf(spans) {
  const ends = [];
  return spans.map(([left, right]) => {
    const free = ends.findIndex((end) => left > end);
    const row = free < 0 ? ends.length : free;
    ends[row] = right;
    return row;
  });
}

/** Draws a line for each visible mark, and its label beside it. */
function mark(chart, marks) {
  const { ctx, bbox } = chart;
  const { min, max } = chart.scales.x;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--text");
  ctx.textAlign = "left";
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  const visible = marks.filter(({ at }) => at >= min && at <= max).sort((one, other) => one.at - other.at);
  const spans = visible.map(({ at, label }) => {
    const x = Math.round(chart.valToPos(at, "x", true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const { width } = ctx.measureText(label);
    const left = x + width + 8 > bbox.left + bbox.width ? x - width - 4 : x + 4;
    return [left, left + width + 4];
  });
  for (const [index, row] of rowsOf(spans).entries()) {
    ctx.fillText(visible[index].label, spans[index][0], bbox.top + (row + 1) * 12 * devicePixelRatio);
  }
  ctx.restore();
}

/** Shows the values under the pointer in the legend. */
function showValues(chart, times, layers, { range, unit }) {
  const at = chart.cursor.idx;
  const legend = chart.root.closest("figure")?.querySelectorAll("[data-value]") ?? [];
  const total = chart.root.closest("figure")?.querySelector("[data-total]");
  const isOn = at !== null && at !== undefined;
  if (total) total.textContent = isOn ? `${label(times[at], range)}: ${unit.format(layers.reduce((sum, layer) => sum + layer.values[at], 0))} in total` : "";
  for (const [index, cell] of [...legend].entries()) {
    cell.textContent = isOn ? ` ${unit.format(layers[index].values[at])}` : "";
  }
}
