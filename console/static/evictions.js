/* Evictions on a time line, as a table, and one of them with the load that was predicted and the load that was seen. */

import { lines } from './charts.js'
import { byId, el, keepingFocus, nodeLink, show, svg, table, waiting } from './dom.js'
import { choose, chosen, newest, now, on, statusOf } from './state.js'
import { count, MISSING, percent, points, seconds, time } from './words.js'

const SHOWN = 60
const MEASURED = [[5, 'load_5m_ratio'], [10, 'load_10m_ratio'], [15, 'load_15m_ratio'], [20, 'load_20m_ratio'], [25, 'load_25m_ratio'], [30, 'load_30m_ratio']]
const EXPECTED = [[5, 'expected_5m_ratio'], [30, 'expected_30m_ratio']]

function wordsOf(one) {
  return `${time(seconds(one.at), now())} ${one.namespace}/${one.pod} from ${one.node}: ${one.metric} ${percent(one.before_ratio)} to ${percent(one.projected_ratio)} expected, ${one.result}`
}

const kind = one => one.result === 'evicted' ? 'evicted' : one.result === 'observed' || one.result === 'planned' ? 'observed' : 'refused'

const pick = one => choose({ at: one.at, eviction: String(one.id) })

/** The eviction chosen by number, else the nearest to the chosen moment, else the newest of the chosen pod or of all. */
function selected(evictions) {
  const moment = seconds(chosen.at), far = one => Math.abs(seconds(one.at) - moment), near = (one, other) => far(other) < far(one) ? other : one
  return evictions.find(one => String(one.id) === chosen.eviction)
    ?? (moment ? evictions.reduce(near) : evictions.find(one => `${one.namespace}/${one.pod}` === chosen.pod) ?? evictions[0])
}

/** Where things stand, in percent: an SVG without a viewBox keeps circles round and texts as wide as they are. */
function timeline(evictions, picked) {
  const times = evictions.map(one => seconds(one.at)), last = now(), first = Math.min(last - 3600, ...times)
  const x = at => `${4 + 94 * (at - first) / Math.max(1, last - first)}%`, y = ratio => `${88 - 82 * Math.min(1, ratio)}%`
  const line = ratio => [svg('line', { x1: '4%', x2: '100%', y1: y(ratio), y2: y(ratio) }), svg('text', { x: 0, y: y(ratio) }, percent(ratio))]
  const box = svg('svg', { id: 'timeline', role: 'img', 'aria-label': `${count(evictions.length, 'eviction')} over time` }, [0, 0.25, 0.5, 0.75, 1].flatMap(line))
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const at = first + part * (last - first)
    box.append(svg('text', { x: x(at), y: '99%', 'text-anchor': part ? part === 1 ? 'end' : 'middle' : 'start', class: part % 0.5 ? 'later' : null }, time(at, last)))
  }
  for (const one of [...evictions].reverse()) {
    const at = x(seconds(one.at)), before = y(one.before_ratio)
    box.append(svg('line', { class: 'fall', x1: at, x2: at, y1: before, y2: y(one.projected_ratio) }),
      svg('circle', { class: kind(one), cx: at, cy: before, r: one === picked ? 8 : 5, click: () => pick(one) }, svg('title', {}, wordsOf(one))))
  }
  return box
}

function rowOf(one) {
  const seen = one.load_5m_ratio === null ? MISSING : `${percent(one.load_5m_ratio)} / ${percent(one.load_30m_ratio)}`
  const held = one.stayed_under_line === null ? '' : one.stayed_under_line ? 'stayed under the line' : 'over the line again'
  return [time(seconds(one.at), now()), [el('button', { class: 'link', type: 'button', 'data-key': `eviction ${one.id}`, click: () => pick(one) }, `${one.namespace}/${one.pod}`), 'name'],
    [el('span', {}, nodeLink(one.node), ' → ', one.landed_node || one.destination ? nodeLink(one.landed_node || one.destination) : '?'), 'name'], [`${one.metric} ${percent(one.before_ratio)} → ${percent(one.projected_ratio)}`, 'later'],
    [seen, 'number later'], [`${one.result}${held ? `, ${held}` : ''}`, kind(one) === 'refused' ? 'warn' : '']]
}

function drawOne(one) {
  show('eviction', el('h3', {}, `${one.namespace}/${one.pod}`), el('p', {}, wordsOf(one), one.message ? `: ${one.message}` : ''),
    el('p', { class: 'dim' }, `Workload ${one.workload || MISSING}; landed on ${one.landed_node || 'no node yet'}; policy ${one.policy_hash}; run ${one.run}.`,
      one.error_30m_ratio === null ? '' : ` After 30 minutes the node was ${points(100 * one.error_30m_ratio, 1)} points from what was predicted.`),
    el('div', { id: 'eviction-chart' }))
  const minutes = [0, ...MEASURED.map(([at]) => at)]
  const value = (pairs, at) => { const found = pairs.find(([minute]) => minute === at); return found ? one[found[1]] : null }
  const measured = minutes.map(at => at ? value(MEASURED, at) : one.before_ratio), expected = minutes.map(at => at ? value(EXPECTED, at) : one.before_ratio)
  lines(byId('eviction-chart'), `eviction ${one.id} ${measured.join()}`, `${one.metric} of ${one.node}`, [
    { label: 'measured', colour: '--load', points: true }, { label: 'predicted', colour: '--c4', dash: [6, 4], points: true },
    { label: 'line', colour: '--bad', dash: [2, 3] }, { label: 'relieved until', colour: '--good', dash: [2, 3] }],
  [minutes, measured, expected, minutes.map(() => one.threshold_ratio), minutes.map(() => one.target_ratio)], { time: false, height: 190 })
}

function draw() {
  const evictions = newest('evictions'), error = statusOf('evictions').error
  if (!evictions) { show('evictions-body', waiting('descheduler', error)); return }
  if (!evictions.length) { show('evictions-body', el('p', { class: 'dim' }, 'Nobody was evicted yet.')); return }
  const one = selected(evictions), lost = chosen.eviction && String(one.id) !== chosen.eviction
  keepingFocus(() => show('evictions-body',
    error ? el('p', { class: 'bad silence' }, error) : null, timeline(evictions, one),
    lost ? el('p', { class: 'warn' }, `The eviction of the address, ${chosen.eviction}, is not among the newest ${evictions.length}.`) : null,
    el('p', { class: 'legend' }, 'Each point is an eviction at the load that its node had; the line ends at the load that was predicted. Filled: evicted; hollow: only planned; grey: refused or failed.'),
    el('div', { class: 'split' }, el('div', { class: 'scroll' }, table(['at', 'pod', 'from → to', ['before → predicted', 'later'], ['seen 5m / 30m', 'number later'], 'outcome'],
      evictions.slice(0, SHOWN).map(rowOf), { rowAttributes: at => ({ 'aria-selected': evictions[at].id === one.id ? 'true' : null }) })),
    el('article', { id: 'eviction' }))))
  drawOne(one)
}

on(['evictions', 'error evictions'], draw)
