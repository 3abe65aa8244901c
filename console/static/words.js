/* Numbers and times as people read them; "-" is what is missing, never 0. */

export const MISSING = '-'
const collator = new Intl.Collator('en', { numeric: true })

export const natural = (one, other) => collator.compare(one, other)
export const percent = ratio => ratio === null || ratio === undefined ? MISSING : `${Math.round(100 * ratio)} %`
export const points = (value, digits = 2) => value === null || value === undefined ? MISSING : value.toFixed(digits)
export const count = (number, word) => `${number} ${word}${number === 1 ? '' : 's'}`
export const millicores = value => value === null || value === undefined ? MISSING : `${Math.round(value)}m`
export const mebibytes = value => value === null || value === undefined ? MISSING : `${Math.round(value / 2 ** 20)} Mi`

/** A plan's mode, with the reason where the policy's own is another. */
export const modeOf = plan => plan.mode_reason ? `${plan.mode} (${plan.mode_reason})` : plan.mode

/** An age in the largest unit that fits. */
export function age(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return MISSING
  const whole = Math.round(Math.abs(seconds)), sign = seconds <= -1 ? '-' : ''
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'm']]) {
    if (whole >= 2 * size) return `${sign}${Math.floor(whole / size)} ${unit}`
  }
  return `${sign}${whole} s`
}

/** Seconds of a policy's duration such as 1h30m; undefined for none. */
export function duration(text) {
  if (!text) return undefined
  const units = { h: 3600, m: 60, s: 1, ms: 0.001 }
  return [...text.matchAll(/([\d.]+)(ms|[hms])/g)].reduce((sum, [, number, unit]) => sum + Number(number) * units[unit], 0)
}

/** Seconds of an RFC 3339 text; NaN for none. */
export const seconds = text => text ? Date.parse(text) / 1000 : NaN

/** The time of day, with the date where it is another day than `now`. */
export function time(atSeconds, nowSeconds) {
  if (!Number.isFinite(atSeconds)) return MISSING
  const text = new Date(atSeconds * 1000).toISOString()
  const today = new Date(nowSeconds * 1000).toISOString().slice(0, 10) === text.slice(0, 10)
  return today ? text.slice(11, 19) : `${text.slice(5, 10)} ${text.slice(11, 16)}`
}
