// Ten tasks with Node. Run: node examples/side_by_side/node.mjs TASK PORT
import net from "node:net";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

async function ask(words, signal) {
  const socket = net.connect({ host: "127.0.0.1", port: Number(process.argv[3]), signal });
  socket.write(words + "\n");
  let answer = "";
  for await (const part of socket) answer += part;
  if (answer.trim() === "no") throw new Error("no");
  return answer.trim();
}

const fib = (number) => (number < 2 ? number : fib(number - 1) + fib(number - 2));
const tasks = {};

// task: all
tasks.all = async () => {
  const answers = await Promise.all(["a 60", "b 40", "c 20"].map((words) => ask(words)));
  console.log(answers.join(" "));
};

// task: limit
tasks.limit = async () => {
  const numbers = Array.from({ length: 20 }, (_, number) => number);
  const answers = [];
  const work = async () => {
    while (numbers.length > 0) answers.push(await ask(`${numbers.shift()} 20`));
  };
  await Promise.all(Array.from({ length: 5 }, work));
  console.log(answers.length);
};

// task: group
tasks.group = async () => {
  const controller = new AbortController();
  const asked = ["a 50000", "b 20 no"].map((words) => ask(words, controller.signal));
  try {
    await Promise.all(asked);
  } catch (error) {
    controller.abort();
    await Promise.allSettled(asked);
    console.log(error.message);
  }
};

// task: timeout
tasks.timeout = async () => {
  const signal = AbortSignal.timeout(200);
  try {
    await Promise.all([ask("a 50000", signal), ask("b 50000", signal)]);
  } catch (error) {
    if (!signal.aborted) throw error;
    console.log("late");
  }
};

// task: settle
tasks.settle = async () => {
  const asked = ["a 20", "b 20 no", "c 20"].map((words) => ask(words));
  const outcomes = await Promise.allSettled(asked);
  console.log(outcomes.map((one) => one.value ?? one.reason.message).join(" "));
};

// task: rate
tasks.rate = async () => {
  const asked = [];
  for (let number = 0; number < 8; number++) {
    asked.push(ask(`${number} 500`));
    await sleep(250);
  }
  console.log((await Promise.all(asked)).length);
};

// task: retry
tasks.retry = async () => {
  for (let attempt = 1; ; attempt++) {
    try {
      return console.log(await ask("a 10 third"));
    } catch (error) {
      if (attempt === 5) throw error;
      await sleep(50 * 2 ** (attempt - 1) * (1 - Math.random() / 2));
    }
  }
};

// task: shield
tasks.shield = async () => {
  const controller = new AbortController();
  const work = async () => {
    await ask("a 100");
    await ask("b 100");
    await ask("c 100", controller.signal);
  };
  const working = work();
  await sleep(50);
  controller.abort();
  await working.catch(() => console.log(controller.signal.aborted));
};

// task: compute
tasks.compute = async () => {
  const workers = [27, 26, 25, 24].map((number) => {
    return once(new Worker(new URL(import.meta.url), { workerData: number }), "message");
  });
  console.log((await Promise.all(workers)).join(" "));
};

// task: stop
tasks.stop = async () => {
  const stopping = new AbortController();
  const ending = new AbortController();
  const onSignal = () => {
    if (stopping.signal.aborted) ending.abort();
    stopping.abort();
    setTimeout(() => ending.abort(), 5000).unref();
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  const asked = [];
  while (!stopping.signal.aborted) {
    await sleep(50, null, { signal: stopping.signal }).catch(() => {});
    if (!stopping.signal.aborted) asked.push(ask("a 300", ending.signal).then(console.log));
  }
  await Promise.allSettled(asked);
};

// the end
if (isMainThread) await tasks[process.argv[2]]();
else parentPort.postMessage(fib(workerData));
