// Takes a snapshot per second and shows it. See docs/OBSERVE.md for what the numbers mean.
import {Chart} from "./charts.js"
import {Rates, lag, processes} from "./rates.js"
import {Story} from "./story.js"
import {Table, element, setText} from "./tables.js"
import * as words from "./words.js"

const find = id => document.getElementById(id)
const OWN = new URL("events", document.baseURI).pathname
const FIBERS = "snapshot?fibers=100&requests=100&frames=60"
const state = {snapshot: null, heard: Date.now(), paused: false}
const rates = new Rates()

// ---- how it gets here ------------------------------------------------------------------------

const load = async query => {
  const answer = await fetch(query, {cache: "no-store"})
  if (!answer.ok) throw new Error(await answer.text())
  return answer.json()
}

const take = snapshot => {
  Object.assign(state, {snapshot, heard: Date.now()})
  if (!state.paused) show(snapshot)
}

// Where no events come: another server, or too many viewers.
const poll = async (interval, until) => {
  while (Date.now() < until) {
    try {
      take(await load("snapshot?fibers=100&requests=100&frames=0"))
    } catch {}
    await new Promise(done => setTimeout(done, interval))
  }
  connect()
}

const connect = () => {
  const source = new EventSource("events")
  source.onmessage = event => take(JSON.parse(event.data))
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) poll(3000, Date.now() + 30000)
  }
  source.addEventListener("full", () => source.close() || poll(5000, Date.now() + 60000))
}

const notice = text => {
  find("notice").hidden = !text
  setText(find("notice"), text)
}

setInterval(() => {
  const silent = Math.round((Date.now() - state.heard) / 1000)
  if (silent < 4) return notice("")
  setState(`no news for ${silent} s`, true)
  notice("The server does not answer. Its loop may stand still, or it has stopped. " +
    "The control socket tells more: nb stats ADDRESS snapshot.")
}, 1000)

// ---- what it shows ---------------------------------------------------------------------------

const setState = (text, bad) => {
  setText(find("state"), text)
  find("state").classList.toggle("bad", bad)
}

const facts = (parent, pairs) => {
  while (parent.children.length > pairs.length) parent.lastChild.remove()
  pairs.forEach(([name, value, note], i) => {
    const item = parent.children[i] ?? parent.appendChild(element("div", {}, element("dt"), element("dd")))
    setText(item.children[0], name)
    setText(item.children[1], value)
    if (note === undefined) return
    const third = item.children[2] ?? item.appendChild(element("dd", {className: "note"}))
    setText(third, note)
  })
}

const story = new Story(load, facts)
const trace = kind => async row => {
  const fresh = await load(FIBERS).catch(() => null)
  const process = fresh && processes(fresh).find(one => one.pid === row.pid)
  const found = process?.[kind].find(one => one.id === row.id)
  return found ? found.backtrace.join("\n") || "no backtrace" : "It has ended."
}
const link = row => `#fiber/${row.pid}/${row.fiber ?? row.id}`

const charts = {
  requests: new Chart(find("charts"), "Requests per second", words.rate, 1),
  lag: new Chart(find("charts"), "Loop lag", words.milliseconds, 1),
  cpu: new Chart(find("charts"), "CPU", words.percent, 10),
  memory: new Chart(find("charts"), "Memory", words.bytes, 1e7)
}

const requests = new Table(find("requests"), "Requests in flight", [
  {title: "Age", kind: "number", text: row => words.seconds(row.age_seconds)},
  {title: "Request", kind: "path", text: row => `${row.method} ${row.path}`, link},
  {title: "Waits for", text: row => row.waits_for ?? "it runs"},
  {title: "Waited", kind: "number", text: row => words.seconds(row.waited_seconds)}
], "No request runs.", trace("requests"))

const fibers = new Table(find("fibers"), "Fibers", [
  {title: "Waited", kind: "number", text: row => words.seconds(row.waited_seconds)},
  {title: "Fiber", kind: "name", text: row => row.name ?? `fiber ${row.id}`, link},
  {title: "State", kind: "state", text: row => row.state === "waiting" ? `waits for ${row.waits_for}` : row.state},
  {title: "Place", kind: "code", text: row => row.place}
], "No fiber waits.", trace("fibers"))

const stalls = new Table(find("stalls"), "What stopped the loop", [
  {title: "Longest", kind: "number", text: row => words.seconds(row.longest_ms / 1000)},
  {title: "Times", kind: "number", text: row => words.count(row.count)},
  {title: "Place", kind: "code", text: row => row.place + (row.method ? ` (${row.method})` : "")},
  {title: "Doing", text: row => row.doing},
  {title: "Last", kind: "number", text: row => `${words.seconds(row.last_seconds_ago)} ago`}
], "Nothing has stopped the loop for 100 ms or longer.")

const workers = new Table(find("workers"), "Workers", [
  {title: "Worker", text: row => `${row.index}, pid ${row.pid}`},
  {title: "State", text: row => workerState(row), bad: row => row.silent || !row.ready},
  {title: "Requests/s", kind: "number", text: row => row.rates ? words.rate(row.rates.requests) : ""},
  {title: "Running", kind: "number", text: row => words.count(row.running)},
  {title: "Lag", kind: "number", text: row => row.rates ? words.milliseconds(lag(row.rates)) : ""},
  {title: "CPU", kind: "number", text: row => row.rates ? words.percent(row.rates.cpu * 100) : ""},
  {title: "Memory", kind: "number", text: row => words.bytes(row.memory_bytes)},
  {title: "Reported", kind: "number", text: row => `${words.seconds(row.report_age_seconds)} ago`}
], "")

const workerState = row => {
  if (row.silent) return "does not answer"
  if (standing(row)) return `stands still for ${words.seconds(row.loop.stands_seconds)}`
  return row.leaving || row.draining ? "leaves" : row.ready ? "ready" : "starts"
}

const standing = process => process.loop?.stands_seconds > 0.3
const every = (all, name) => all.flatMap(process => (process[name] ?? []).map(one =>
  ({...one, pid: process.pid, worker: process.index, key: `${process.pid}/${one.id ?? one.place ?? one.name}`})))
const own = request => request.path === OWN // of those who look
const sum = (all, value) => all.reduce((total, process) => total + (value(process) ?? 0), 0)

const show = snapshot => {
  const all = processes(snapshot), change = rates.update(snapshot), total = change.total
  showHead(snapshot, all)
  showTiles(all, total)
  if (total) {
    charts.requests.add(total.requests)
    charts.lag.add(lag(total))
    charts.cpu.add(total.cpu * 100)
  }
  charts.memory.add(sum(all, process => process.memory_bytes))
  showTables(snapshot, all, change)
  showWaits(all)
  showPools(every(all, "pools"))
  showProcess(snapshot, all, total)
  story.show(all)
}

const showHead = (snapshot, all) => {
  setText(find("who"), `${snapshot.version}, Ruby ${snapshot.ruby}, pid ${snapshot.pid}, ` +
    `up ${words.seconds(snapshot.uptime_seconds)}`)
  const still = all.find(process => process.silent || standing(process))
  if (still) return setState(still.silent ? `worker ${still.index} does not answer` : "a loop stands still", true)
  if (snapshot.ready === null) return setState("another server", false)
  setState(snapshot.draining ? "draining" : snapshot.ready ? "ready" : "not ready", !snapshot.ready)
}

const showTiles = (all, total) => {
  const queued = sum(all, process => process.queued), loops = all.filter(process => process.loop)
  const running = sum(all, process => process.running) - every(all, "requests").filter(own).length
  const most = Math.max(0, ...loops.map(process => process.loop.lag_max_seconds * 1000))
  facts(find("tiles"), [
    ["Requests", total ? `${words.rate(total.requests)}/s` : "…",
      total?.errors ? `${words.rate(total.errors)}/s answered 5xx` : "no 5xx"],
    ["Loop lag", total ? words.milliseconds(lag(total)) : "…", `at most ${words.milliseconds(most)} since the start`],
    ["In flight", words.count(Math.max(0, running)), `${words.count(queued)} queued`],
    ["Fibers", words.count(sum(loops, process => process.loop.fibers.waiting)), "wait"],
    ["Memory", words.bytes(sum(all, process => process.memory_bytes)),
      all.length > 1 ? `${all.length} workers` : "one process"],
    ["CPU", total ? words.percent(total.cpu * 100) : "…", "of a core"],
    ...jobsTile(all)
  ])
}

// Where jobs have run in the server's own process.
const jobsTile = all => {
  const ended = how => sum(all, process => process.jobs?.ended[how])
  const running = sum(all, process => process.jobs?.running)
  const any = running + sum(all, process => sum(Object.values(process.jobs?.ended ?? {}), count => count))
  return any ? [["Jobs", words.count(running), `${words.count(ended("failed"))} failed, ${words.count(ended("done"))} done`]] : []
}

const leftOut = (all, name) => {
  const count = sum(all, process => process[`${name}_left_out`])
  return count ? `, ${words.count(count)} more not shown` : ""
}

const showTables = (snapshot, all, change) => {
  const running = every(all, "requests").filter(one => !own(one))
  running.sort((a, b) => b.age_seconds - a.age_seconds)
  requests.update(running)
  setText(find("requests-count"), running.length ? words.count(running.length) + leftOut(all, "requests") : "")
  const known = every(all, "fibers").filter(one => !one.name?.endsWith(` ${OWN}`))
  fibers.update(known)
  setText(find("fibers-count"), words.count(known.length) + leftOut(all, "fibers"))
  const places = every(all, "stalls").sort((a, b) => a.last_seconds_ago - b.last_seconds_ago)
  stalls.update(places)
  setText(find("stalls-count"), places.length === 1 ? "1 place" : places.length ? `${places.length} places` : "")
  find("workers-section").hidden = !snapshot.workers.length
  workers.update(snapshot.workers.map(one => ({...one, key: one.pid, rates: change.of(one.pid)})))
  setText(find("workers-count"), words.count(snapshot.workers.length))
}

const showWaits = all => {
  const loops = all.filter(process => process.loop)
  const kinds = Object.keys(loops[0]?.loop.waiting ?? {})
  const counts = kinds.map(kind => [kind, sum(loops, process => process.loop.waiting[kind])])
  const most = Math.max(1, ...counts.map(([, count]) => count))
  const list = find("waits")
  list.hidden = !counts.length
  while (list.children.length > counts.length) list.lastChild.remove()
  counts.forEach(([kind, count], i) => {
    const item = list.children[i] ??
      list.appendChild(element("li", {}, element("span"), element("meter"), element("span")))
    setText(item.children[0], kind)
    Object.assign(item.children[1], {max: most, value: count, ariaLabel: `waiting for ${kind}`})
    setText(item.children[2], words.count(count))
  })
}

const person = (one, verb, time) => {
  const who = element("a", {href: link(one), textContent: one.name ?? `fiber ${one.fiber}`})
  return element("li", {}, who, ` ${verb} for ${words.seconds(time)} at `, element("span", {className: "code", textContent: one.place ?? "?"}))
}

const poolCard = pool => {
  const holders = (pool.holders ?? []).map(one => person({...one, pid: pool.pid}, "holds one", one.held_seconds))
  const waiters = (pool.waiters ?? []).map(one => person({...one, pid: pool.pid}, "waits", one.waited_seconds))
  const card = element("section", {className: "pool"}, element("h3", {textContent: pool.name}),
    element("meter", {max: pool.size || 1, value: pool.in_use ?? 0, ariaLabel: "in use"}),
    element("p", {textContent: `${pool.in_use ?? "?"} of ${pool.size ?? "?"} in use, ${pool.waiting ?? "?"} wait` +
      (pool.worker === undefined ? "" : `; worker ${pool.worker}`)}))
  if (holders.length || waiters.length) card.append(element("ul", {}, ...waiters, ...holders))
  return card
}

// Built anew only when something has changed, so that links keep the focus.
let poolsText = null
const showPools = pools => {
  const text = JSON.stringify(pools.map(({holders, waiters, ...pool}) =>
    [pool, (holders ?? []).map(one => one.fiber), (waiters ?? []).map(one => one.fiber)]))
  if (text === poolsText) return
  poolsText = text
  setText(find("pools-count"), pools.length ? words.count(pools.length) : "")
  find("pools").className = pools.length ? "pools" : ""
  find("pools").replaceChildren(...pools.length ? pools.map(poolCard) :
    [element("p", {className: "none", textContent: "No pool is in use."})])
}

const showProcess = (snapshot, all, total) => {
  const loops = all.filter(process => process.loop)
  facts(find("process"), [
    ["Connections", `${words.count(sum(all, one => one.connections))} open, ${words.count(sum(all, one => one.accepted))} accepted`],
    ["Answers", ["2xx", "3xx", "4xx", "5xx"].map(name => `${name} ${words.count(sum(all, one => one.http?.[name]))}`).join(", ")],
    ["Refused", words.count(sum(all, one => one.http?.refused))],
    ["Switches per second", total ? words.count(total.switches) : "…"],
    ["Turns per second", total ? words.count(total.turns) : "…"],
    ["Timers", words.count(sum(loops, one => one.loop.timers))],
    ["Offload threads", `${sum(loops, one => one.loop.offload.threads)}, ${sum(loops, one => one.loop.offload.queued)} queued`],
    ["Garbage collection", total ? `${percentOf(total.gc)} of the time` : "…"],
    ["Collections", `${words.count(sum(all, one => one.gc?.minor))} minor, ${words.count(sum(all, one => one.gc?.major))} major`],
    ["Live objects", words.count(sum(all, one => one.gc?.live_objects))],
    ["CPU time", words.seconds(sum(all, one => one.cpu_seconds))]
  ])
}
const percentOf = share => `${(share * 100).toFixed(1)} %`

// ---- the reader ------------------------------------------------------------------------------

find("pause").addEventListener("click", () => {
  state.paused = !state.paused
  find("pause").setAttribute("aria-pressed", String(state.paused))
  setText(find("pause"), state.paused ? "Paused" : "Pause")
  if (!state.paused && state.snapshot) show(state.snapshot)
})

const turn = () => {
  const [, pid, id] = location.hash.match(/^#fiber\/(\d+)\/(\d+)$/) ?? []
  find("overview").hidden = Boolean(id)
  find("story").hidden = !id
  id ? story.open(Number(pid), Number(id)) : story.close()
}
addEventListener("hashchange", turn)
turn()
connect()
