/* Builds the page's elements. Every text becomes a text node: a pod that is named like a tag is shown, never run. */

import { MISSING, natural } from './words.js'

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

const sorting = new Map() // the headers of a table -> the column that a person sorts it by, and which way

/** A table: headers are texts or [text, class], rows are arrays of cells: a text, an element, or [content, class]. A click on
    a header sorts by its column, which tables of the same headers do from then on; a third click gives the first order back. */
export function table(headers, rows, { caption, rowAttributes = () => ({}) } = {}) {
  const cell = (tag, one) => Array.isArray(one) ? el(tag, { class: one[1] }, one[0]) : el(tag, {}, one)
  const key = headers.map(one => [one].flat()[0]).join('|'), body = el('tbody', {}), lines = rows.map((row, at) => el('tr', rowAttributes(at), row.map(one => cell('td', one))))
  const heads = headers.map((one, at) => {
    const [text, word = ''] = [one].flat(), figures = word.includes('number')
    const press = () => {
      const { column, down } = sorting.get(key) ?? {}
      if (column !== at) sorting.set(key, { column: at, down: figures })
      else if (down === figures) sorting.set(key, { column: at, down: !down })
      else sorting.delete(key)
      fill()
    }
    return el('th', { class: word }, text ? el('button', { type: 'button', title: 'sort', 'data-key': `sort ${key} ${at}`, click: press }, text) : '')
  })
  function fill() {
    const { column, down } = sorting.get(key) ?? {}, text = line => line.cells[column].textContent
    heads.forEach((head, at) => at === column ? head.setAttribute('aria-sort', down ? 'descending' : 'ascending') : head.removeAttribute('aria-sort'))
    body.replaceChildren(...column === undefined ? lines : [...lines].sort((one, other) => compared(text(one), text(other), down)))
  }
  fill()
  return el('div', { class: 'wide' }, el('table', {}, caption ? el('caption', {}, caption) : null, el('thead', {}, el('tr', {}, heads)), body))
}

/** Numbers before their units, texts by the numbers in them; what is missing is last both ways, and today after other days. */
function compared(one, other, down) {
  const gone = text => text === '' || text.split(' ')[0] === MISSING, day = text => /^\d\d:\d\d/.test(text) ? `99-99 ${text}` : text
  if (gone(one) || gone(other)) return gone(one) - gone(other)
  return (down ? -1 : 1) * natural(day(one), day(other))
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
  const key = document.activeElement?.dataset?.key, same = () => [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)]
  const at = key === undefined ? -1 : same().indexOf(document.activeElement)
  draw()
  if (at >= 0) same()[at]?.focus()
}
