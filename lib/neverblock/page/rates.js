// What changed between two snapshots of each process, per second, added up.
const COUNTERS = {
  requests: process => process.http?.requests,
  errors: process => process.http?.["5xx"],
  cpu: process => process.cpu_seconds,
  gc: process => process.gc?.seconds,
  lag: process => process.loop?.lag_seconds_total,
  timers: process => process.loop?.lag_timers_total,
  turns: process => process.loop?.turns,
  switches: process => process.loop?.switches
}

export const processes = snapshot => snapshot.workers.length ? snapshot.workers : [snapshot]

export class Rates {
  constructor() {
    this.before = new Map()
  }

  // @return {of: pid => rates or undefined, total: rates or null}
  update(snapshot) {
    const found = new Map(), next = new Map()
    for (const process of processes(snapshot)) {
      if (process.silent) continue
      const before = this.before.get(process.pid), now = this.read(process)
      next.set(process.pid, now)
      const time = before && now.time - before.time
      if (time > 0) found.set(process.pid, this.difference(before, now, time))
    }
    this.before = next
    return {of: pid => found.get(pid), total: found.size ? this.sum([...found.values()]) : null}
  }

  read(process) {
    const values = {time: process.time}
    for (const [name, counter] of Object.entries(COUNTERS)) values[name] = counter(process) ?? 0
    return values
  }

  difference(before, now, time) {
    const rates = {}
    for (const name of Object.keys(COUNTERS)) rates[name] = Math.max(0, now[name] - before[name]) / time
    return rates
  }

  sum(all) {
    const total = {}
    for (const name of Object.keys(COUNTERS)) total[name] = all.reduce((sum, one) => sum + one[name], 0)
    return total
  }
}

// The mean lateness of timers, in milliseconds.
export const lag = rates => rates.timers > 0 ? rates.lag / rates.timers * 1000 : 0
