/* Builds the page's elements. Every text becomes a text node: a pod that is named like a tag is shown, never run. */

/** An element with attributes ("class", "title" …; a function is a listener) and children (elements or texts). */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children)
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children)
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name, value)
    else if (value === true) made.setAttribute(name, '')
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value))
  }
  made.append(...children.flat().filter(one => one !== null && one !== undefined && one !== false))
  return made
}

/** A table: headers are texts or [text, class], rows are arrays of cells: a text, an element, or [content, class]. */
export function table(headers, rows, { caption, rowAttributes = () => ({}) } = {}) {
  const cell = (tag, one) => Array.isArray(one) ? el(tag, { class: one[1] }, one[0]) : el(tag, {}, one)
  return el('div', { class: 'wide' }, el('table', {},
    caption ? el('caption', {}, caption) : null,
    el('thead', {}, el('tr', {}, headers.map(one => cell('th', one)))),
    el('tbody', {}, rows.map((row, at) => el('tr', rowAttributes(at), row.map(one => cell('td', one)))))))
}

/** A link to a node's figures. */
export const nodeLink = name => el('a', { href: `#node=${encodeURIComponent(name)}` }, name)

/** The place of figures that have not come: why, or from whom. */
export const waiting = (service, error) => el('p', { class: `silence ${error ? 'bad' : 'dim'}` }, error || `waiting for ${service === 'Prometheus' ? '' : 'the '}${service} …`)

export const byId = id => document.getElementById(id)

/** Replaces what an element holds. */
export function show(id, ...children) {
  byId(id).replaceChildren(...children.flat().filter(Boolean))
}

/** Keeps the focus on the control with the same data-key while `draw` replaces its surroundings. */
export function keepingFocus(draw) {
  const key = document.activeElement?.dataset?.key
  draw()
  if (key !== undefined) document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus()
}
