import asyncio
import socket

from scail.server.serving import _listen


def test_small_answers_are_sent_at_once():
    found = asyncio.Event()
    delays = list[int]()

    async def answer(_, writer):
        delays.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        found.set()

    async def ask(listening):
        server = await asyncio.start_server(answer, sock=listening)
        async with server:
            _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
            await found.wait()
            writer.close()

    asyncio.run(ask(_listen("127.0.0.1", 0)))
    assert delays == [1]
