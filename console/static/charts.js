/* Line charts by uPlot, in the page's colours; one chart is made once and then given new data. */

const charts = new Map()

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

/** The time of day, or the date where ticks are days apart; UTC, as everywhere on the page. */
function clock(atSeconds, stepSeconds) {
  const text = new Date(atSeconds * 1000).toISOString()
  return stepSeconds >= 86400 ? text.slice(5, 10) : text.slice(11, 16)
}

/** `series` are { label, colour, dash, percent }; `data` is [seconds, values …] with null for what is missing. */
export function lines(holder, key, title, series, data, { ratio = true, height = 200, time = true } = {}) {
  const known = charts.get(key), dark = matchMedia('(prefers-color-scheme: dark)').matches
  if (known && known.holder === holder && known.dark === dark) {
    known.chart.setData(data)
    return
  }
  known?.chart.destroy()
  const written = value => value === null || value === undefined ? '-' : ratio ? `${(100 * value).toFixed(0)} %` : String(value)
  const axis = { stroke: colour('--dim'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line') } }
  const chart = new uPlot({
    title, width: Math.max(200, holder.clientWidth), height, tzDate: at => uPlot.tzDate(new Date(at * 1000), 'Etc/UTC'),
    scales: { x: { time } },
    legend: { live: false },
    axes: [{ ...axis, ...(time ? { values: (_, ticks, __, ___, step) => ticks.map(at => clock(at, step)) } : {}) }, { ...axis, size: 52, values: (_, ticks) => ticks.map(written) }],
    series: [time ? {} : { label: 'minutes after', value: (_, value) => value === null ? '-' : String(value) },
      ...series.map(one => ({ label: one.label, stroke: colour(one.colour), dash: one.dash, width: 2, spanGaps: true, points: { show: one.points ?? false, size: 7 }, value: (_, value) => written(value) }))],
  }, data, holder)
  charts.set(key, { chart, holder, dark })
  new ResizeObserver(() => { if (holder.clientWidth) chart.setSize({ width: Math.max(200, holder.clientWidth), height }) }).observe(holder)
}
