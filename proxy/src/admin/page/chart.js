// Requests over time, stacked, drawn by uPlot.

import { clockTime } from "./dom.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * Draws `layers` ({label, colour, values}) upon each other over `times` (seconds since 1970), of which the last `seconds` show.
 * Returns the chart, which `destroy` ends; `pointer` says where the pointer is, for the chart that comes in its place.
 */
export function draw(into, times, layers, { seconds, pointer }) {
  const sums = times.map(() => 0);
  const stacked = layers.map((layer) => layer.values.map((value, at) => (sums[at] += value)));
  // The highest is drawn first, so that the lower ones stand before it.
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
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: true, range: (_, least, most) => [most - seconds, most] }, y: { range: (_, least, most) => [0, Math.max(most * 1.05, 1)] } },
    series: [{}, ...series.map(({ data, own, ...rest }) => rest)],
    axes: [
      { ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map((tick) => clockTime(new Date(tick * 1000)).slice(0, tick % 60 ? 8 : 5)) },
      { ...axis, size: 46, space: 40 },
    ],
    hooks: {
      // A pointer that rests moves into no new chart by itself.
      ready: [(chart) => pointer && chart.setCursor(pointer)],
      setCursor: [(chart) => tell(chart, times, layers)],
    },
  };
  const chart = new uPlot(options, [times, ...series.map(({ data }) => data)], into);
  const sized = new ResizeObserver(() => chart.setSize({ width: Math.max(into.clientWidth, 240), height: 220 }));
  sized.observe(into);
  const place = () => (chart.cursor.left >= 0 ? { left: chart.cursor.left, top: chart.cursor.top } : null);
  return { destroy: () => (sized.disconnect(), chart.destroy()), pointer: place };
}

/** What stands under the pointer, said in the legend. */
function tell(chart, times, layers) {
  const at = chart.cursor.idx;
  const legend = chart.root.closest("figure")?.querySelectorAll("[data-value]") ?? [];
  for (const [index, cell] of [...legend].entries()) {
    cell.textContent = at === null || at === undefined ? "" : ` ${Math.round(layers[index].values[at] * 10) / 10}/s`;
  }
}
