/* What the page knows: the newest body of each topic, and what the person has chosen, which the address says, too. */

const listeners = new Map()
const bodies = new Map()
let clockSeconds = null, clockAt = 0

export const able = new Set(document.body.dataset.able.split(' '))
const START = { node: '', metric: '', order: 'load', pool: '', find: '', pod: '', at: '', eviction: '', since: '', until: '' }
const TOPICS = { pod: 'decisions', at: 'evictions', eviction: 'evictions', since: 'story', until: 'story' } // of the other keys: nodes
export const chosen = { ...START }
const PAUSE_MILLISECONDS = 200 // a held arrow key chooses more often than browsers let the address be written
let keys = [], writing = null // keys in the address, the last choice first

/** The newest body of a topic; undefined before its first. */
export const newest = topic => bodies.get(topic)

/** Calls `draw` whenever one of the topics has a new body, and once when all scripts are there. */
export function on(topics, draw) {
  for (const topic of topics) listeners.set(topic, [...(listeners.get(topic) ?? []), draw])
}

/** A new body of a topic. */
export function publish(topic, body) {
  const before = bodies.get(topic)
  bodies.set(topic, body)
  if (topic === 'status') {
    clockSeconds = body.now_seconds
    clockAt = performance.now()
  }
  if (clockSeconds === null) return // ages cannot be told yet: everything is drawn when the first status comes
  for (const draw of listeners.get(topic) ?? []) draw(body)
  if (topic !== 'status') return
  if (before === undefined) for (const [other, held] of [...bodies]) if (other !== 'status') publish(other, held)
  for (const [name, { error }] of Object.entries(body.topics)) {
    if (error !== (before?.topics[name]?.error ?? '')) publish(`error ${name}`, error)
  }
}

const topicOf = key => TOPICS[key] ?? 'nodes'
const redraw = changes => { for (const topic of new Set(Object.keys(changes).map(topicOf))) publish(topic, bodies.get(topic)) }

/** Takes choices such as { node: 'a' }, puts them first in the address, redraws what depends on them, and returns the part
    of the page that the first is in. */
export function choose(changes) {
  Object.assign(chosen, changes)
  keys = [...Object.keys(changes), ...keys.filter(key => !(key in changes))].filter(key => chosen[key] !== START[key])
  const query = String(new URLSearchParams(keys.map(key => [key, chosen[key]]))).replaceAll('%2F', '/').replaceAll('%3A', ':')
  clearTimeout(writing)
  const before = location.hash // an address that is taken meanwhile stays, also until its event comes
  writing = setTimeout(() => location.hash === before && history.replaceState(null, '', `#${query}`), PAUSE_MILLISECONDS)
  redraw(changes)
  return topicOf(Object.keys(changes)[0])
}

/** Takes the choices of the address, and returns the part of the page that the first of them, or a section's name, is in. */
export function follow() {
  const query = [...new URLSearchParams(location.hash.slice(1))].filter(([key]) => key in START)
  if (query.length) {
    keys = query.map(([key]) => key)
    redraw(Object.assign(chosen, START, Object.fromEntries(query)))
  }
  return query.length ? topicOf(keys[0]) : location.hash.slice(1)
}

/** The cluster's time, which in a simulation is not this machine's. */
export function now() {
  return clockSeconds === null ? Date.now() / 1000 : clockSeconds + Math.min(30, (performance.now() - clockAt) / 1000)
}

/** The status of a topic: when it was last answered, by whom, and why not since. */
export const statusOf = topic => newest('status')?.topics?.[topic] ?? { at_seconds: 0, error: '', by: [] }

/** JSON of a path of this console; throws an Error in the service's own words. */
export async function ask(path, options = {}) {
  const answer = await fetch(path, options)
  const body = await answer.json()
  if (!answer.ok) throw new Error(body.message ?? `${answer.status} ${answer.statusText}`)
  return body
}
