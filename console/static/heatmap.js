/* A heat map of nodes on a canvas: 5,000 cells are drawn in a few milliseconds, and again whenever they change. */

const LEAST_CELL = 7, MOST_CELL = 64, GAP = 1, NAME_FROM = 40

/** The palette of the page's colour scheme: six steps from cool to hot, and what is missing. */
function palette() {
  const style = getComputedStyle(document.documentElement)
  const colour = name => style.getPropertyValue(name).trim()
  return { steps: [0, 1, 2, 3, 4, 5].map(at => colour(`--c${at}`)), none: colour('--none'), mark: colour('--mark'), ring: colour('--fg'), bg: colour('--bg') }
}

/** The step of a ratio: 0 to 5, by fifths of what is usual and a step of its own over 80 %. */
export const LINES = [0.2, 0.4, 0.6, 0.7, 0.8]
export const stepOf = ratio => LINES.reduce((step, line) => step + (ratio > line ? 1 : 0), 0)

export class HeatMap {
  /** `cells` are { name, ratio | null, marked }; `pick` is called with the name of the node that a person chose. */
  constructor(canvas, pick) {
    this.canvas = canvas
    this.pick = pick
    this.cells = []
    this.selected = ''
    canvas.addEventListener('click', event => this.#pickAt(this.#at(event)))
    canvas.addEventListener('mousemove', event => { const cell = this.cells[this.#at(event)]; canvas.title = cell ? cell.words : '' })
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
    const fitting = Math.sqrt(width * Math.min(460, Math.max(160, width / 3)) / Math.max(1, amount))
    this.size = Math.max(LEAST_CELL, Math.min(MOST_CELL, Math.floor(fitting)))
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
      const step = cell.ratio === null ? -1 : stepOf(cell.ratio)
      to.fillStyle = step < 0 ? colours.none : colours.steps[step]
      to.fillRect(x, y, side, side)
      if (cell.marked) this.#corner(to, x + side, y, Math.max(3, side / 3), colours)
      if (this.size >= NAME_FROM) this.#value(to, cell, x, y, side, step)
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

  #value(to, cell, x, y, side, step) {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches
    to.fillStyle = step >= 0 && (dark ? step <= 2 : step === 5) ? '#fff' : '#16202b'
    to.font = '12px system-ui, sans-serif'
    to.textAlign = 'center'
    to.textBaseline = 'middle'
    to.fillText(cell.ratio === null ? '-' : String(Math.round(100 * cell.ratio)), x + side / 2, y + side / 2 + 1)
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
