// Tables whose rows stay where they are: focus, selection and open rows survive each update. All
// text is set as text.
export const element = (name, properties = {}, ...children) => {
  const node = Object.assign(document.createElement(name), properties)
  node.append(...children)
  return node
}

export const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text
}

// A column: {title, text: row => string, kind: "number" | "path" | "code", link: row => href}.
// detail: row => Promise of text, for the row's button. Longer tables than LIMIT show the rest when
// asked.
const LIMIT = 25

export class Table {
  constructor(parent, caption, columns, none, detail) {
    Object.assign(this, {columns, detail, rows: new Map()})
    this.none = element("p", {className: "none", textContent: none})
    this.body = element("tbody")
    this.body.setAttribute("role", "rowgroup")
    const titles = columns.map(column => this.title(column))
    if (detail) titles.push(this.title({title: "Backtrace", hidden: true}))
    const head = element("tr", {}, ...titles)
    head.setAttribute("role", "row")
    this.table = element("table", {}, element("caption", {className: "visually-hidden", textContent: caption}),
      element("thead", {}, head), this.body)
    this.table.setAttribute("role", "table")
    this.rest = element("button", {type: "button", className: "rest", hidden: true})
    this.rest.addEventListener("click", () => {
      this.whole = !this.whole
      this.update(this.all)
    })
    parent.append(this.none, this.table, this.rest)
    this.update([])
    this.none.hidden = true // until the first snapshot says so
  }

  title({title, kind, hidden}) {
    const cell = element("th", {scope: "col", className: kind ?? ""})
    cell.setAttribute("role", "columnheader")
    cell.append(hidden ? element("span", {className: "visually-hidden", textContent: title}) : title)
    return cell
  }

  update(all) {
    this.all = all
    const rows = this.whole ? all : all.slice(0, LIMIT)
    this.rest.hidden = all.length <= LIMIT
    setText(this.rest, this.whole ? `Show the first ${LIMIT}` : `Show ${all.length - LIMIT} more`)
    this.none.hidden = rows.length > 0
    this.table.hidden = !rows.length
    const keys = new Set(rows.map(row => row.key))
    for (const [key, row] of this.rows) if (!keys.has(key)) this.remove(key, row)
    let place = this.body.firstChild
    for (const row of rows) {
      const known = this.rows.get(row.key) ?? this.add(row)
      known.data = row
      this.fill(known)
      if (known.line !== place) this.body.insertBefore(known.line, place)
      if (known.open) known.line.after(known.open)
      place = (known.open ?? known.line).nextSibling
    }
  }

  remove(key, row) {
    row.line.remove()
    row.open?.remove()
    this.rows.delete(key)
  }

  add(row) {
    const line = element("tr"), cells = this.columns.map(column => this.cell(column))
    line.setAttribute("role", "row")
    line.append(...cells)
    const known = {line, cells, data: row, open: null}
    if (this.detail) line.append(this.button(known))
    this.rows.set(row.key, known)
    return known
  }

  cell({title, kind, link}) {
    const cell = element("td", {className: kind ?? ""})
    cell.setAttribute("role", "cell")
    cell.dataset.title = title
    if (link) cell.append(element("a"))
    return cell
  }

  button(known) {
    const cell = element("td", {className: "more"}), button = element("button", {type: "button"})
    cell.setAttribute("role", "cell")
    known.button = button
    button.setAttribute("aria-expanded", "false")
    button.append("backtrace")
    button.addEventListener("click", () => this.toggle(known))
    cell.append(button)
    return cell
  }

  async toggle(known) {
    known.button.setAttribute("aria-expanded", String(!known.open))
    if (known.open) {
      known.open.remove()
      known.open = null
      return
    }
    const trace = element("pre", {className: "trace", tabIndex: 0, textContent: "…"})
    const cell = element("td", {colSpan: this.columns.length + 1}, trace)
    cell.setAttribute("role", "cell")
    known.open = element("tr", {className: "detail"}, cell)
    known.open.setAttribute("role", "row")
    known.line.after(known.open)
    setText(trace, await this.detail(known.data))
  }

  fill({cells, data}) {
    this.columns.forEach(({text, link, bad}, i) => {
      const words = text(data) ?? ""
      setText(link ? cells[i].firstChild : cells[i], words)
      if (link) cells[i].firstChild.href = link(data)
      cells[i].classList.toggle("empty", words === "")
      if (bad) cells[i].classList.toggle("bad-text", bad(data))
    })
  }
}
