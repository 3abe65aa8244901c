/* Connects to the stream and hands each topic to the views. The browser itself connects again after an error. */

import './bar.js'
import './loop.js'
import './nodes.js'
import './decisions.js'
import './plan.js'
import './evictions.js'
import './effect.js'
import './policy.js'
import { byId } from './dom.js'
import { follow, newest, publish, statusOf } from './state.js'
import { age } from './words.js'

const TOPICS = ['status', 'nodes', 'decisions', 'plan', 'evictions', 'breakers', 'effectiveness', 'policy', 'whatif']
const connection = byId('connection')
let heardAt = performance.now()

function say(text, bad) {
  connection.textContent = text
  connection.classList.toggle('bad', bad)
}

/** The part that the address names is held in view until every service has answered: parts above it grow until then. */
let part = byId(follow())
const ANSWERS = ['nodes', 'decisions', 'plan', 'evictions', 'policy']
function hold() {
  part?.scrollIntoView({ behavior: 'instant' })
  if (ANSWERS.every(topic => newest(topic) || statusOf(topic).error)) part = null
}
for (const event of ['wheel', 'pointerdown', 'keydown']) addEventListener(event, () => { part = null }, { passive: true })
addEventListener('hashchange', () => byId(follow())?.scrollIntoView())

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
