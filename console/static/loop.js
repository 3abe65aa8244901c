/* The loop on top: how fresh each step is, in the order in which load becomes a decision. */

import { el, show } from './dom.js'
import { newest, now, on, statusOf } from './state.js'
import { age, count, duration, modeOf, percent, seconds } from './words.js'

const LATE_PERIODS = 3, SLACK_SECONDS = 10, GOOD_SHARE = 0.8, BAD_SHARE = 0.5

/** The heartbeat's age when the extender answered, and the time since: how old the load on the page is, and whether too old. */
export function dataAge() {
  const { at_seconds: answered } = statusOf('nodes'), old = newest('nodes')?.heartbeat.age_seconds ?? null
  if (old === null) return { old, late: true }
  const whole = old + Math.max(0, answered ? now() - answered : 0)
  return { old: whole, late: whole > LATE_PERIODS * (duration(newest('policy')?.policy?.sync?.period) ?? 30) + SLACK_SECONDS }
}

function step(href, title, strong, text, word) {
  return el('li', {}, el('a', { href, class: word }, el('b', {}, title), el('strong', {}, strong), el('span', {}, text)))
}

/** A step whose service does not answer, with the reason; null where it does. */
function silent(topic, href, title) {
  const status = statusOf(topic)
  if (!status.error) return null
  const old = status.at_seconds ? `, figures are ${age(now() - status.at_seconds)} old` : ''
  return step(href, title, 'no answer', status.error + old, 'bad')
}

function measured() {
  const title = 'annotator: measured load', nodes = newest('nodes')
  if (!nodes) return silent('nodes', '#nodes', title) ?? step('#nodes', title, '…', 'waiting for the extender', '')
  const beat = nodes.heartbeat, { old, late } = dataAge()
  if (old === null) return step('#nodes', title, 'no heartbeat', beat.problem ?? 'no annotator has finished a sync', 'bad')
  const usable = nodes.state.filter(one => nodes.states[one] === 'usable').length
  const text = `${usable} of ${count(nodes.names.length, 'node')} have a fresh reading`
  const word = late || beat.problem ? 'bad' : usable < nodes.names.length || !beat.matches || !usable ? 'warn' : 'ok'
  return step('#nodes', title, `${age(old)} ago`, beat.problem ? `${text}; ${beat.problem}` : text, word)
}

function hot() {
  const title = 'extender: nodes over a limit', nodes = newest('nodes')
  const failed = silent('nodes', '#nodes', title)
  if (failed || !nodes) return failed ?? step('#nodes', title, '…', 'waiting for the extender', '')
  const over = nodes.rejected.filter(one => one >= 0).length, unread = nodes.state.filter(one => nodes.states[one] !== 'usable').length
  const by = statusOf('decisions').by ?? [], text = [unread ? `${count(unread, 'node')} not known` : '', by.length ? `asked: ${by.join(', ')}` : '']
  return step('#nodes', title, `${over} of ${nodes.names.length}`, text.filter(Boolean).join('; '), over ? 'warn' : unread || !nodes.names.length ? '' : 'ok')
}

function decided() {
  const title = 'kube-scheduler: last asked', decisions = newest('decisions')
  const failed = silent('decisions', '#decisions', title)
  if (failed || !decisions) return failed ?? step('#decisions', title, '…', 'waiting for the extender', '')
  if (!decisions.length) return step('#decisions', title, 'never', 'no decision in the last hour', 'warn')
  const last = decisions[0]
  return step('#decisions', title, `${age(now() - last.at_seconds)} ago`, `${last.namespace}/${last.pod}: ${last.verb}`, 'ok')
}

function relief() {
  const title = 'descheduler: would evict now', plan = newest('plan')
  const failed = silent('plan', '#plan', title)
  if (failed || !plan) return failed ?? step('#plan', title, '…', 'waiting for the descheduler', '')
  return step('#plan', title, plan.partial ? 'unknown' : count(plan.evictions.length, 'pod'), `mode ${modeOf(plan)}; ${plan.summary}`, plan.partial || plan.nodes.length ? 'warn' : 'ok')
}

function moved() {
  const title = 'evictions made today', evictions = newest('evictions')
  const failed = silent('evictions', '#evictions', title)
  if (failed || !evictions) return failed ?? step('#evictions', title, '…', 'waiting for the descheduler', '')
  const today = evictions.filter(one => one.result === 'evicted' && now() - seconds(one.at) < 86400)
  const held = today.filter(one => one.stayed_under_line === true).length, known = today.filter(one => one.stayed_under_line !== null).length
  const breakers = newest('breakers')?.breakers, open = (breakers ?? []).filter(one => one.state !== 'closed').length
  const text = `${known ? `${percent(held / known)} of their nodes stayed under the line` : 'no follow-up yet'}${open ? `; ${count(open, 'breaker')} open` : ''}`
  const share = known ? held / known : null
  return step('#evictions', title, String(today.length), text, known && share < BAD_SHARE ? 'bad' : open || (known && share < GOOD_SHARE) ? 'warn' : known && breakers ? 'ok' : '')
}

function draw() {
  show('loop', measured(), hot(), decided(), relief(), moved())
}

on(['status', 'nodes', 'decisions', 'plan', 'evictions', 'breakers'], draw)
