/* Decisions as they come, and one in full: why the pod went there, and what the other nodes lacked. */

import { el, keepingFocus, nodeLink, show, table, waiting } from './dom.js'
import { ask, choose, chosen, newest, now, on, statusOf } from './state.js'
import { count, mebibytes, millicores, MISSING, percent, points, time } from './words.js'

const SHOWN = 40, NODES_SHOWN = 10
let asked = { pod: '', key: '', found: null, error: '' }

const keyOf = one => `${one.namespace}/${one.pod}/${one.uid}`

/** The verbs of one pod in one row, newest first. */
function grouped(decisions) {
  const rows = new Map()
  for (const one of decisions) {
    const row = rows.get(keyOf(one)) ?? { key: keyOf(one), namespace: one.namespace, pod: one.pod, at: one.at_seconds, verbs: {} }
    row.verbs[one.verb] ??= one
    rows.set(row.key, row)
  }
  return [...rows.values()].slice(0, SHOWN)
}

function outcome(row) {
  const { filter, prioritize, preempt } = row.verbs
  const placed = prioritize?.assumed || filter?.assumed || ''
  if (placed) return [placed, '']
  if (filter && !filter.passed) return ['no node', 'bad strong']
  if (filter?.exempt) return [`any node (${filter.exempt})`, '']
  if (prioritize?.best?.length) return [prioritize.best[0].node, '']
  return [preempt ? 'preemption' : MISSING, '']
}

/** The node that the pod is on now, by the extender's watch, and whether it shared the best score. */
function wentTo({ prioritize, filter, preempt }) {
  const last = prioritize && !(filter?.at_seconds > prioritize.at_seconds) ? prioritize : filter ?? preempt
  if (!last.bound_to) return [{ null: 'gone', '': 'not placed yet' }[last.bound_to] ?? MISSING, 'dim']
  return [last.bound_to + (last.bound_to_best === false ? ', below the best' : last.ties > 1 && last.bound_to_best ? `, one of ${last.ties} best` : ''), 'name']
}

function drawList(decisions) {
  if (!decisions.length) {
    show('decision-list', el('p', { class: 'dim' }, 'No decision in the last hour. Does kube-scheduler ask this extender? evenload doctor knows.'))
    return
  }
  const rows = grouped(decisions).map(row => {
    const filter = row.verbs.filter
    const passed = filter ? `${filter.passed} of ${filter.candidates}` : MISSING
    const button = el('button', { class: 'link', type: 'button', 'data-key': `decision ${row.key}`, click: () => { askFor(`${row.namespace}/${row.pod}`, row.key); choose({ pod: asked.pod }) } }, `${row.namespace}/${row.pod}`)
    return { row, cells: [[time(row.at, now()), 'later'], [button, 'name'], [passed, `number ${filter && filter.passed < filter.candidates ? 'warn' : ''}`], outcome(row), wentTo(row.verbs)] }
  })
  keepingFocus(() => show('decision-list', table([['at', 'later'], 'pod', ['nodes passed', 'number'], 'best node', 'went to'], rows.map(one => one.cells),
    { rowAttributes: at => ({ 'aria-selected': chosen.pod && rows[at].row.key === asked.key ? 'true' : null }) })))
}

/** Asks for the decisions about "namespace/pod": of the key, or of the newest pod of that name. */
function askFor(pod, key = '') {
  const [namespace, name = ''] = pod.split('/'), own = asked = { pod, key, found: null, error: '' }
  drawOne()
  ask(`api/decision?namespace=${encodeURIComponent(namespace)}&pod=${encodeURIComponent(name)}`).then(found => {
    if (found.decisions.length) own.key ||= keyOf(found.decisions[0])
    own.found = found.decisions.filter(one => keyOf(one) === own.key)
  }, error => { own.error = error.message }).then(() => { if (asked === own) { draw(); drawOne() } })
}

/** "cpu_avg_5m 2.49 + cpu_max_1h 1.30 = 3.79" of the mean that decides, and the penalty. */
function sum(node, means) {
  const sums = (means?.length ? means : [Object.keys(node.terms)]).map(group => {
    const known = group.filter(name => node.terms[name] !== null && node.terms[name] !== undefined)
    return { text: known.map(name => `${name} ${points(node.terms[name])}`).join(' + '), value: known.reduce((total, name) => total + node.terms[name], 0) }
  }).filter(one => one.text)
  sums.sort((one, other) => one.value - other.value)
  const penalty = node.penalty && node.hot ? ` − ${points(node.penalty, 1)} for ${Object.entries(node.hot).map(([window, pods]) => `${pods} new in ${window}`).join(', ')}` : ''
  const packing = node.packing ? `, packing to ${Math.round(100 * node.packing.target_ratio)} %: ${points(node.packing.base)}` : ''
  return sums.length ? `${sums[0].text}${packing}${penalty}` : node.base === null ? 'no usable reading' : penalty
}

function ranking(decision) {
  const bare = decision.best.map(one => ({ ...one, name: one.node, raw_score: one.base - one.penalty, terms: {} })) // of an older one
  const nodes = [...(decision.nodes.length ? decision.nodes : bare)].sort((one, other) => (other.raw_score ?? -1) - (one.raw_score ?? -1))
  const scored = nodes.filter(node => node.score !== null && node.score !== undefined)
  if (!scored.length) return null
  const best = scored[0], second = scored[1]
  const why = second ? `${best.name} is best with ${points(best.raw_score)} points; the next, ${second.name}, has ${points(second.raw_score)}.` : `${best.name} was the only node to choose from.`
  const rows = scored.slice(0, NODES_SHOWN).map(node => [[nodeLink(node.name), 'name'], [points(node.raw_score), 'number strong'], [node.score, 'number'], [sum(node, decision.means), 'name']])
  return [el('p', { class: 'strong' }, why), table(['node', ['points', 'number'], ['sent', 'number'], 'made of'], rows),
    scored.length > NODES_SHOWN ? el('p', { class: 'dim' }, `and ${count(scored.length - NODES_SHOWN, 'node')} with fewer points`) : null]
}

function refused(decision) {
  const nodes = decision.nodes.filter(node => node.rejected)
  if (decision.passed === decision.candidates) return el('p', { class: 'good' }, `All ${count(decision.candidates, 'node')} passed the filter.`)
  const text = `${count(decision.candidates - decision.passed, 'node')} did not pass:`
  if (!nodes.length) return el('p', {}, `${text} ${Object.entries(decision.rejected).map(([reason, many]) => `${many} ${reason}`).join(', ')}`)
  const rows = nodes.slice(0, NODES_SHOWN).map(node => {
    const rule = node.rules.find(one => one.broken)
    const lacks = rule && rule.value !== null ? `${percent(rule.value)} with what is expected, limit ${percent(rule.limit)}: ${points(100 * (rule.value - rule.limit), 1)} points too much` : ''
    return [[nodeLink(node.name), 'name'], node.rejected, lacks]
  })
  return [el('p', {}, text),
    table(['node', 'reason', 'by how much'], rows), nodes.length > NODES_SHOWN ? el('p', { class: 'dim' }, `and ${nodes.length - NODES_SHOWN} more`) : null]
}

function drawOne() {
  if (!asked.pod) {
    show('decision', el('p', { class: 'dim' }, 'Choose a pod to see why it went where it went, and what the other nodes lacked.'))
    return
  }
  if (asked.error) { show('decision', el('p', { class: 'bad' }, asked.error)); return }
  if (!asked.found) { show('decision', el('p', { class: 'dim' }, 'asking …')); return }
  const filter = asked.found.find(one => one.verb === 'filter' && one.nodes), ranked = asked.found.find(one => one.verb === 'prioritize' && one.nodes)
  const any = ranked ?? filter
  if (!any) { show('decision', el('p', { class: 'dim' }, `The extender remembers no decision about ${asked.pod}: it keeps those of the last hour.`)); return }
  const estimate = any.estimate
  show('decision',
    el('h3', {}, `${any.namespace}/${any.pod}`),
    el('p', { class: 'dim' }, `${time(any.at_seconds, now())}, policy ${any.policy_hash}`,
      estimate ? `; expected to use ${millicores(estimate.cpu_millicores)} (${estimate.cpu_by}) and ${mebibytes(estimate.memory_bytes)} (${estimate.memory_by})` : ''),
    any.shadow ? el('p', {}, 'Shadow mode: kube-scheduler was told that every node passes and scores the same.') : null,
    any.exempt ? el('p', {}, `Not judged by load: ${any.exempt}`) : null,
    any.degraded.length ? el('p', { class: 'warn' }, `Decided with less than whole data: ${any.degraded.join(', ')}`) : null,
    ...[ranked ? ranking(ranked) : null, filter ? refused(filter) : null].flat())
}

function draw() {
  const decisions = newest('decisions')
  if (chosen.pod !== asked.pod) askFor(chosen.pod)
  if (!decisions) {
    show('decision-list', waiting('extender', statusOf('decisions').error))
    return
  }
  drawList(decisions)
  if (!asked.pod) drawOne()
}

on(['decisions', 'error decisions'], draw)
