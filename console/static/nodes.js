/* The heat map of all nodes, and one node in full: windows, limits, new pods, its pods. */

import { byId, el, keepingFocus, show, svg, table } from './dom.js'
import { edgesOf, HeatMap, stepOf } from './heatmap.js'
import { able, ask, choose, chosen, newest, on } from './state.js'
import { age, count, mebibytes, millicores, MISSING, natural, percent, points } from './words.js'

const SCALE = 1000
const map = new HeatMap(byId('map'), node => choose({ node }))
let podsOf = { node: '', pods: null, error: '', at: 0 }

const ratio = value => value === null || value === undefined ? null : value / SCALE

function offer(id, values, selected) {
  const select = byId(id), before = [...select.options].map(one => one.value).join('\n')
  if (before !== values.join('\n')) select.replaceChildren(...values.map(value => el('option', { value }, value || 'all')))
  select.value = selected
}

/** The load over which the descheduler relieves a node, by the policy in force; undefined for none. */
export const evictAbove = metric => newest('policy')?.policy?.descheduler?.thresholds?.[metric]?.evictAbove

/** The metric with the node that is nearest to its limit, or farthest over it. */
function worst(nodes) {
  const share = metric => nodes.values[metric].reduce((most, value) => Math.max(most, (value ?? 0) / (nodes.limits[metric] ?? Infinity)), 0)
  return Object.keys(nodes.values).sort((one, other) => share(other) - share(one))[0] ?? ''
}

function order(nodes, metric, kind) {
  const values = nodes.values[metric] ?? []
  const places = nodes.names.map((_, at) => at)
  const newPods = at => Object.values(nodes.hot).reduce((sum, window) => sum + window[at], 0)
  const by = {
    load: (a, b) => (values[b] ?? -1) - (values[a] ?? -1),
    score: (a, b) => (nodes.score[b] ?? -1) - (nodes.score[a] ?? -1),
    hot: (a, b) => newPods(b) - newPods(a),
    pool: (a, b) => natural(nodes.pools[a] ?? '', nodes.pools[b] ?? ''),
    name: () => 0,
  }[kind] ?? (() => 0)
  return places.sort((a, b) => by(a, b) || natural(nodes.names[a], nodes.names[b]))
}

function wanted(nodes, at) {
  return (!chosen.pool || nodes.pools[at] === chosen.pool) && (!chosen.find || nodes.names[at].includes(chosen.find))
}

function words(nodes, at, metric) {
  const value = ratio(nodes.values[metric]?.[at])
  const reason = nodes.rejected[at] < 0 ? '' : `, rejected: ${nodes.reasons[nodes.rejected[at]]}`
  const conditions = (nodes.conditions[nodes.names[at]] ?? []).map(one => `, ${one}`).join('')
  return `${nodes.names[at]}: ${metric} ${percent(value)}, score ${nodes.score[at] ?? MISSING}${reason}${conditions}`
}

function drawMap(nodes) {
  const metrics = Object.keys(nodes.values), pools = [...new Set(nodes.pools)].sort(natural)
  if (!metrics.includes(chosen.metric)) chosen.metric = worst(nodes)
  offer('metric', metrics, chosen.metric)
  byId('order').value = chosen.order
  if (byId('find').value !== chosen.find) byId('find').value = chosen.find
  byId('pool-choice').hidden = pools.length < 2
  offer('pool', ['', ...pools.filter(Boolean)], chosen.pool)
  const shown = order(nodes, chosen.metric, chosen.order).filter(at => wanted(nodes, at))
  chosen.node ||= nodes.names[order(nodes, chosen.metric, 'load').find(at => wanted(nodes, at))] ?? ''
  const edges = edgesOf(nodes.limits[chosen.metric], evictAbove(chosen.metric))
  const edgesAt = at => { const own = nodes.own_limits[nodes.names[at]]?.[chosen.metric]; return own === undefined ? edges : edgesOf(own, evictAbove(chosen.metric)) }
  const cells = shown.map(at => ({
    name: nodes.names[at], ratio: ratio(nodes.values[chosen.metric]?.[at]), step: stepOf(ratio(nodes.values[chosen.metric]?.[at]), edgesAt(at)),
    marked: nodes.rejected[at] >= 0, words: words(nodes, at, chosen.metric),
  }))
  map.set(cells, chosen.node)
  legend(nodes.limits[chosen.metric], edges)
  const known = cells.map(cell => cell.ratio).filter(one => one !== null), over = cells.filter(cell => cell.marked).length
  const mean = known.reduce((sum, one) => sum + one, 0) / known.length
  const spread = Math.sqrt(known.reduce((sum, one) => sum + (one - mean) ** 2, 0) / known.length)
  const text = known.length ? `${chosen.metric}: mean ${percent(mean)}, spread between nodes ${points(100 * spread, 1)} points` : 'no reading'
  byId('nodes-summary').textContent = `${count(cells.length, 'node')}; ${text}; ${over} over a limit`
  byId('map').setAttribute('aria-label', `Heat map of ${byId('nodes-summary').textContent}`)
}

/** The colours that this metric has, and at the policy's lines what they mean. */
function legend(limit, edges) {
  const hot = evictAbove(chosen.metric), ends = [...edges, Infinity]
  const meaning = at => at === 3 && limit !== undefined ? ': no new pods' : at === 5 && hot !== undefined ? ': overloaded' : ''
  show('legend', ends.map((end, at) => at && (end === ends[at - 1] || ends[at - 1] === 1) ? null : el('span', {},
    el('i', { class: `swatch s${at}` }), at < 3 ? `to ${percent(end)}` : `over ${percent(ends[at - 1])}${meaning(at)}`)),
  el('span', {}, el('i', { class: 'swatch none' }), 'no reading'))
}

function bar(value, expected, limit, hot) {
  const box = svg('svg', { class: 'bar', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' })
  if (value !== null) {
    box.append(svg('rect', { class: value > hot ? 'hot' : limit !== undefined && value + expected > limit ? 'over' : 'read', width: 100 * Math.min(1, value), height: 10 }))
    box.append(svg('rect', { class: 'expected', x: 100 * Math.min(1, value), width: 100 * Math.max(0, Math.min(1 - value, expected)), height: 10 }))
  }
  if (limit !== undefined) box.append(svg('line', { x1: 100 * limit, x2: 100 * limit, y1: 0, y2: 10 }))
  return box
}

function drawNode(nodes) {
  const at = nodes.names.indexOf(chosen.node)
  if (at < 0) {
    show('node', el('p', { class: 'dim' }, chosen.node ? `${chosen.node} is gone.` : 'Choose a node to see its load, its limits and its pods.'))
    return
  }
  const own = nodes.own_limits[chosen.node] ?? {}
  const rows = Object.keys(nodes.values).map(metric => {
    const value = ratio(nodes.values[metric][at]), expected = ratio(nodes.expected[metric]?.[at]) ?? 0, limit = own[metric] ?? nodes.limits[metric]
    const over = value !== null && limit !== undefined && value + expected > limit
    return [metric, [percent(value), `number ${over ? 'bad strong' : ''}`], [expected ? `+${percent(expected)}` : '', 'number'],
      [limit === undefined ? MISSING : `${percent(limit)}${own[metric] === undefined ? '' : ' own'}`, 'number'], bar(value, expected, limit, evictAbove(metric))]
  })
  const reason = nodes.rejected[at] < 0 ? null : nodes.reasons[nodes.rejected[at]]
  const conditions = nodes.conditions[chosen.node]
  const hot = Object.entries(nodes.hot).map(([window, counts]) => `${counts[at]} in ${window}`).join(', ')
  show('node',
    el('h3', {}, chosen.node),
    conditions ? el('p', { class: 'bad strong' }, `kube-scheduler places no pods here: ${conditions.join(', ')}`) : '',
    el('p', { class: reason ? 'bad strong' : nodes.states[nodes.state[at]] === 'usable' ? 'good strong' : 'strong' }, reason ? `New pods are kept away: ${reason}`
      : nodes.states[nodes.state[at]] === 'usable' ? `New pods may come: score ${nodes.score[at] ?? MISSING} of 10` : 'New pods come unjudged: the load of this node is not known'),
    el('p', { class: 'dim' }, `Reading ${nodes.states[nodes.state[at]]}, ${age(nodes.age_seconds[at])} old`,
      nodes.pools[at] ? `; pool ${nodes.pools[at]}` : '', hot ? `; new pods: ${hot}` : '', nodes.penalty[at] ? ` (−${nodes.penalty[at]} points)` : ''),
    table(['metric', ['load', 'number'], ['expected', 'number'], ['limit', 'number'], ''], rows),
    el('div', { id: 'pods' }))
  drawPods()
}

/** "412m of 250m", "- of 250m" where the use is not known. */
const used = (written, use, request) => `${written(use)} of ${written(request)}`

function drawPods() {
  if (!able.has('pods') || !byId('pods')) return
  if (podsOf.node !== chosen.node || performance.now() - podsOf.at > 15000) {
    podsOf = { node: chosen.node, pods: podsOf.node === chosen.node ? podsOf.pods : null, error: '', at: performance.now() }
    ask(`api/pods?node=${encodeURIComponent(chosen.node)}`).then(
      found => { if (podsOf.node === chosen.node) { podsOf.pods = found.pods; drawPods() } },
      error => { podsOf.error = error.message; drawPods() })
  }
  if (podsOf.error) show('pods', el('p', { class: 'bad' }, podsOf.error))
  else if (podsOf.pods) {
    const rows = podsOf.pods.map(pod => [[el('a', { href: `#pod=${encodeURIComponent(`${pod.namespace}/${pod.name}`)}` }, `${pod.namespace}/${pod.name}`), 'name'], [pod.workload || MISSING, 'name later'],
      [used(millicores, pod.cpu_used_millicores, pod.cpu_millicores), 'number'], [used(mebibytes, pod.memory_used_bytes, pod.memory_bytes), 'number']])
    show('pods', el('h3', {}, count(rows.length, 'pod'), el('small', { class: 'dim' }, ': use over the last minutes, and what it requests')),
      el('div', { class: 'scroll' }, table(['pod', ['owner', 'later'], ['CPU', 'number'], ['memory', 'number']], rows)))
  }
}

function draw(nodes) {
  if (!nodes) return
  drawMap(nodes)
  keepingFocus(() => drawNode(nodes))
}

for (const id of ['metric', 'order', 'pool']) byId(id).addEventListener('change', event => choose({ [id]: event.target.value }))
byId('find').addEventListener('input', event => choose({ find: event.target.value }))
on(['nodes'], draw)
on(['policy'], () => draw(newest('nodes')))
