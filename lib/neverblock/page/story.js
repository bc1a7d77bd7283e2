// One fiber: what it does now, with its whole backtrace, and what it did while this page looked.
import {element, setText} from "./tables.js"
import * as words from "./words.js"

const find = id => document.getElementById(id)
const PAST = 50
const OWN = new URL("snapshot", document.baseURI).pathname

export class Story {
  constructor(load, facts) {
    Object.assign(this, {load, facts, pid: null, id: null})
  }

  open(pid, id) {
    Object.assign(this, {pid, id, request: undefined, last: null, busy: false})
    find("story-past").replaceChildren()
    setText(find("story-title"), `Fiber ${id} of pid ${pid}`)
    setText(find("story-trace"), "…")
    this.facts(find("story-facts"), [])
    find("story-title").focus()
    this.look()
  }

  close() {
    this.id = null
  }

  // With each snapshot of the page.
  show() {
    if (this.id !== null) this.look()
  }

  async look() {
    if (this.busy) return
    this.busy = true
    const {pid, id} = this
    try {
      const snapshot = await this.load("snapshot?fibers=2000&requests=2000&frames=100")
      if (this.id === id && this.pid === pid) this.tell(snapshot)
    } catch {
      this.note("The server did not answer.")
    } finally {
      this.busy = false
    }
  }

  tell(snapshot) {
    const process = [snapshot, ...snapshot.workers].find(one => one.pid === this.pid)
    const fiber = process?.fibers.find(one => one.id === this.id)
    const request = process?.requests.find(one => one.fiber === this.id)
    if (this.served(request)) return this.note("The request has ended.")
    if (!fiber || request?.path === OWN) // this page's own request may use a fiber that rested
      return this.note("This fiber is not in the snapshot: it has ended, is idle in a pool, or was left out.")
    this.request ??= request?.id
    setText(find("story-title"), fiber.name ?? `Fiber ${fiber.id} of pid ${this.pid}`)
    setText(find("story-trace"), fiber.backtrace.join("\n") || "no backtrace")
    this.facts(find("story-facts"), this.pairs(fiber, request))
    this.note(`${this.doing(fiber)} at ${fiber.place}`)
  }

  // A fiber that served one request serves another next.
  served(request) {
    return this.request !== undefined && request?.id !== this.request
  }

  pairs(fiber, request) {
    const pairs = [["Fiber", `${fiber.id} of pid ${this.pid}`], ["State", this.doing(fiber)], ["Place", fiber.place]]
    if (fiber.waited_seconds != null) pairs.push(["Has waited", words.seconds(fiber.waited_seconds)])
    if (fiber.timeout_seconds != null) pairs.push(["Waits at most", `${words.seconds(fiber.timeout_seconds)} more`])
    if (request) pairs.push(["Request", `${request.method} ${request.path}, ${words.seconds(request.age_seconds)} old`])
    return pairs
  }

  doing(fiber) {
    if (fiber.state === "waiting") return `waits for ${fiber.waits_for}`
    return fiber.state === "ready" ? "is about to run" : "runs"
  }

  note(text) {
    if (text === this.last) return
    this.last = text
    const past = find("story-past")
    past.prepend(element("li", {textContent: `${words.clock()} ${text}`}))
    if (past.children.length > PAST) past.lastChild.remove()
  }
}
