/* How good placements were over days: the annotator's figures out of Prometheus. */

import { lines } from './charts.js'
import { byId, el, show, table, waiting } from './dom.js'
import { able, newest, on, statusOf } from './state.js'
import { age, MISSING, percent } from './words.js'

const SPAN_SECONDS = 7 * 86400, WHOLE_RATIO = 0.95 // as console/polling.py and cli/effectiveness.py have them

const MEANINGS = [
  ['effective_schedule_ratio', 'of the placements chose a node under the median of all nodes'],
  ['stayed_under_median_ratio', 'of the chosen nodes, without the pod, stayed under the median over the next hour'],
  ['cpu_utilization_total_avg', 'was the mean CPU use of the chosen nodes'],
  ['memory_utilization_total_avg', 'was the mean memory use of the chosen nodes'],
]

function draw() {
  const found = newest('effectiveness'), error = statusOf('effectiveness').error
  if (!able.has('effectiveness')) { show('effect-body', el('p', { class: 'dim' }, 'This console knows no Prometheus: start it with --prometheus to see how good placements were.')); return }
  if (!found) { show('effect-body', waiting('Prometheus', error)); return }
  const figures = found.figures, rows = MEANINGS.map(([key, meaning]) => [[percent(figures[key]), 'number strong'], meaning])
  show('effect-body', error ? el('p', { class: 'bad' }, error) : null,
    found.covered_seconds < WHOLE_RATIO * SPAN_SECONDS ? el('p', { class: 'warn' }, found.covered_seconds ? `Thin data: ${age(found.covered_seconds)} of ${age(SPAN_SECONDS)}.` : 'No annotator’s counts are in Prometheus: let it scrape them.') : null,
    el('p', {}, `${figures.total_schedule_count ?? MISSING} placements judged; ${figures.left_out ?? MISSING} on nodes without fresh data are in no figure.`),
    table([['share', 'number'], 'meaning'], rows), el('div', { class: 'charts' }, el('div', { id: 'effect-ratio' }), el('div', { id: 'effect-use' })))
  const at = found.moments.map(one => one.at_seconds), column = key => found.moments.map(one => one[key] ?? null)
  if (at.length < 2) return
  lines(byId('effect-ratio'), 'effect-ratio', 'Placements on nodes under the median', [
    { label: 'effective', colour: '--load' }, { label: 'stayed under', colour: '--c4', dash: [6, 4] }],
  [at, column('effective_schedule_ratio'), column('stayed_under_median_ratio')])
  lines(byId('effect-use'), 'effect-use', 'Use of the chosen nodes', [
    { label: 'CPU', colour: '--load' }, { label: 'memory', colour: '--c4', dash: [6, 4] }],
  [at, column('cpu_utilization_total_avg'), column('memory_utilization_total_avg')])
}

on(['effectiveness', 'error effectiveness'], draw)
draw()
