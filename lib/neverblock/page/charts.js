// A line over the last two minutes, as plain SVG. What it says in words is in the caption and in
// the image's label.
const SVG = "http://www.w3.org/2000/svg", WIDTH = 300, HEIGHT = 76, POINTS = 120

const shape = (name, attributes) => {
  const node = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value)
  return node
}

// The next of 1, 2, 5, 10, 20, ... : an axis that does not jump with each value.
const ceiling = value => {
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 2, 5, 10].map(step => step * power).find(top => top >= value * 0.999)
}

export class Chart {
  constructor(parent, title, words, least) {
    Object.assign(this, {title, words, least, values: []})
    const figure = document.createElement("figure"), caption = document.createElement("figcaption")
    figure.className = "chart"
    this.name = document.createElement("span")
    this.name.textContent = title
    this.top = document.createElement("span")
    caption.append(this.name, this.top)
    this.svg = shape("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img"})
    this.area = shape("path", {class: "area"})
    this.line = shape("path", {class: "stroke"})
    this.svg.append(shape("path", {class: "base", d: `M0 ${HEIGHT - 0.5}H${WIDTH}`}), this.area, this.line)
    figure.append(caption, this.svg)
    parent.append(figure)
    this.draw()
  }

  add(value) {
    this.values.push(value)
    if (this.values.length > POINTS) this.values.shift()
    this.draw()
  }

  draw() {
    const known = this.values.filter(value => value !== null)
    const top = ceiling(Math.max(this.least, ...known))
    const x = i => WIDTH - (this.values.length - 1 - i) * WIDTH / (POINTS - 1)
    const y = value => HEIGHT - 1 - value / top * (HEIGHT - 4)
    let line = "", area = ""
    this.parts().forEach(part => {
      const points = part.map(i => `${x(i).toFixed(1)} ${y(this.values[i]).toFixed(1)}`)
      line += `M${points.join("L")}`
      area += `M${x(part[0]).toFixed(1)} ${HEIGHT}L${points.join("L")}L${x(part.at(-1)).toFixed(1)} ${HEIGHT}Z`
    })
    this.line.setAttribute("d", line)
    this.area.setAttribute("d", area)
    this.top.textContent = `up to ${this.words(top)}`
    const last = known.length ? this.words(known.at(-1)) : "nothing yet"
    const most = known.length ? `, at most ${this.words(Math.max(...known))}` : ""
    this.svg.setAttribute("aria-label", `${this.title} over the last two minutes: now ${last}${most}`)
  }

  // Runs of values without a gap.
  parts() {
    const parts = []
    this.values.forEach((value, i) => {
      if (value === null) return
      if (i && this.values[i - 1] !== null) parts.at(-1).push(i)
      else parts.push([i])
    })
    return parts
  }
}
