/* The policy in force, and a playground: edit, see problems in place and what differs, and replay a day under it. */

import { lines } from './charts.js'
import { byId, el, show, table } from './dom.js'
import { edgesOf, HeatMap, stepOf } from './heatmap.js'
import { evictAbove } from './nodes.js'
import { able, ask, newest, on, statusOf } from './state.js'
import { count, percent } from './words.js'

const PAUSE_MILLISECONDS = 400, LINE_PIXELS = 19, PADDING_PIXELS = 4 // the last two as console.css has them
let built = false, edited = false, waiting = null, sound = false, tried = '', problems = []

/** YAML of a policy as JSON: mappings, lists, texts, numbers and booleans are all that it has. */
function yaml(value, indent = '') {
  if (Array.isArray(value)) {
    if (!value.length) return ' []'
    if (value.every(one => typeof one !== 'object')) return ` [${value.map(scalar).join(', ')}]`
    return value.map(one => `\n${indent}-${yaml(one, `${indent}  `).replace(/^\n\s*/, ' ')}`).join('')
  }
  if (value !== null && typeof value === 'object') {
    const keys = Object.keys(value)
    return keys.length ? keys.map(key => `\n${indent}${scalar(key)}:${yaml(value[key], `${indent}  `)}`).join('') : ' {}'
  }
  return ` ${scalar(value)}`
}

function scalar(value) {
  if (typeof value !== 'string') return String(value)
  return /^([A-Za-z][A-Za-z0-9_./-]*|([0-9]+(ms|[hms]))+)$/.test(value) && !/^(true|false|yes|no|on|off|null|y|n)$/i.test(value) ? value : JSON.stringify(value)
}

function build() {
  built = true
  show('policy-body',
    el('p', { id: 'policy-state' }),
    el('div', { class: 'editor' },
      el('div', {}, el('label', { for: 'text' }, 'Policy, to try things with: nothing here is sent to the cluster.'),
        el('div', { class: 'marked' }, el('div', { id: 'marks', 'aria-hidden': 'true' }),
          el('textarea', { id: 'text', spellcheck: 'false', autocomplete: 'off', 'aria-describedby': 'problems', input: () => { edited = true; later() }, scroll: mark })),
        el('p', {}, el('button', { type: 'button', click: reset }, 'As in force'), ' ',
          able.has('what_if') ? el('button', { id: 'try', class: 'primary', type: 'button', disabled: true, click: tryIt }, 'Replay a day under it') : null)),
      el('div', {}, el('div', { id: 'problems', 'aria-live': 'polite' }), el('div', { id: 'whatif', 'aria-live': 'polite' }))))
}

function inForce() {
  const policy = newest('policy')?.policy
  return policy ? yaml(policy).trimStart() + '\n' : ''
}

function reset() {
  byId('text').value = inForce()
  edited = false
  check()
}

function later() {
  clearTimeout(waiting)
  waiting = setTimeout(check, PAUSE_MILLISECONDS)
}

/** Marks the lines of problems behind the text. */
function mark() {
  const box = byId('text')
  box.setAttribute('aria-invalid', String(problems.length > 0))
  show('marks', problems.map(one => {
    const line = el('i')
    line.style.top = `${PADDING_PIXELS + (one.line - 1) * LINE_PIXELS - box.scrollTop}px`
    return line
  }))
}

/** Puts the caret where a problem is. */
function jump(problem) {
  const box = byId('text'), rows = box.value.split('\n').slice(0, problem.line - 1)
  const at = rows.reduce((sum, row) => sum + row.length + 1, 0) + problem.column - 1
  box.focus()
  box.setSelectionRange(at, at)
  box.scrollTop = (problem.line - 5) * LINE_PIXELS
}

async function check() {
  if (!able.has('check')) return
  const text = byId('text').value
  let found
  try { found = await ask('api/policy/check', { method: 'POST', body: text }) } catch (error) { show('problems', el('p', { class: 'bad' }, error.message)); return }
  if (text !== byId('text').value) return
  problems = found.problems
  sound = !problems.length
  mark()
  const button = byId('try')
  if (button) button.disabled = !sound || newest('whatif')?.state === 'running'
  if (!sound) {
    show('problems', el('h3', { class: 'bad' }, count(found.problems.length, 'problem')), el('ul', { class: 'plain' }, found.problems.map(one => el('li', {},
      el('button', { type: 'button', title: 'go there', click: () => jump(one) }, `line ${one.line}`), ` ${one.path ? `${one.path}: ` : ''}${one.message}`))))
    return
  }
  show('problems', el('h3', { class: 'good' }, 'A sound policy'),
    el('p', {}, found.differences.length ? 'Unlike the one in force:' : 'It is the one in force.'),
    el('ul', { class: 'plain' }, found.differences.map(one => el('li', {}, el('code', {}, one)))))
}

async function tryIt() {
  tried = byId('text').value
  try { await ask('api/what-if', { method: 'POST', body: tried }) } catch (error) { show('whatif', el('p', { class: 'bad' }, error.message)) }
}

function drawWhatIf() {
  const whatif = newest('whatif')
  if (!built || !whatif) return
  const button = byId('try')
  if (button) button.disabled = !sound || whatif.state === 'running'
  byId('whatif').setAttribute('aria-busy', String(whatif.state === 'running')) // read aloud at its end alone
  if (whatif.state === 'running') { show('whatif', el('p', {}, `replaying a day, twice: ${percent(whatif.share)}`), el('progress', { max: 1, value: whatif.share })); return }
  if (whatif.state === 'failed') { show('whatif', el('p', { class: 'bad' }, whatif.message)); return }
  const found = whatif.result
  show('whatif', el('h3', {}, found.title),
    el('div', { class: 'cards' }, found.numbers.map(one => el('div', { class: `card ${one.word}` }, one.name, el('b', {}, one.before ? `${one.before} → ${one.after}` : one.after), el('span', { class: 'dim' }, [one.change, one.detail].filter(Boolean).join('; '))))),
    el('div', { class: 'charts' }, el('div', { id: 'whatif-hot' }), el('div', { id: 'whatif-spread' })),
    found.days.map((day, at) => el('figure', {}, el('figcaption', {}, `${day.name}: the highest CPU use of each node over the day`), el('canvas', { id: `whatif-map-${at}`, role: 'img', 'aria-label': `${day.name}: ${count(day.peaks.length, 'node')} by their highest CPU use` }))),
    table(['figure', ...found.days.map(day => [day.name, 'number'])], found.figures.map(row => [row.name, ...row.values.map(value => [value, 'number'])]), { caption: 'All figures' }))
  for (const [id, key, title] of [['whatif-hot', 'hot_nodes', 'Nodes over 80 % of CPU'], ['whatif-spread', 'spread', 'Spread of CPU between nodes']]) {
    lines(byId(id), id, title, found.days.map((day, at) => ({ label: day.name, colour: at ? '--load' : '--c4', dash: at ? undefined : [6, 4] })),
      [found.at_seconds, ...found.days.map(day => day[key])], { ratio: key === 'spread' })
  }
  const edges = edgesOf(newest('policy')?.policy?.filter?.thresholds?.cpu_avg_5m, evictAbove('cpu_avg_5m'))
  found.days.forEach((day, at) => new HeatMap(byId(`whatif-map-${at}`), () => {}).set(day.peaks.map((ratio, place) => ({ name: found.nodes[place], ratio, step: stepOf(ratio, edges), marked: false, words: `${found.nodes[place]}: ${percent(ratio)}` })), ''))
}

function draw() {
  if (!built) build()
  const status = statusOf('policy'), policy = newest('policy')
  byId('policy-state').textContent = status.error || (policy ? `In force: ${newest('nodes')?.policy ?? ''}${policy.trouble ? `; ${policy.trouble}` : ''}` : 'waiting for the descheduler …')
  byId('policy-state').className = status.error ? 'bad silence' : 'dim'
  if (policy && !edited && byId('text').value !== inForce()) reset()
}

on(['policy', 'error policy'], draw)
draw()
on(['whatif'], drawWhatIf)
