// A stacked chart of requests over time, drawn by uPlot.

import { clockTime } from "./dom.js";

const perSecond = (value) => `${Math.round(value * 10) / 10}/s`;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
  * Draws `layers` ({label, colour, values}) stacked over `times` (seconds since 1970), of which the last `seconds` are visible.
  * `marks` ({at, label}) are instants that get a line, such as a reload; `zoomed` is called with a range that the user selects.
  * Returns `destroy`, and `pointer`, the position of the pointer, which the chart that replaces this one starts with.
 */
export function draw(into, times, layers, { seconds, range, pointer, marks, zoomed }) {
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
    scales: { x: { time: true, range: (_, least, most) => range ?? [most - seconds, most] }, y: { range: (_, least, most) => [0, Math.max(most * 1.05, 1)] } },
    series: [{}, ...series.map(({ data, own, ...rest }) => rest)],
    axes: [
      { ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map((tick) => clockTime(new Date(tick * 1000)).slice(0, tick % 60 ? 8 : 5)) },
      { ...axis, size: 62, space: 40, label: "requests / s", labelSize: 16, labelFont: axis.font, labelGap: 0 },
    ],
    hooks: {
      // A new chart learns the position of the pointer only when it moves.
      ready: [(chart) => pointer && chart.setCursor(pointer)],
      setCursor: [(chart) => showValues(chart, times, layers)],
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

/** Draws a line for each visible mark. */
function mark(chart, marks) {
  const { ctx, bbox } = chart;
  const { min, max } = chart.scales.x;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--text");
  ctx.textAlign = "left";
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  for (const { at, label } of marks.filter((one) => one.at >= min && one.at <= max)) {
    const x = Math.round(chart.valToPos(at, "x", true));
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const { width } = ctx.measureText(label);
    ctx.fillText(label, x + width + 8 > bbox.left + bbox.width ? x - width - 4 : x + 4, bbox.top + 12 * devicePixelRatio);
  }
  ctx.restore();
}

/** Shows the values under the pointer in the legend. */
function showValues(chart, times, layers) {
  const at = chart.cursor.idx;
  const legend = chart.root.closest("figure")?.querySelectorAll("[data-value]") ?? [];
  const total = chart.root.closest("figure")?.querySelector("[data-total]");
  const isOn = at !== null && at !== undefined;
  if (total) total.textContent = isOn ? `${clockTime(new Date(times[at] * 1000))}: ${perSecond(layers.reduce((sum, layer) => sum + layer.values[at], 0))} in total` : "";
  for (const [index, cell] of [...legend].entries()) {
    cell.textContent = isOn ? ` ${perSecond(layers[index].values[at])}` : "";
  }
}
