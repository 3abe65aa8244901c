/* The bar that stays on top: modes, policy, age of the load; the part of the page in view; one sentence when all is down. */

import { byId, el, show } from './dom.js'
import { dataAge } from './loop.js'
import { newest, now, on, statusOf } from './state.js'
import { age, modeOf, time } from './words.js'

const SERVICES = { extender: ['nodes', 'decisions'], descheduler: ['plan', 'evictions', 'policy'] }

function facts() {
  const plan = newest('plan'), nodes = newest('nodes'), hashes = [nodes?.policy, plan?.policy].filter(Boolean)
  const differ = hashes.length === 2 && hashes[0] !== hashes[1], shadow = newest('policy')?.policy?.extender?.mode, { old, late } = dataAge()
  show('facts', [
    shadow && !differ ? ['', `extender ${shadow}`] : null, plan ? ['', `descheduler ${modeOf(plan)}`] : null,
    differ ? ['warn strong', `policies differ: extender ${hashes[0]}, descheduler ${hashes[1]}`] : hashes.length ? ['', `policy ${hashes[0]}`] : null,
    nodes ? [late ? 'bad strong' : '', old === null ? 'no heartbeat' : `data ${age(old)} old`] : null,
  ].filter(Boolean).flatMap(([word, text]) => [el('span', { class: word }, text), ' ']))
}

/** In place of an error in every part, one sentence: who does not answer, why, and of when the figures are. */
function down() {
  const topics = Object.values(SERVICES).flat(), all = topics.every(topic => statusOf(topic).error), last = Math.max(...topics.map(topic => statusOf(topic).at_seconds))
  document.body.classList.toggle('down', all)
  document.body.classList.toggle('empty', !last)
  byId('down').hidden = !all
  if (!all) return
  const why = [...new Set(Object.values(SERVICES).map(([first]) => statusOf(first).error))].join('; ')
  byId('down').textContent = `No service of Evenload answers: ${why}. ${last ? `The figures are of ${time(last, now())}.` : 'There are no figures yet.'} On a terminal, evenload doctor looks for the cause.`
}

const bar = document.querySelector('header')

/** Lets what is scrolled to end below the bar, as high as it is now. */
export const leaveRoom = () => { document.documentElement.style.scrollPaddingTop = `${bar.offsetHeight}px` }
new ResizeObserver(leaveRoom).observe(bar)

const links = [...document.querySelectorAll('nav a')]
const watch = new IntersectionObserver(entries => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) for (const link of links) link.toggleAttribute('aria-current', link.hash === `#${target.id}`)
  }
}, { rootMargin: '-25% 0px -74% 0px' })
for (const link of links) watch.observe(byId(link.hash.slice(1)))

on(['status', 'nodes', 'plan', 'policy'], facts)
on(['status'], down)
