// Numbers over time, drawn as bars: our own SVG, with the same numbers in a table for who cannot
// see it.

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const HEIGHT = 220;
const PAD = { top: 12, right: 84, bottom: 26, left: 56 };
const MOST_LABELS = 8;

/**
 * A chart of `points` (`{value, label, title, tone}`), oldest first.
 *
 * `bands` are named parts of the height, `{from, to, name}`; `lines` are `{value, name}`;
 * `write` says a value; `most` is how high it reaches at least. Where there are bands, heights grow
 * with the root of a value: 2 % and 5 % can be told apart beside 100 %.
 */
export function Chart({ label, points, bands = [], lines = [], write, most, table, head }) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth));
    watch.observe(box.current);
    setWidth(box.current.clientWidth);
    return () => watch.disconnect();
  }, []);
  const peak = Math.max(most, ...points.map((each) => each.value));
  const highest = Math.max(most, ...points.map((each) => each.value * 1.08),
    ...lines.map((each) => each.value * 1.05));
  const right = width < 500 || !bands.length ? 8 : PAD.right;
  const inner = { width: Math.max(40, width - PAD.left - right), height: HEIGHT - PAD.top - PAD.bottom };
  const bend = bands.length ? Math.sqrt : (part) => part;
  const y = (value) => PAD.top + inner.height * (1 - bend(Math.min(value, highest) / highest));
  const step = inner.width / Math.max(1, points.length);
  const every = Math.ceil(points.length / Math.min(MOST_LABELS, Math.max(2, inner.width / 70)));
  const ticks = bands.length
    ? [...bands.map((each) => each.from), ...(highest > 0.25 ? [highest / 1.08] : [])]
    : [0, peak / 2, peak];
  return html`<figure class="chart">
    <div ref=${box} class="chart-box">${width > 0 && html`<svg width=${width} height=${HEIGHT}
      role="img" aria-label=${label}>
      ${bands.map((band) => html`<rect class=${`band ${band.name}`} x=${PAD.left}
        y=${y(Math.min(band.to, highest))} width=${inner.width}
        height=${Math.max(0, y(band.from) - y(Math.min(band.to, highest)))} />
        ${width >= 500 && band.from < highest && html`<text class="band-name"
          x=${PAD.left + inner.width + 8} y=${(y(band.from) + y(Math.min(band.to, highest))) / 2 + 4}>
          ${band.name}</text>`}`)}
      ${ticks.map((value) => html`<line class="grid" x1=${PAD.left} x2=${PAD.left + inner.width}
        y1=${y(value)} y2=${y(value)} /><text class="tick-name" x=${PAD.left - 8} y=${y(value) + 4}
        text-anchor="end">${write(value)}</text>`)}
      ${lines.map((each) => html`<line class="limit" x1=${PAD.left} x2=${PAD.left + inner.width}
        y1=${y(each.value)} y2=${y(each.value)} /><text class="band-name" x=${PAD.left + 6}
        y=${y(each.value) - 5}>${each.name}</text>`)}
      ${points.map((each, index) => html`<rect class=${`bar-at ${each.tone ?? ""}`}
        x=${PAD.left + index * step + step * 0.14} width=${Math.max(1, step * 0.72)}
        y=${each.value > 0 ? Math.min(y(each.value), y(0) - 2) : y(0) - 1}
        height=${each.value > 0 ? Math.max(2, y(0) - y(each.value)) : 1}><title>${each.title}</title>
        </rect>${index % every === 0 && html`<text class="tick-name"
        x=${PAD.left + (index + 0.5) * step} y=${HEIGHT - 8} text-anchor="middle">${each.label}
        </text>`}`)}
    </svg>`}</div>
    <details class="twin"><summary>The same as a table</summary><div class="table-scroll"
      tabIndex="0" role="region" aria-label=${`${label}, as a table`}><table><thead><tr>
      ${head.map((words) => html`<th scope="col">${words}</th>`)}</tr></thead><tbody>
      ${table.map((cells) => html`<tr>${cells.map((cell, index) => html`<${index ? "td" : "th"}
        scope=${index ? undefined : "row"} data-title=${head[index]}>${cell}<//>`)}</tr>`)}
      </tbody></table></div></details>
  </figure>`;
}
