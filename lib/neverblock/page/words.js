// Numbers as people read them.
export const seconds = value => {
  if (value == null) return ""
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`
  if (value < 99.95) return `${value.toFixed(1)} s`
  if (value < 5400) return `${Math.round(value / 60)} min`
  return value < 172800 ? `${(value / 3600).toFixed(1)} h` : `${Math.round(value / 86400)} days`
}

export const milliseconds = value => value < 10 ? `${value.toFixed(value < 1 ? 2 : 1)} ms` : seconds(value / 1000)
export const count = value => value == null ? "" : Math.round(value).toLocaleString("en-US")
export const rate = value => value < 10 ? value.toFixed(1) : count(value)
export const percent = value => `${Math.round(value)} %`
export const bytes = value => {
  if (value == null) return ""
  return value < 1e9 ? `${Math.round(value / 1e6)} MB` : `${(value / 1e9).toFixed(2)} GB`
}
export const clock = () => new Date().toLocaleTimeString("en-GB")
