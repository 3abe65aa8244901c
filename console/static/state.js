/* What the page knows: the newest body of each topic, and what the person has chosen. Views subscribe to topics. */

const listeners = new Map()
const bodies = new Map()
let clockSeconds = null, clockAt = 0

export const able = new Set(document.body.dataset.able.split(' '))
export const chosen = { node: '', metric: '', order: 'load', pool: '', find: '', decision: '', eviction: null }

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

/** Redraws what depends on a choice of the person. */
export const choose = topic => publish(topic, bodies.get(topic))

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
