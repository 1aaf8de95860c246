"""BLAKE3 in its plain mode, after the published specification; the standard library does not have it.

It is for digests of reports, which are short: a megabyte takes about a minute.
"""

import struct

WORDS = 0xFFFFFFFF
CHUNK, BLOCK = 1024, 64
START, END, PARENT, ROOT = 1, 2, 4, 8
IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
# The four columns and then the four diagonals of the state.
MIXED = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip


def turned(value: int, places: int) -> int:
    return (value >> places | value << (32 - places)) & WORDS


def mix(state: list[int], a: int, b: int, c: int, d: int, words: tuple[int, int]) -> None:
    for word, right, left in ((words[0], 16, 12), (words[1], 8, 7)):
        state[a] = (state[a] + state[b] + word) & WORDS
        state[d] = turned(state[d] ^ state[a], right)
        state[c] = (state[c] + state[d]) & WORDS
        state[b] = turned(state[b] ^ state[c], left)


def compress(chain: tuple[int, ...], block: bytes, counter: int, flags: int) -> tuple[int, ...]:
    words = struct.unpack("<16I", block.ljust(BLOCK, b"\0"))
    state = [*chain, *IV[:4], counter & WORDS, counter >> 32, len(block), flags]
    for _ in range(7):
        for place, (a, b, c, d) in enumerate(MIXED):
            mix(state, a, b, c, d, (words[2 * place], words[2 * place + 1]))
        words = tuple(words[place] for place in ORDER)
    return tuple(state[place] ^ state[place + 8] for place in range(8))


def chunk(data: bytes, counter: int, last: int) -> tuple[int, ...]:
    """The chaining value of one chunk; `last` is the flag of the root if there is no other chunk."""
    blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)] or [b""]
    chain = IV
    for place, block in enumerate(blocks):
        flags = (START if place == 0 else 0) | (END | last if place == len(blocks) - 1 else 0)
        chain = compress(chain, block, counter, flags)
    return chain


def tree(data: bytes, counter: int, last: int) -> tuple[int, ...]:
    """The left side of a node holds the largest power of two of chunks that leaves something to the right."""
    if len(data) <= CHUNK:
        return chunk(data, counter, last)
    left = 1 << ((len(data) - 1) // CHUNK).bit_length() - 1
    sides = tree(data[: left * CHUNK], counter, 0) + tree(data[left * CHUNK :], counter + left, 0)
    return compress(IV, struct.pack("<16I", *sides), 0, PARENT | last)


def digest(data: bytes) -> bytes:
    return struct.pack("<8I", *tree(data, 0, ROOT))
