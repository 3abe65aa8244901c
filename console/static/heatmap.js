/* A heat map of nodes on a canvas: 5,000 cells are drawn in a few milliseconds, and again whenever they change. */

const LEAST_CELL = 7, MOST_CELL = 84, GAP = 1, VALUE_FROM = 22, NAME_FROM = 60
const PHONE_WIDTH = 600, FINGER_CELL = 27, FINGER_NODES = 400
const tip = document.body.appendChild(Object.assign(document.createElement('p'), { id: 'tip', hidden: true }))

/** The palette of the page's colour scheme: six steps from cool to hot, and what is missing. */
function palette() {
  const style = getComputedStyle(document.documentElement)
  const colour = name => style.getPropertyValue(name).trim()
  return { steps: [0, 1, 2, 3, 4, 5].map(at => colour(`--c${at}`)), none: colour('--none'), mark: colour('--mark'), ring: colour('--fg') }
}

/** Where a colour ends, as in the report (simulator/report/shapes.py): thirds of blue up to `limit`, over which a node gets no
    new pods, two oranges up to `evictAbove`, over which it is relieved, then red. A line that is undefined has no colour. */
export function edgesOf(limit, evictAbove) {
  const cool = Math.min(limit ?? 1, evictAbove ?? 1), hot = evictAbove ?? 1
  return [cool / 3, 2 * cool / 3, cool, (cool + hot) / 2, hot]
}

/** The step of a ratio, 0 to 5; -1 for none. */
export const stepOf = (ratio, edges) => ratio === null ? -1 : edges.reduce((step, edge) => step + (ratio > edge ? 1 : 0), 0)

/** Black or white, which stands out more from a colour such as #c0191c. */
function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16))
  return 0.299 * red + 0.587 * green + 0.114 * blue > 125 ? '#16202b' : '#fff'
}

/** The end of a node's name that fits, without its domain: nodes of a pool differ there. */
function fitting(to, name, width) {
  const host = name.split('.')[0]
  for (let at = 0; at < host.length; at += 1) {
    const text = at ? `…${host.slice(at)}` : host
    if (to.measureText(text).width <= width) return text
  }
  return ''
}

export class HeatMap {
  /** `cells` are { name, ratio | null, step, marked, words }; `pick` is called with the name of the node that a person chose. */
  constructor(canvas, pick) {
    this.canvas = canvas
    this.pick = pick
    this.cells = []
    this.selected = ''
    canvas.addEventListener('click', event => this.#pickAt(this.#at(event)))
    canvas.addEventListener('mousemove', event => this.#tip(event))
    canvas.addEventListener('mouseleave', () => { tip.hidden = true })
    canvas.addEventListener('keydown', event => this.#key(event))
    new ResizeObserver(() => this.draw()).observe(canvas)
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw())
  }

  set(cells, selected) {
    this.cells = cells
    this.selected = selected
    this.draw()
  }

  draw() {
    const width = this.canvas.clientWidth, amount = this.cells.length
    if (!width) return
    const room = Math.sqrt(width * Math.min(460, Math.max(160, width / 3)) / Math.max(1, amount))
    const least = width < PHONE_WIDTH && amount <= FINGER_NODES ? FINGER_CELL : LEAST_CELL
    this.size = Math.max(least, Math.min(MOST_CELL, Math.floor(room)))
    this.columns = Math.max(1, Math.floor(width / this.size))
    const height = Math.max(this.size, Math.ceil(amount / this.columns) * this.size), dense = devicePixelRatio || 1
    this.canvas.style.height = `${height}px`
    if (this.canvas.width !== Math.round(width * dense) || this.canvas.height !== Math.round(height * dense)) {
      this.canvas.width = Math.round(width * dense)
      this.canvas.height = Math.round(height * dense)
    }
    const to = this.canvas.getContext('2d'), colours = palette()
    to.setTransform(dense, 0, 0, dense, 0, 0)
    to.clearRect(0, 0, width, height)
    this.#paint(to, colours)
  }

  #paint(to, colours) {
    const side = this.size - GAP
    this.cells.forEach((cell, at) => {
      const x = at % this.columns * this.size, y = Math.floor(at / this.columns) * this.size
      const colour = cell.step < 0 ? colours.none : colours.steps[cell.step]
      to.fillStyle = colour
      to.fillRect(x, y, side, side)
      if (cell.marked) this.#corner(to, x + side, y, Math.max(3, Math.min(14, side / 4)), colours)
      if (this.size >= VALUE_FROM) this.#words(to, cell, x + side / 2, y + side / 2 + 1, inkOn(colour))
      if (cell.name === this.selected) {
        to.lineWidth = 2
        to.strokeStyle = colours.ring
        to.strokeRect(x + 1, y + 1, side - 2, side - 2)
      }
    })
  }

  #corner(to, x, y, size, colours) {
    to.fillStyle = colours.mark
    to.strokeStyle = '#000'
    to.lineWidth = 0.5
    to.beginPath()
    to.moveTo(x - size, y)
    to.lineTo(x, y)
    to.lineTo(x, y + size)
    to.closePath()
    to.fill()
    to.stroke()
  }

  #words(to, cell, x, y, ink) {
    const named = this.size >= NAME_FROM
    to.fillStyle = ink
    to.textAlign = 'center'
    to.textBaseline = 'middle'
    to.font = `${named ? '600 15' : '12'}px system-ui, sans-serif`
    to.fillText(cell.ratio === null ? '-' : String(Math.round(100 * cell.ratio)), x, named ? y - 7 : y)
    if (!named) return
    to.font = '11px system-ui, sans-serif'
    to.fillText(fitting(to, cell.name, this.size - 6), x, y + 13)
  }

  #tip(event) {
    const cell = this.cells[this.#at(event)]
    tip.hidden = !cell
    if (!cell) return
    tip.textContent = cell.words
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4))}px`
    tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - 8 - tip.offsetHeight : event.clientY + 18}px`
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect()
    const column = Math.floor((event.clientX - box.left) / this.size), row = Math.floor((event.clientY - box.top) / this.size)
    return column < this.columns ? row * this.columns + column : -1
  }

  #pickAt(at) {
    const cell = this.cells[at]
    if (cell) this.pick(cell.name)
  }

  #key(event) {
    const here = this.cells.findIndex(cell => cell.name === this.selected)
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns }
    const last = this.cells.length - 1
    let to = null
    if (event.key in moves) to = here < 0 ? 0 : here + moves[event.key]
    else if (event.key === 'Home') to = 0
    else if (event.key === 'End') to = last
    if (to === null || last < 0) return
    event.preventDefault()
    this.#pickAt(Math.max(0, Math.min(last, to)))
  }
}
