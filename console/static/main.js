/* Connects to the stream and hands each topic to the views. The browser itself connects again after an error. */

import { leaveRoom } from './bar.js'
import './loop.js'
import './nodes.js'
import './decisions.js'
import './plan.js'
import './evictions.js'
import './story.js'
import './effect.js'
import './policy.js'
import { byId } from './dom.js'
import { choose, follow, newest, publish, statusOf } from './state.js'
import { age } from './words.js'

const TOPICS = ['status', 'nodes', 'decisions', 'plan', 'evictions', 'breakers', 'effectiveness', 'policy', 'whatif']
const connection = byId('connection')
let heardAt = performance.now()

function say(text, bad) {
  connection.textContent = text
  connection.classList.toggle('bad', bad)
}

/** The part that the address names is held in view until every service has answered and a little longer, for the pods of a
    node: parts above it grow until then. */
let part = byId(follow()), settling = null
const SETTLE_MILLISECONDS = 3000
const ANSWERS = ['nodes', 'decisions', 'plan', 'evictions', 'policy']
function hold() {
  if (!part) return
  leaveRoom()
  part.scrollIntoView({ behavior: 'instant' })
  if (ANSWERS.every(topic => newest(topic) || statusOf(topic).error)) settling ??= setTimeout(() => { part = null }, SETTLE_MILLISECONDS)
}
new ResizeObserver(hold).observe(document.querySelector('main'))
for (const event of ['wheel', 'pointerdown', 'keydown']) addEventListener(event, () => { part = null }, { passive: true })
addEventListener('hashchange', () => byId(follow())?.scrollIntoView())
addEventListener('click', event => { // a link of the page changes its own key only; opened elsewhere it is the whole address
  const link = event.target.closest('a[href^="#"][href*="="]')
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  byId(choose(Object.fromEntries(new URLSearchParams(link.hash.slice(1))))).scrollIntoView()
})

const source = new EventSource('api/stream')
source.addEventListener('open', () => say('live', false))
source.addEventListener('error', () => say(source.readyState === EventSource.CLOSED
  ? 'the console refuses this page: load it again' : `the console has not answered for ${age((performance.now() - heardAt) / 1000)}: figures are old; trying again`, true))
for (const topic of TOPICS) {
  source.addEventListener(topic, event => {
    heardAt = performance.now()
    publish(topic, JSON.parse(event.data))
    hold()
  })
}
