"""Known answers for the formats of the ledger, from their description in docs/formats/ledger.md alone.

    python3 ledger.py

writes chain.json and lt_hash.json beside it; `--check` writes nothing, and fails if a file is not what
this would write. The samples are those of tests/it/golden.rs. BLAKE3 is here from its paper, so that the
answers are a second opinion on the crate and on its library.
"""

import base64
import hashlib
import json
import pathlib
import struct
import sys

IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8


def compress(cv, block, counter, length, flags):
    v = cv + IV[:4] + [counter & 0xFFFFFFFF, counter >> 32, length, flags]
    m = list(struct.unpack("<16I", block.ljust(64, b"\0")))

    def g(a, b, c, d, x, y):
        for word, right_d, right_b in (x, 16, 12), (y, 8, 7):
            v[a] = (v[a] + v[b] + word) & 0xFFFFFFFF
            v[d] ^= v[a]
            v[d] = (v[d] >> right_d | v[d] << (32 - right_d)) & 0xFFFFFFFF
            v[c] = (v[c] + v[d]) & 0xFFFFFFFF
            v[b] ^= v[c]
            v[b] = (v[b] >> right_b | v[b] << (32 - right_b)) & 0xFFFFFFFF

    for _ in range(7):
        for column in range(4):
            g(column, 4 + column, 8 + column, 12 + column, m[2 * column], m[2 * column + 1])
        for diagonal in range(4):
            places = [row * 4 + (diagonal + row) % 4 for row in range(4)]
            g(*places, m[8 + 2 * diagonal], m[9 + 2 * diagonal])
        m = [m[place] for place in PERMUTATION]
    return [v[n] ^ v[n + 8] for n in range(8)] + [v[n + 8] ^ cv[n] for n in range(8)]


def node(data, chunk):
    """The last compression of a chunk, not yet carried out."""
    blocks = [data[at:at + 64] for at in range(0, len(data), 64)] or [b""]
    cv = IV
    for index, block in enumerate(blocks):
        flags = (CHUNK_START if index == 0 else 0) | (CHUNK_END if index == len(blocks) - 1 else 0)
        if index == len(blocks) - 1:
            return cv, block, chunk, len(block), flags
        cv = compress(cv, block, chunk, len(block), flags)[:8]


def blake3(data, length=32):
    """Of at most two chunks of 1,024 bytes, which is all that the ledger hashes."""
    assert len(data) <= 2048
    root = node(data[:1024], 0)
    if len(data) > 1024:
        left, right = compress(*root)[:8], compress(*node(data[1024:], 1))[:8]
        root = IV, struct.pack("<16I", *left, *right), 0, 64, PARENT
    cv, block, _, size, flags = root
    words = [compress(cv, block, at, size, flags | ROOT) for at in range((length + 63) // 64)]
    return b"".join(struct.pack("<16I", *some) for some in words)[:length]


def u32(n): return struct.pack("<I", n)
def u64(n): return struct.pack("<Q", n)
def i128(n): return n.to_bytes(16, "little", signed=True)
def text(t): return u32(len(t.encode())) + t.encode()
def option(value, write): return b"\0" if value is None else b"\1" + write(value)
def sha(data): return hashlib.sha256(data).digest()


CODECS = {"raw": 0, "json": 1, "text": 5}


def value(codec, data): return bytes([1, CODECS[codec]]) + sha(data)
def amount(n, unit="EUR"): return b"\2" + i128(n) + text(unit)


def content(c):
    return amount(c[1], c[2]) if c[0] == "amount" else value(c[1], c[2])


def condition(c):
    if c is None: return b"\0"
    if c == "absent": return b"\1"
    if c == "present": return b"\2"
    name, arg = c
    if name == "version": return b"\3" + u64(arg)
    if name == "is": return b"\4" + content(arg)
    return b"\5" + arg


def bounds(o):
    return option(o.get("unit"), text) + option(o.get("min"), i128) + option(o.get("max"), i128)


def operation(name, o):
    if name == "set":
        return b"\1" + text(o["key"]) + content(o["to"]) + option(o.get("expires_at"), u64) + condition(o.get("condition"))
    if name == "delete": return b"\2" + text(o["key"]) + condition(o.get("condition"))
    if name == "check": return b"\3" + text(o["key"]) + condition(o["condition"])
    if name == "get": return b"\4" + text(o["key"])
    if name == "add":
        return b"\5" + text(o["key"]) + i128(o["delta"]) + bounds(o) + condition(o.get("condition"))
    if name == "transfer":
        return b"\6" + text(o["from"]) + text(o["to"]) + i128(o["quantity"]) + bounds(o)
    codec, data = o["input"]
    return b"\7" + text(o["function"]) + bytes([CODECS[codec]]) + sha(data)


# The same as the JSON that is hashed.

def json_payload(codec, data):
    if codec == "json":
        try:
            return {"codec": "json", "value": json.loads(data)}
        except ValueError:
            return {"codec": "json", "text": data.decode()}
    return {"codec": codec, "base64": base64.b64encode(data).decode()}


def json_content(c):
    if c[0] == "amount": return {"amount": {"quantity": str(c[1]), "unit": c[2]}}
    return {"value": json_payload(c[1], c[2])}


def json_condition(c):
    if isinstance(c, str): return c
    name, arg = c
    return {name: {"version": lambda: arg, "is": lambda: json_content(arg), "hash": lambda: arg.hex()}[name]()}


def json_operation(name, o):
    out = {}
    for field, v in o.items():
        if field == "to" and name == "set": v = json_content(v)
        elif field == "condition": v = json_condition(v)
        elif field == "input": v = json_payload(*v)
        elif field == "expires_at":
            assert v == 1_700_000_000_000_001
            v = "2023-11-14T22:13:20.000001Z"
        elif isinstance(v, int): v = str(v)
        out[field] = v
    return {name: out}


def request_hash(kind, writes):
    writes = [[json_operation(*o) for o in write] for write in writes]
    request = {"kind": kind, "operations": writes[0]} if kind == "single" else {"kind": kind, "writes": writes}
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha(canonical.encode())


INCARNATION = bytes([7] * 16)


def transaction(height, origin, kind, writes):
    out = b"\1" + INCARNATION + u64(height) + bytes([3] * 16) + u64(1_700_000_000_000_000)
    out += text("client:app") + origin + bytes([{"single": 1, "batch": 2}[kind]]) + u32(len(writes))
    for write in writes:
        out += u32(len(write)) + b"".join(operation(*o) for o in write)
    return out


def genesis(namespace, vault):
    return sha(b"indelible.ledger.genesis.v1" + text(namespace) + option(vault, text) + INCARNATION)


RAW = ("value", "raw", b"\x00\xff")
EUR = lambda n: ("amount", n, "EUR")
J = lambda t: ("value", "json", t.encode())
GET = lambda k: ("get", {"key": k})
LEAST, MOST = -(2**127), 2**127 - 1

EVERY = [
    ("set", {"key": "a", "to": J('{"x":1}')}),
    ("set", {"key": "a", "to": RAW}),
    ("set", {"key": "a", "to": EUR(-5)}),
    ("set", {"key": 'é"\\', "to": J("{\n}"), "expires_at": 1_700_000_000_000_001, "condition": "absent"}),
    ("set", {"key": "a", "to": EUR(1), "condition": ("is", EUR(LEAST))}),
    ("set", {"key": "a", "to": EUR(1), "condition": ("is", RAW)}),
    ("delete", {"key": "a"}),
    ("delete", {"key": "a", "condition": ("version", 3)}),
    ("check", {"key": "a", "condition": "present"}),
    ("check", {"key": "a", "condition": ("hash", sha(b"1"))}),
    GET("a"),
    ("add", {"key": "a", "delta": MOST, "unit": "EUR", "min": -1, "max": 0, "condition": "present"}),
    ("add", {"key": "a", "delta": 1}),
    ("transfer", {"from": "a", "to": "b", "quantity": 2, "unit": "EUR", "min": 0, "max": 9}),
    ("start", {"function": "ship", "input": ("json", b"{}")}),
]

TRANSACTIONS = [
    (b"\1" + text("c") + u64(9) + u32(2), "single", [[GET("a")]]),
    (b"\1" + text("c") + u64(2**64 - 1) + u32(0), "batch", [[GET("a")], [GET("b"), GET("c")]]),
    (b"\2" + text("key-1"), "single", [EVERY]),
    (b"\3" + text("op"), "single", [[GET("a")]]),
    (b"\4" + text("ab" * 32 + ".0.2"), "single", [[GET("a")]]),
    (b"\5" + text("shop") + text("msg_1"), "single", [[GET("a")]]),
    (b"\6", "single", [[("delete", {"key": "a"})]]),
]


def chain():
    head = genesis("shop", "wallets")
    out = {
        "genesis": head.hex(),
        "genesis_of_namespace": genesis("shop", None).hex(),
        "transactions": [], "heads": [], "request_hashes": [],
    }
    state_hash = bytes([5] * 32)
    for height, (origin, kind, writes) in enumerate(TRANSACTIONS, 1):
        data = transaction(height, origin, kind, writes)
        head = sha(head + data + state_hash)
        out["transactions"].append(data.hex())
        out["heads"].append(head.hex())
        out["request_hashes"].append(request_hash(kind, writes).hex())
    out["checkpoint"] = sha(
        b"indelible.ledger.checkpoint.v1" + text("shop") + option("wallets", text)
        + INCARNATION + u64(7) + head + state_hash
    ).hex()
    return out


def lanes_of(key, version, expires_at, what):
    element = b"indelible.ledger.entity.v1" + text(key) + u64(version) + option(expires_at, u64) + what
    return struct.unpack("<1024H", blake3(element, 2048))


def lt_hash():
    elements = [
        ("a", 1, None, value("json", b"1")),
        ("é", 2, 1_000_000, value("json", b"1")),
        ("cash", 3, None, amount(-5)),
    ]
    state = [0] * 1024
    data = lambda: struct.pack("<1024H", *state)
    digest = lambda: blake3(data()).hex()
    out = {"empty": digest(), "added": []}
    for element in elements:
        state = [(a + b) % 65536 for a, b in zip(state, lanes_of(*element))]
        out["added"].append(digest())
    state = [(a - b) % 65536 for a, b in zip(state, lanes_of(*elements[0]))]
    out["removed"] = digest()
    out["lanes"] = data()[:32].hex()
    return out


here = pathlib.Path(__file__).resolve().parent
for name, vectors in {"chain": chain(), "lt_hash": lt_hash()}.items():
    path, made = here / f"{name}.json", json.dumps(vectors, indent=1) + "\n"
    if "--check" not in sys.argv:
        path.write_text(made)
    elif path.read_text() != made:
        sys.exit(f"{path.name} is not what this program makes")
