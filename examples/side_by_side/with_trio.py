# Ten tasks with trio. Run: python3 examples/side_by_side/trio.py TASK PORT
import concurrent.futures
import random
import signal
import sys

import trio


async def ask(words):
    async with await trio.open_tcp_stream("127.0.0.1", int(sys.argv[2])) as stream:
        await stream.send_all(words.encode() + b"\n")
        answer = b"".join([part async for part in stream]).decode().strip()
        if answer == "no":
            raise OSError("no")
        return answer


def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)


# task: all
async def all():
    answers = [None] * 3

    async def note(number, words):
        answers[number] = await ask(words)

    async with trio.open_nursery() as nursery:
        for number, words in enumerate(["a 60", "b 40", "c 20"]):
            nursery.start_soon(note, number, words)
    print(*answers)


# task: limit
async def limit():
    limiter = trio.CapacityLimiter(5)
    answers = []

    async def note(number):
        async with limiter:
            answers.append(await ask(f"{number} 20"))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(note, number)
    print(len(answers))


# task: group
async def group():
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a 50000")
            nursery.start_soon(ask, "b 20 no")
    except OSError as error:
        print(error)


# task: timeout
async def timeout():
    try:
        with trio.fail_after(0.2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, "a 50000")
                nursery.start_soon(ask, "b 50000")
    except trio.TooSlowError:
        print("late")


# task: settle
async def settle():
    outcomes = [None] * 3

    async def note(number, words):
        try:
            outcomes[number] = await ask(words)
        except OSError as error:
            outcomes[number] = error

    async with trio.open_nursery() as nursery:
        for number, words in enumerate(["a 20", "b 20 no", "c 20"]):
            nursery.start_soon(note, number, words)
    print(*outcomes)


# task: rate
async def rate():
    answers = []

    async def note(number):
        answers.append(await ask(f"{number} 500"))

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(note, number)
            await trio.sleep(0.25)
    print(len(answers))


# task: retry
async def retry_it():
    for attempt in range(5):
        try:
            print(await ask("a 10 third"))
            break
        except OSError:
            if attempt == 4:
                raise
            await trio.sleep(0.05 * 2**attempt * (1 - random.random() / 2))


# task: shield
async def shield():
    async def work():
        with trio.CancelScope(shield=True):
            await ask("a 100")
            await ask("b 100")
        await ask("c 100")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    print(str(nursery.cancel_scope.cancelled_caught).lower())


# task: compute
async def compute():
    numbers = [27, 26, 25, 24]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        print(*await trio.to_thread.run_sync(lambda: list(pool.map(fib, numbers))))


# task: stop
async def stop():
    taking = trio.CancelScope()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as watching:
            async with trio.open_nursery() as jobs:
                watching.start_soon(watch, signals, taking, jobs.cancel_scope)
                with taking:
                    while True:
                        await trio.sleep(0.05)
                        jobs.start_soon(work)
            watching.cancel_scope.cancel()


async def watch(signals, taking, jobs):
    await signals.__anext__()
    taking.cancel()
    jobs.deadline = trio.current_time() + 5
    await signals.__anext__()
    jobs.cancel()


async def work():
    print(await ask("a 300"), flush=True)


# the end
if __name__ == "__main__":
    trio.run(globals()[sys.argv[1].replace("retry", "retry_it")])
