/* The story of a span of time, as `evenload story` has it: it is asked for when a person wants it, for it costs Prometheus
   range queries. The address keeps the span, so that a night can be shown to others. */

import { byId, el, nodeLink, show, table } from './dom.js'
import { able, ask, choose, chosen, now, on } from './state.js'
import { time } from './words.js'

const SPAN = /^(\d+)\s*([mhd])$/, UNITS = { m: 60, h: 3600, d: 86400 }
let asked = { key: null, found: null, error: '' }

/** Unix seconds of "12h", so long ago, or of a time in UTC; NaN for neither. */
function moment(text) {
  const [, number, unit] = SPAN.exec(text) ?? []
  return unit ? now() - number * UNITS[unit] : Date.parse(/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`) / 1000
}

function begin(event) {
  event.preventDefault()
  asked = { key: null, found: null, error: '' }
  choose({ since: byId('since').value.trim() || '12h', until: byId('until').value.trim() })
}

function build() {
  const field = (id, word, hint) => [el('label', { for: id }, word), ' ', el('input', { id, list: 'spans', size: 20, autocomplete: 'off', spellcheck: 'false', placeholder: hint }), ' ']
  show('story-body',
    el('form', { class: 'controls', submit: begin }, el('span', {}, field('since', 'Since', '12h')), el('span', {}, field('until', 'Until', 'now')),
      el('datalist', { id: 'spans' }, ['1h', '6h', '12h', '1d', '7d'].map(value => el('option', { value }))), el('button', {}, 'Show')),
    el('div', { id: 'story-lines', 'aria-live': 'polite' }, el('p', { class: 'dim' }, 'Overloads, evictions, refusals, alerts, changes of policy and leader of a span such as 12h, or between two times in UTC such as 2026-11-21T04:00.')))
}

function draw() {
  if (!able.has('story')) { show('story-body', el('p', { class: 'dim' }, 'This console cannot read the past; on a terminal: evenload story.')); return }
  if (!byId('since')) build()
  const { since, until } = chosen, key = `${since} ${until}`
  if (document.activeElement !== byId('since')) byId('since').value = since
  if (document.activeElement !== byId('until')) byId('until').value = until
  if (!since || key === asked.key) return
  const own = asked = { key, found: null, error: '' }, first = moment(since), last = until ? moment(until) : now()
  if (!(first < last)) own.error = 'Write a span such as 12h or a time such as 2026-11-21T04:00, the beginning before the end.'
  drawLines()
  if (!own.error) ask(`api/story?begin=${first}&end=${last}`).then(found => { own.found = found }, error => { own.error = error.message }).then(() => { if (asked === own) drawLines() })
}

function drawLines() {
  if (asked.error) { show('story-lines', el('p', { class: 'bad' }, asked.error)); return }
  if (!asked.found) { show('story-lines', el('p', { class: 'dim' }, 'asking …')); return }
  const { summary, notKnown, happenings } = asked.found
  const at = one => { const text = time(one.at_seconds, now()); return one.kind === 'eviction' ? el('a', { href: `#at=${new Date(one.at_seconds * 1000).toISOString().slice(0, 19)}Z` }, text) : text }
  const words = { overload: 'bad', refusal: 'warn', stuck: 'warn', alert: 'warn' }
  show('story-lines', summary.map((line, place) => el('p', { class: place ? 'dim' : 'strong' }, line)),
    Object.entries(notKnown).map(([source, problem]) => el('p', { class: 'warn' }, `Not known: ${source}: ${problem}`)),
    happenings.length ? el('div', { class: 'scroll' }, table(['at', 'node', ['what happened', 'name']], happenings.map(one => [at(one), one.node ? nodeLink(one.node) : '', [one.text, `name ${words[one.kind] ?? ''}`]]))) : null)
}

on(['story'], draw)
draw()
