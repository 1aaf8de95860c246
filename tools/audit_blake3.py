"""BLAKE3, after the published specification; the standard library does not have it.

Whole chunks are compressed many at a time: a state word of all of them is one Python integer with a lane of 64 bits for
each chunk, of which the word takes the lower half. Additions, exclusive ors and rotations then work on all lanes at once.
"""

import array
import functools
import struct
import sys
from typing import Sequence

WORDS = 0xFFFFFFFF
CHUNK, BLOCK = 1024, 64
START, END, PARENT, ROOT, CONTEXT, MATERIAL = 1, 2, 4, 8, 32, 64
IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
# The four columns and then the four diagonals of the state.
MIXED = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
LANE = 8
MOST_LANES = 4096


@functools.lru_cache(maxsize=8)
def ones(lanes: int) -> int:
    """The number one in every lane."""
    return int.from_bytes(b"\1\0\0\0\0\0\0\0" * lanes, "little")


def spread(values: Sequence[int]) -> int:
    """One value in each lane."""
    return int.from_bytes(struct.pack(f"<{len(values)}Q", *values), "little")


def gathered(value: int, lanes: int) -> tuple[int, ...]:
    return struct.unpack(f"<{lanes}Q", value.to_bytes(LANE * lanes, "little"))


def compress(chain: Sequence[int], words: Sequence[int], counter: tuple[int, int], length: int, flags: int, lanes: int) -> list[int]:
    """The compression function on every lane: all words are spread over lanes, length and flags are the same in all."""
    one = ones(lanes)
    mask = one * WORDS
    state = [*chain, *(part * one for part in IV[:4]), *counter, length * one, flags * one]
    for _ in range(7):
        for index, (a, b, c, d) in enumerate(MIXED):
            for word, right, left in ((words[2 * index], 16, 12), (words[2 * index + 1], 8, 7)):
                state[a] = (state[a] + state[b] + word) & mask
                mixed = state[d] ^ state[a]
                state[d] = (mixed >> right | mixed << (32 - right)) & mask
                state[c] = (state[c] + state[d]) & mask
                mixed = state[b] ^ state[c]
                state[b] = (mixed >> left | mixed << (32 - left)) & mask
        words = [words[index] for index in ORDER]
    return [state[index] ^ state[index + 8] for index in range(8)]


def whole_chunks(data: bytes, first: int, key: Sequence[int], flags: int) -> list[tuple[int, ...]]:
    """The chaining values of whole chunks, none of which is the root."""
    lanes = len(data) // CHUNK
    one = ones(lanes)
    numbers = array.array("I", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    chain = [word * one for word in key]
    counters = range(first, first + lanes)
    counter = spread([number & WORDS for number in counters]), spread([number >> 32 for number in counters])
    for block in range(CHUNK // BLOCK):
        words = [spread(numbers[block * 16 + word :: 256]) for word in range(16)]
        edge = (START if block == 0 else 0) | (END if block == CHUNK // BLOCK - 1 else 0)
        chain = compress(chain, words, counter, BLOCK, flags | edge, lanes)
    return list(zip(*(gathered(word, lanes) for word in chain)))


def last_chunk(data: bytes, number: int, key: Sequence[int], flags: int, root: int) -> tuple[int, ...]:
    """The chaining value of a chunk that may be short; `root` is the flag if there is no other chunk."""
    blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)] or [b""]
    chain: Sequence[int] = key
    for index, block in enumerate(blocks):
        edge = (START if index == 0 else 0) | (END | root if index == len(blocks) - 1 else 0)
        words = struct.unpack("<16I", block.ljust(BLOCK, b"\0"))
        chain = compress(chain, words, (number & WORDS, number >> 32), len(block), flags | edge, 1)
    return tuple(chain)


def parents(nodes: list[tuple[int, ...]], key: Sequence[int], flags: int) -> list[tuple[int, ...]]:
    """The level above: neighbours in pairs, an odd last node as it is."""
    pairs = list(zip(nodes[::2], nodes[1::2]))
    lanes = len(pairs)
    words = [spread(column) for column in zip(*(left + right for left, right in pairs))]
    one = ones(lanes)
    made = compress([word * one for word in key], words, (0, 0), BLOCK, flags | PARENT, lanes)
    above = list(zip(*(gathered(word, lanes) for word in made)))
    return above + nodes[2 * lanes :]


def hashed(data: bytes, key: Sequence[int], flags: int) -> bytes:
    if len(data) <= CHUNK:
        return struct.pack("<8I", *last_chunk(data, 0, key, flags, ROOT))
    nodes: list[tuple[int, ...]] = []
    whole = (len(data) - 1) // CHUNK
    for first in range(0, whole, MOST_LANES):
        end = min(whole, first + MOST_LANES)
        nodes += whole_chunks(data[first * CHUNK : end * CHUNK], first, key, flags)
    nodes.append(last_chunk(data[whole * CHUNK :], whole, key, flags, 0))
    while len(nodes) > 2:
        nodes = parents(nodes, key, flags)
    return struct.pack("<8I", *compress(key, nodes[0] + nodes[1], (0, 0), BLOCK, flags | PARENT | ROOT, 1))


def digest(data: bytes) -> bytes:
    """BLAKE3 in its plain mode."""
    return hashed(data, IV, 0)


def derived(context: str, data: bytes) -> bytes:
    """BLAKE3 in its mode for keys: what data comes to in a context."""
    key = struct.unpack("<8I", hashed(context.encode(), IV, CONTEXT))
    return hashed(data, key, MATERIAL)
