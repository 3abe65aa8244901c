/* The descheduler's plan: who would leave now, who not and why, and the breakers that hold workloads back. */

import { el, keepingFocus, nodeLink, show, table, waiting } from './dom.js'
import { newest, now, on, statusOf } from './state.js'
import { age, count, mebibytes, millicores, modeOf, percent, seconds } from './words.js'

const STAYING_SHOWN = 12
const unfolded = new Set()

function overload(one) {
  const since = one.since ? `for ${age(now() - seconds(one.since))}` : 'relief goes on'
  const after = one.projected_ratio !== one.value_ratio ? `, ${percent(one.projected_ratio)} after this plan` : ''
  return `${one.metric} ${percent(one.value_ratio)}, line ${percent(one.threshold_ratio)}, relieved until ${percent(one.target_ratio)} (${since})${after}`
}

function candidates(node) {
  const order = [...node.candidates].sort((one, other) => (one.verdict === 'chosen' ? 0 : 1) - (other.verdict === 'chosen' ? 0 : 1))
  const leaving = order.filter(one => one.verdict === 'chosen').length, whole = unfolded.has(node.node)
  const shown = whole ? order : order.slice(0, Math.max(STAYING_SHOWN, leaving))
  const rows = shown.map(one => [[`${one.namespace}/${one.pod}`, 'name'], [millicores(one.cpu_millicores), 'number'], [mebibytes(one.memory_bytes), 'number later'],
    [one.verdict === 'chosen' ? 'leaves' : `stays: ${one.verdict}`, one.verdict === 'chosen' ? 'strong warn' : ''], [one.detail, 'name']])
  const more = order.length - shown.length
  return [table(['pod', ['CPU', 'number'], ['memory', 'number later'], 'verdict', 'why'], rows),
    more ? el('button', { type: 'button', 'data-key': `plan ${node.node}`, click: () => { unfolded.add(node.node); draw() } }, `show ${more} more`) : null]
}

function drawNode(node) {
  return el('article', {}, el('h3', {}, nodeLink(node.node)), node.overloads.map(one => el('p', {}, overload(one))),
    node.left_alone ? el('p', { class: 'warn' }, `Left alone: ${node.left_alone}`) : candidates(node))
}

function breakers() {
  const found = newest('breakers')?.breakers ?? []
  if (!found.length) return null
  const rows = found.map(one => [[`${one.namespace}/${one.workload}`, 'name'], [one.failures, 'number'], [one.state, one.state === 'closed' ? '' : 'warn strong'], one.until ?? ''])
  return [el('h3', {}, 'Workloads whose evictions failed'), table(['workload', ['failures', 'number'], 'breaker', 'until'], rows)]
}

function draw() {
  const plan = newest('plan'), error = statusOf('plan').error
  if (!plan) { show('plan-body', waiting('descheduler', error)); return }
  const left = plan.headroom
  keepingFocus(() => show('plan-body',
    error ? el('p', { class: 'bad silence' }, `${error}; this plan is of ${plan.at}`) : null,
    el('p', {}, el('b', {}, `Mode ${modeOf(plan)}. `), plan.summary, plan.mode === 'Enforce' ? '' : ' Nothing is evicted in this mode.'),
    el('p', { class: 'dim' }, `Left after it: ${count(left.run, 'eviction')} in this run, ${left.hour} in this hour; ${count(left.destinations.length, 'node')} can take pods.`),
    plan.nodes.length ? plan.nodes.map(drawNode) : plan.partial ? el('p', { class: 'warn' }, 'Whether a node is overloaded is not known: the data was not whole.')
      : el('p', { class: 'good' }, 'No node is overloaded: nobody would leave.'),
    breakers()))
}

on(['plan', 'breakers', 'error plan'], draw)
