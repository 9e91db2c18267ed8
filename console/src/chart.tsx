// Charts over time or over any numbers.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { Store, useStore } from "./store";

export interface Line {
  label: string;
  values: (number | null)[];
}

/** Changes when the colours do. */
export const coloursChanged = new Store(0);

const COLOURS = ["--line-1", "--line-2", "--line-3"];

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Draws lines over `x`: seconds since 1970 if `isTime`. */
export function Chart(props: {
  label: string;
  x: number[];
  lines: Line[];
  format: (value: number) => string;
  isTime?: boolean;
  height?: number;
  hasPoints?: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useStore(coloursChanged);
  const format = useRef(props.format);
  format.current = props.format;
  const data = [props.x, ...props.lines.map((line) => line.values)] as uPlot.AlignedData;
  const names = props.lines.map((line) => line.label).join("\n");
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const height = props.height ?? 160;
    const axis = {
      stroke: colour("--quiet"),
      grid: { stroke: colour("--edge"), width: 1 },
      ticks: { show: false },
    };
    const draw = new uPlot(
      {
        width: element.clientWidth || 300,
        height,
        cursor: { y: false, drag: { x: false, y: false } },
        legend: { live: true },
        scales: { x: { time: props.isTime ?? false }, y: { range: (_, low, high) => span(low, high) } },
        axes: [
          props.isTime ? { ...axis, values: (_: uPlot, ticks: number[]) => times(ticks) } : axis,
          {
            ...axis,
            size: 64,
            values: (_: uPlot, ticks: number[]) => ticks.map((tick) => format.current(tick)),
          },
        ],
        series: [
          props.isTime ? {} : { label: "at" },
          ...props.lines.map((line, at) => ({
            label: line.label,
            stroke: colour(COLOURS[at % COLOURS.length]!),
            width: 1.5,
            points: { show: props.hasPoints ?? false },
            spanGaps: true,
            value: (_: uPlot, value: number | null) => (value === null ? "–" : format.current(value)),
          })),
        ],
      },
      data,
      element,
    );
    plot.current = draw;
    const observer = new ResizeObserver(() => draw.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      draw.destroy();
      plot.current = null;
    };
  }, [names, theme, props.isTime, props.height]);
  useEffect(() => plot.current?.setData(data), [props.x, props.lines]);
  const last = props.lines.map((line) => {
    const value = line.values.findLast((it) => it !== null);
    return `${line.label} ${value === undefined || value === null ? "unknown" : props.format(value)}`;
  });
  return (
    <figure class="chart">
      <figcaption>{props.label}</figcaption>
      <div ref={box} role="img" aria-label={`${props.label}: ${last.join(", ")}`} />
    </figure>
  );
}

/** Moments on the local clock, as exactly as their distance asks for. */
function times(ticks: number[]): string[] {
  const span = (ticks[ticks.length - 1] ?? 0) - (ticks[0] ?? 0);
  return ticks.map((tick) => {
    const at = new Date(1000 * tick);
    const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
    if (span > 3 * 86400) return day;
    if (span > 86400) return `${day.slice(5)} ${time}`;
    return span > 600 ? time : `${time}:${two(at.getSeconds())}${span < 3 ? `.${at.getMilliseconds()}` : ""}`;
  });
}

function two(number: number): string {
  return String(number).padStart(2, "0");
}

/** The range of an axis: from zero, unless all values are far from it. */
function span(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  const from = low >= 0 && low < 0.7 * high ? 0 : low;
  const room = (high - from || Math.abs(high) || 1) * 0.08;
  return [from === 0 ? 0 : from - room, high + room];
}
