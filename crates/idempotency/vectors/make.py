#!/usr/bin/env python3
"""Makes the known answers of this folder: minting.json, canonical.json, keys.json.

    python3 make.py           writes the three files
    python3 make.py --check   writes nothing, fails if a file is not what this would write

The answers come from Python's hashlib, json and decimal, so that they are a second opinion on the
crate and not a copy of it. Nothing here depends on the clock, on randomness or on the order of a
set. README.md says what the fields mean.
"""

import hashlib
import json
import pathlib
import sys
import unicodedata
from decimal import Decimal

FOLDER = pathlib.Path(__file__).resolve().parent

# Unicode's White_Space. str.isspace() is not it: that takes U+001C to U+001F as well.
WHITE_SPACE = {
    *"\t\n\v\f\r \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000",
    *map(chr, range(0x2000, 0x200B)),
}
# The same set from the other end: the separators, and six controls.
assert WHITE_SPACE == {
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in ("Zs", "Zl", "Zp") or code in (9, 10, 11, 12, 13, 0x85)
}


def trim(text):
    return text.strip("".join(sorted(WHITE_SPACE)))


def repeat(text, times):
    """A text too long to be written out."""
    return {"repeat": text, "times": times}


def expand(text):
    return text["repeat"] * text["times"] if isinstance(text, dict) else text


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# Minting: I-1, I-2, I-3, I-29.

PREIMAGE_BYTES_MAX = 96  # A longer preimage is not written out.


def minted(name, parts):
    parts_expanded = [expand(part) for part in parts]
    assert not refused_parts(parts_expanded), name
    preimage = len(parts_expanded).to_bytes(4, "big")
    for part in parts_expanded:
        data = part.encode("utf-8")
        preimage += len(data).to_bytes(4, "big") + data
    case = {"name": name, "parts": parts}
    if len(preimage) <= PREIMAGE_BYTES_MAX:
        case["preimage"] = preimage.hex()
    case["key"] = sha256(preimage)
    return case


def refused_parts(parts):
    return not parts or any(not trim(part) for part in parts)


def minting():
    cases = [
        minted("one part", ["a"]),
        minted("natural parts: tenant, job, attempt", ["tenant-7", "job-42", "1"]),
        minted("natural parts, in another order", ["job-42", "tenant-7", "1"]),
        minted("natural parts, the next attempt", ["tenant-7", "job-42", "2"]),
        minted("the same part twice", ["a", "a"]),
        minted("the same part three times", ["a", "a", "a"]),
        minted("equal when joined: abc", ["abc"]),
        minted("equal when joined: ab, c", ["ab", "c"]),
        minted("equal when joined: a, bc", ["a", "bc"]),
        minted("equal when joined: a, b, c", ["a", "b", "c"]),
        minted("a separator inside: a:b, c", ["a:b", "c"]),
        minted("a separator inside: a, b:c", ["a", "b:c"]),
        # One part whose bytes are those of two encoded parts, without the count.
        minted("a part that looks like an encoding", ["a\u0000\u0000\u0000\u0001b"]),
        minted("the two parts that it looks like", ["a", "b"]),
        minted("case is kept", ["A"]),
        minted("two bytes: Latin", ["caf\u00e9"]),
        minted("no normalisation: e and a combining accent", ["cafe\u0301"]),
        minted("three bytes: Japanese", ["\u6ce8\u6587", "\u756a\u53f7"]),
        minted("four bytes: beyond the basic plane", ["\U0001f600", "\U00010000", "\U0010ffff"]),
        minted("a family of four, joined", ["\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"]),
        minted("NUL inside", ["a\u0000b"]),
        minted("NUL alone is not blank", ["\u0000"]),
        minted("other controls", ["\u0001\u001b\u007f\u009b"]),
        minted("U+001C is not white space, so not blank", ["\u001c"]),
        minted("U+200B is not white space, so not blank", ["\u200b"]),
        minted("U+FEFF is not white space, so not blank", ["\ufeff"]),
        minted("leading white space is kept", [" a"]),
        minted("trailing white space is kept", ["a "]),
        minted("wide white space is kept", ["\u3000a\u00a0"]),
        minted("a line end is kept", ["a\n"]),
        minted("255 bytes", [repeat("x", 255)]),
        minted("256 bytes: the length takes two bytes", [repeat("x", 256)]),
        minted("70000 bytes: the length takes three bytes", [repeat("x", 70000)]),
        minted("70000 characters, 280000 bytes", [repeat("\U0001f600", 70000)]),
        minted("300 parts: the count takes two bytes", [str(index) for index in range(300)]),
        minted("JSON in a part", ['{"b":1,"a":2}']),
    ]
    keys = [case["key"] for case in cases]
    assert len(set(keys)) == len(keys), "two cases have one key"
    refused = [
        {"name": "no parts", "parts": []},
        {"name": "empty part", "parts": [""]},
        {"name": "space", "parts": [" "]},
        {"name": "tab and line end", "parts": ["\t\r\n"]},
        {"name": "vertical tab and form feed", "parts": ["\u000b\u000c"]},
        {"name": "next line", "parts": ["\u0085"]},
        {"name": "no-break space", "parts": ["\u00a0"]},
        {"name": "em space", "parts": ["\u2003"]},
        {"name": "line and paragraph separator", "parts": ["\u2028\u2029"]},
        {"name": "ideographic space", "parts": ["\u3000"]},
        {"name": "every white space", "parts": ["".join(sorted(WHITE_SPACE))]},
        {"name": "first of two blank", "parts": ["", "a"]},
        {"name": "last of two blank", "parts": ["a", ""]},
        {"name": "one of three blank", "parts": ["a", " \u2003", "b"]},
    ]
    for case in refused:
        assert refused_parts(case["parts"]), case["name"]
    return {"cases": cases, "refused": refused}


# Canonical JSON: I-7.

EXPONENT_MAX = 1_000_000  # Of a number as it is written, either way.


class Refused(Exception):
    """Its one argument is why: syntax, duplicate, surrogate or exponent."""


def number(text):
    """A number of the input, exactly. json has seen to its form."""
    _, _, exponent = text.lower().partition("e")
    if exponent and abs(Decimal(exponent)) > EXPONENT_MAX:
        raise Refused("exponent")
    return Decimal(text)  # Exact: the context's precision is for arithmetic only.


def members(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise Refused("duplicate")
    return dict(pairs)


def constant(_):
    """NaN, Infinity, -Infinity: Python takes them, JSON has none of them."""
    raise Refused("syntax")


def parse(text):
    try:
        value = json.loads(
            text,
            object_pairs_hook=members,
            parse_int=number,
            parse_float=number,
            parse_constant=constant,
        )
    except json.JSONDecodeError:
        raise Refused("syntax") from None
    return value


def write_string(text):
    if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise Refused("surrogate")
    return json.dumps(text, ensure_ascii=False)


def write_number(value):
    """The value is 0.DIGITS times ten to the point, with no zero at either end of DIGITS."""
    sign, digits, exponent = value.as_tuple()
    digits = "".join(map(str, digits)).lstrip("0")
    if not digits:
        return "0"
    point = len(digits) + exponent
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        text = digits + "0" * (point - count)
    elif 0 < point <= 21:
        text = digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        fraction = "." + digits[1:] if count > 1 else ""
        text = f"{digits[0]}{fraction}e{point - 1:+d}"
    return "-" + text if sign else text


def write(value):
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return write_string(value)
    if isinstance(value, Decimal):
        return write_number(value)
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    # Python compares strings by code point.
    return "{" + ",".join(f"{write_string(name)}:{write(value[name])}" for name in sorted(value)) + "}"


def canonical_text(text):
    return write(parse(text))


# Cases of one group have one canonical form; two groups never have. (group, (input, …))
GROUPS = [
    ("null", ("null", " \t\r\n null \t\r\n ")),
    ("true", ("true",)),
    ("false", ("false",)),
    ("the text null", ('"null"',)),
    ("the empty text", ('""',)),
    ("empty object", ("{}", "{ \n }")),
    ("empty array", ("[]", "[ \r\n\t ]")),
    ("array in array", ("[[]]",)),
    ("null in array", ("[null]",)),
    # Order and white space.
    ("two members", ('{"a":1,"b":2}', '{"b":2,"a":1}', ' {\n  "b" : 2 ,\t"a" : 1\r\n} ', '{"\\u0062":2,"\\u0061":1}')),
    ("two members, values swapped", ('{"a":2,"b":1}',)),
    ("a name that is the start of another", ('{"aa":2,"a":1,"":0}', '{"":0,"a":1,"aa":2}')),
    ("names by code point, not by locale", ('{"\u00e4":5,"z":4,"a":3,"Z":2,"_":9,"A":1,"10":8,"9":7,"1":6}',)),
    ("nested members", ('{"z":{"y":{"b":1,"a":2},"x":[{"d":3,"c":4}]},"a":null}', '{"a":null,"z":{"x":[{"c":4,"d":3}],"y":{"a":2,"b":1}}}')),
    ("order of an array", ("[3,1,2]", " [ 3 , 1 , 2 ] ")),
    ("another order of that array", ("[1,2,3]",)),
    ("an order of objects in an array", ('[{"b":1},{"a":1}]',)),
    ("the other order of those objects", ('[{"a":1},{"b":1}]',)),
    ("the same name in two objects", ('{"a":{"a":1},"b":{"a":1}}',)),
    ("a null member", ('{"a":null}',)),
    ("100 arrays deep", ("[" * 100 + "]" * 100, "[ " * 100 + "] " * 100)),
    # Where UTF-16 would sort otherwise: an astral name starts with a surrogate, U+D800 to U+DBFF.
    ("U+FB33 before U+1F600", ('{"\U0001f600":1,"\ufb33":2}', '{"\\ud83d\\ude00":1,"\\uFB33":2}')),
    ("U+FFEE before U+10000", ('{"\U00010000":1,"\uffee":2,"\ud7ff":3}', '{"\ud7ff":3,"\uffee":2,"\U00010000":1}')),
    ("surrogates inside a name", ('{"a\U0001f600":1,"a\ufffd":2,"a":3,"a\U0010ffff":4,"a\ue000":5}',)),
    ("names with escapes, sorted by what they mean", ('{"\\u007a":1,"\\n":2,"\\u0000":3,"\\"":4,"\\\\":5,"/":6}', '{"z":1,"\\u000a":2,"\\u0000":3,"\\u0022":4,"\\u005c":5,"\\/":6}')),
    # Text.
    ("escaped letters", ('"A"', '"\\u0041"')),
    ("the other case", ('"a"', '"\\u0061"')),
    ("an escaped emoji", ('"\U0001f600"', '"\\ud83d\\ude00"', '"\\uD83D\\uDE00"')),
    ("the last code point", ('"\U0010ffff"', '"\\udbff\\udfff"')),
    ("short escapes", ('"\\"\\\\\\b\\t\\n\\f\\r"', '"\\u0022\\u005c\\u0008\\u0009\\u000a\\u000c\\u000d"', '"\\u0022\\u005C\\u0008\\u0009\\u000A\\u000C\\u000D"')),
    ("other controls", ('"\\u0000\\u0001\\u0007\\u000b\\u000e\\u001b\\u001f"', '"\\u0000\\u0001\\u0007\\u000B\\u000E\\u001B\\u001F"')),
    ("a slash is literal", ('"/"', '"\\/"', '"\\u002f"')),
    ("DEL and C1 are literal", ('"\u007f\u0080\u0085\u009f"', '"\\u007f\\u0080\\u0085\\u009F"')),
    ("line separators are literal", ('"\u2028\u2029"', '"\\u2028\\u2029"')),
    ("a byte order mark in a text", ('"\ufeff"', '"\\ufeff"')),
    ("noncharacters", ('"\ufffe\uffff\ufdd0"', '"\\ufffe\\uffff\\ufdd0"')),
    ("HTML is literal", ('"<a href=\'x\'>&</a>"', '"\\u003ca href=\\u0027x\\u0027\\u003e\\u0026\\u003c/a\\u003e"')),
    ("a backslash and a letter", ('"\\\\u0041"',)),
    ("white space in a text is kept", ('" a  b "',)),
    ("composed", ('"\u00e9"', '"\\u00e9"')),
    ("decomposed", ('"e\u0301"', '"e\\u0301"')),
    ("names that differ by normalisation alone", ('{"\u00e9":1,"e\u0301":2}',)),
    ("a number as text", ('"1"',)),
    ("a number of another form as text", ('"1.0"',)),
    # Numbers.
    ("one", ("1", "1.0", "1e0", "1E+0", "1e-0", "10e-1", "0.1e1", "100.00e-2", "1e00000000000000000000000000")),
    ("minus one", ("-1", "-1.0", "-10e-1")),
    ("zero", ("0", "-0", "0.0", "-0.0", "0e0", "0.0e5", "-0E-5", "0e1000000", "0e-1000000", "0." + "0" * 40)),
    ("ten", ("10", "1e1", "1.0E+1", "0.00001e6")),
    ("1.5", ("1.5", "1.50", "15e-1", "0.15E1")),
    ("a tenth", ("0.1", "1e-1", "0.10")),
    ("a tenth, as a double has it", ("0.1000000000000000055511151231257827021181583404541015625",)),
    ("0.30000000000000004", ("0.30000000000000004", "3.0000000000000004e-1")),
    ("0.3", ("0.3",)),
    ("123.456", ("123.456", "1.23456e2", "123456e-3", "123.4560")),
    ("the last double that counts", ("9007199254740992",)),
    ("one more than that", ("9007199254740993", "9007199254740993.0", "9.007199254740993e15")),
    ("the largest u64", ("18446744073709551615", "18446744073709551615.000")),
    ("one more than the largest u64", ("18446744073709551616",)),
    ("the smallest i64", ("-9223372036854775808",)),
    ("100000000000000000000", ("100000000000000000000", "1e20", "1E20")),
    ("21 digits: the last plain integer", ("123456789012345678901", "12345678901234567890.1e1")),
    ("1e21: the first integer with an exponent", ("1e21", "1000000000000000000000", "1E+21", "0.1e22")),
    ("999999999999999999999", ("999999999999999999999",)),
    ("a point after 21 digits", ("123456789012345678901.5", "1.234567890123456789015e20")),
    ("a point after 22 digits", ("1234567890123456789012.5",)),
    ("23 digits", ("12345678901234567890123", "12345678901234567890123.0", "1.2345678901234567890123e22")),
    ("23 digits, the last one greater", ("12345678901234567890124",)),
    ("trailing zeros beyond 21 digits", ("1200000000000000000000000", "1.2e24", "12e23")),
    ("0.000001: the last plain fraction", ("0.000001", "1e-6", "0.1E-5")),
    ("1e-7: the first fraction with an exponent", ("0.0000001", "1e-7", "1E-07", "10e-8")),
    ("0.00000123", ("0.00000123", "1.23e-6")),
    ("1.23e-7", ("0.000000123", "1.23e-7", "123e-9")),
    ("-1.5e-10", ("-0.00000000015", "-1.5e-10")),
    ("larger than a double", ("1e400", "10e399")),
    ("smaller than a double", ("1e-400", "0.1e-399")),
    ("larger than a double, negative", ("-1e400",)),
    ("the largest exponent", ("1e1000000", "1E+1000000", "1e0001000000")),
    ("the smallest exponent", ("1e-1000000",)),
    # The bound is on the exponent as written, not on that of the canonical form.
    ("an exponent that grows beyond the bound in writing", ("10e1000000",)),
    ("400 digits", ("7" * 400, "7" * 400 + ".0", "0." + "7" * 400 + "e400")),
    ("400 digits of a fraction", ("0." + "3" * 400,)),
    ("401 digits of a fraction", ("0." + "3" * 401,)),
    # A whole request.
    ("a request", (
        '{"tenant":"t-7","amount":10.50,"currency":"EUR","lines":[{"sku":"A-1","qty":2},{"qty":1,"sku":"B/2"}],"note":"Gr\u00fc\u00dfe \\u2764"}',
        '{\n  "note": "Gr\\u00fc\\u00dfe \u2764",\n  "lines": [\n    {"qty": 2.0, "sku": "\\u0041-1"},\n    {"sku": "B\\/2", "qty": 1e0}\n  ],\n  "currency": "EUR",\n  "amount": 1.05e1,\n  "tenant": "t-7"\n}',
    )),
    ("that request with another amount", (
        '{"tenant":"t-7","amount":10.51,"currency":"EUR","lines":[{"sku":"A-1","qty":2},{"qty":1,"sku":"B/2"}],"note":"Gr\u00fc\u00dfe \\u2764"}',
    )),
]

# What the rules for numbers come to, worked out by hand: the program above has to agree.
BY_HAND = {
    "-0": "0",
    "10e-1": "1",
    "100.00e-2": "1",
    "1e20": "100000000000000000000",
    "123456789012345678901": "123456789012345678901",
    "1e21": "1e+21",
    "12345678901234567890123": "1.2345678901234567890123e+22",
    "123456789012345678901.5": "123456789012345678901.5",
    "1234567890123456789012.5": "1.2345678901234567890125e+21",
    "0.000001": "0.000001",
    "0.0000001": "1e-7",
    "0.00000123": "0.00000123",
    "123e-9": "1.23e-7",
    "-0.00000000015": "-1.5e-10",
    "1e400": "1e+400",
    "10e1000000": "1e+1000001",
}

# (why, name, input)
REFUSED = [
    ("syntax", "empty text", ""),
    ("syntax", "white space only", " \n\t"),
    ("syntax", "two values", "1 2"),
    ("syntax", "two objects", "{}{}"),
    ("syntax", "two lines", "1\n2\n"),
    ("syntax", "trailing garbage", '{"a":1}x'),
    ("syntax", "trailing NUL", "1\u0000"),
    ("syntax", "byte order mark", "\ufeff1"),
    ("syntax", "no-break space as white space", "\u00a01"),
    ("syntax", "vertical tab as white space", "[1,\u000b2]"),
    ("syntax", "form feed as white space", "1\u000c"),
    ("syntax", "next line as white space", "\u00851"),
    ("syntax", "unclosed object", '{"a":1'),
    ("syntax", "unclosed array", "[1,2"),
    ("syntax", "unclosed text", '"abc'),
    ("syntax", "unclosed escape", '"abc\\'),
    ("syntax", "closed by the wrong bracket", "[1}"),
    ("syntax", "closed too often", "[1]]"),
    ("syntax", "trailing comma in an array", "[1,]"),
    ("syntax", "trailing comma in an object", '{"a":1,}'),
    ("syntax", "leading comma", "[,1]"),
    ("syntax", "two commas", "[1,,2]"),
    ("syntax", "no comma", "[1 2]"),
    ("syntax", "no comma between members", '{"a":1 "b":2}'),
    ("syntax", "no colon", '{"a" 1}'),
    ("syntax", "no value", '{"a":}'),
    ("syntax", "a name without quotes", "{a:1}"),
    ("syntax", "a number as name", "{1:2}"),
    ("syntax", "single quotes", "'a'"),
    ("syntax", "single quotes around a name", "{'a':1}"),
    ("syntax", "line comment", "1 // one"),
    ("syntax", "block comment", "[1,/* two */2]"),
    ("syntax", "hash comment", "# one\n1"),
    ("syntax", "leading zero", "01"),
    ("syntax", "leading zeros after a minus", "-00"),
    ("syntax", "leading zero before a point", "01.5"),
    ("syntax", "plus sign", "+1"),
    ("syntax", "no digit before the point", ".5"),
    ("syntax", "no digit after the point", "1."),
    ("syntax", "no digit between point and exponent", "1.e5"),
    ("syntax", "no digit in the exponent", "1e"),
    ("syntax", "no digit after the exponent's sign", "1e+"),
    ("syntax", "a fraction in the exponent", "1e1.5"),
    ("syntax", "minus alone", "-"),
    ("syntax", "two minus signs", "--1"),
    ("syntax", "white space after the minus", "- 1"),
    ("syntax", "hexadecimal", "0x10"),
    ("syntax", "digits grouped", "1_000"),
    ("syntax", "digits of another script", "\u0661"),
    ("syntax", "digits of another script, after one of ours", "1\u0661"),
    ("syntax", "NaN", "NaN"),
    ("syntax", "Infinity", "Infinity"),
    ("syntax", "-Infinity", "-Infinity"),
    ("syntax", "NaN in an array", "[NaN]"),
    ("syntax", "upper case", "TRUE"),
    ("syntax", "undefined", "undefined"),
    ("syntax", "cut short", "nul"),
    ("syntax", "line end in a text", '"a\nb"'),
    ("syntax", "tab in a text", '"a\tb"'),
    ("syntax", "NUL in a text", '"a\u0000b"'),
    ("syntax", "U+001F in a text", '"a\u001fb"'),
    ("syntax", "control in a name", '{"a\u0001":1}'),
    ("syntax", "unknown escape", '"\\a"'),
    ("syntax", "escape of a single quote", '"\\\'"'),
    ("syntax", "escape by two digits", '"\\x41"'),
    ("syntax", "escape by three digits", '"\\u041"'),
    ("syntax", "escape with a letter that is no digit", '"\\u00g1"'),
    ("syntax", "escape with a sign", '"\\u+041"'),
    ("syntax", "upper case escape", '"\\U00000041"'),
    ("duplicate", "member twice", '{"a":1,"a":2}'),
    ("duplicate", "member twice, with one value", '{"a":1,"a":1}'),
    ("duplicate", "member twice, not side by side", '{"a":1,"b":2,"a":3}'),
    ("duplicate", "member twice, one escaped", '{"a":1,"\\u0061":2}'),
    ("duplicate", "member twice, two escapes", '{"\\n":1,"\\u000A":2}'),
    ("duplicate", "member twice, an emoji escaped", '{"\U0001f600":1,"\\ud83d\\ude00":2}'),
    ("duplicate", "empty name twice", '{"":1,"":2}'),
    ("duplicate", "member twice, in a member", '{"x":{"a":1,"a":2}}'),
    ("duplicate", "member twice, in an array", '[1,{"y":[{"a":1,"a":2}]}]'),
    ("surrogate", "high surrogate alone", '"\\ud800"'),
    ("surrogate", "high surrogate at the end of a text", '"a\\udbff"'),
    ("surrogate", "high surrogate before a letter", '"\\ud83dA"'),
    ("surrogate", "high surrogate before an escaped letter", '"\\ud83d\\u0041"'),
    ("surrogate", "high surrogate before another escape", '"\\ud83d\\n"'),
    ("surrogate", "high surrogate before a pair", '"\\ud83d\\ud83d\\ude00"'),
    ("surrogate", "low surrogate alone", '"\\ude00"'),
    ("surrogate", "low surrogate after a pair", '"\\ud83d\\ude00\\udc00"'),
    ("surrogate", "wrong way round", '"\\ude00\\ud83d"'),
    ("surrogate", "surrogate in a name", '{"\\ud800":1}'),
    ("surrogate", "surrogate deep inside", '[{"a":["\\uDFFF"]}]'),
    ("exponent", "one above the bound", "1e1000001"),
    ("exponent", "one below the negative bound", "1e-1000001"),
    ("exponent", "exponent of zero", "0e1000001"),
    ("exponent", "exponent with a fraction that would make up for it", "0.1e1000001"),
    ("exponent", "exponent larger than i32", "1e2147483648"),
    ("exponent", "exponent larger than i64", "1e9223372036854775808"),
    ("exponent", "exponent smaller than i64", "1e-9223372036854775809"),
    ("exponent", "exponent larger than u64", "1E+18446744073709551616"),
    ("exponent", "exponent of 40 digits", "1e" + "9" * 40),
    ("exponent", "exponent deep inside", '{"a":[1,-2.5e-1000001]}'),
]


def canonical():
    cases, groups = [], {}
    for group, inputs in GROUPS:
        assert group not in groups, group
        forms = {canonical_text(text) for text in inputs}
        assert len(forms) == 1, f"{group}: {forms}"
        form = forms.pop()
        assert form not in groups.values(), f"{group}: not the only group with {form}"
        groups[group] = form
        # What is canonical is JSON of the same value; within the bound it is its own form.
        if group != "an exponent that grows beyond the bound in writing":
            assert canonical_text(form) == form, group
        for text in inputs:
            name = group if len(inputs) == 1 else f"{group} #{inputs.index(text) + 1}"
            cases.append(
                {
                    "name": name,
                    "group": group,
                    "input": text,
                    "canonical": form,
                    "sha256": sha256(form.encode("utf-8")),
                }
            )
    for text, form in BY_HAND.items():
        assert canonical_text(text) == form, text
        assert Decimal(form) == Decimal(text), text
    refused = []
    for why, name, text in REFUSED:
        try:
            form = canonical_text(text)
        except Refused as refusal:
            assert refusal.args[0] == why, f"{name}: {refusal}"
        else:
            raise AssertionError(f"{name}: taken as {form}")
        refused.append({"name": name, "input": text, "why": why})
    return {"cases": cases, "refused": refused}


# Keys of callers: I-5, I-6.

KEY_CHARS_MAX = 255


def parsed(name, raw):
    case = {"name": name, "raw": raw}
    if raw is None:
        return case | {"outcome": "none"}
    value = trim(expand(raw))
    control = next((i for i, char in enumerate(value) if char < " " or char == "\u007f"), None)
    # In the order in which I-6 names them.
    if not value:
        return case | {"outcome": "blank"}
    if len(value) > KEY_CHARS_MAX:
        return case | {"outcome": "too_long"}
    if control is not None:
        return case | {"outcome": "control", "index": control}
    return case | {"outcome": "key", "value": raw if isinstance(raw, dict) else value}


def keys():
    emoji = "\U0001f600"
    cases = [
        parsed("absent", None),
        # Blank.
        parsed("empty", ""),
        parsed("space", " "),
        parsed("tab and line end", "\t\r\n"),
        parsed("vertical tab and form feed", "\u000b\u000c"),
        parsed("next line", "\u0085"),
        parsed("no-break space", "\u00a0"),
        parsed("em space", "\u2003"),
        parsed("ideographic space", "\u3000"),
        parsed("every white space", "".join(sorted(WHITE_SPACE))),
        parsed("300 spaces", repeat(" ", 300)),
        # Taken.
        parsed("one character", "a"),
        parsed("a UUID", "018f4e9a-7c1d-7e2b-9a3c-5d6e7f801234"),
        parsed("the text null", "null"),
        parsed("printable ASCII", "".join(map(chr, range(0x21, 0x7F)))),
        parsed("quotes are kept", '"quoted"'),
        parsed("case is kept", "AbC"),
        parsed("white space inside is kept", "a b\u3000c"),
        parsed("composed", "caf\u00e9"),
        parsed("decomposed is another key", "cafe\u0301"),
        parsed("beyond the basic plane", emoji),
        parsed("zero width space is not white space", "\u200b"),
        parsed("zero width space is not trimmed", "\u200ba\u200b"),
        parsed("byte order mark is not trimmed", "\ufeffa"),
        parsed("Mongolian vowel separator is not trimmed", "\u180ea"),
        # Trimmed.
        parsed("spaces around", "  a  "),
        parsed("a line end after", "a\r\n"),
        parsed("tabs around", "\ta\t"),
        parsed("next line around is white space", "\u0085a\u0085"),
        parsed("line separators around", "\u2028a\u2029"),
        parsed("every white space around", "".join(sorted(WHITE_SPACE)) + "a b" + "".join(sorted(WHITE_SPACE))),
        # The length: in characters, after trimming.
        parsed("254 characters", repeat("a", 254)),
        parsed("255 characters", repeat("a", 255)),
        parsed("256 characters", repeat("a", 256)),
        parsed("10000 characters", repeat("a", 10000)),
        parsed("255 after trimming", " \t" + "a" * 255 + "\u2003\n"),
        parsed("256 after trimming", " " + "a" * 256 + " "),
        parsed("255 with a space inside", "a" * 127 + " " + "b" * 127),
        parsed("255 characters of two bytes", repeat("\u00e9", 255)),
        parsed("256 characters of two bytes", repeat("\u00e9", 256)),
        parsed("255 characters beyond the basic plane", repeat(emoji, 255)),
        parsed("256 characters beyond the basic plane", repeat(emoji, 256)),
        parsed("128 characters beyond the basic plane: 256 in UTF-16", repeat(emoji, 128)),
        parsed("255 combining accents", repeat("\u0301", 255)),
        # Controls.
        parsed("NUL inside", "a\u0000b"),
        parsed("NUL alone", "\u0000"),
        parsed("NUL first", "\u0000a"),
        parsed("NUL last", "a\u0000"),
        parsed("tab inside", "a\tb"),
        parsed("line end inside", "abc\r\ndef"),
        parsed("escape inside", "ab\u001b[31m"),
        parsed("U+001F inside", "a\u001fb"),
        parsed("DEL inside", "ab\u007fc"),
        parsed("DEL alone", "\u007f"),
        parsed("U+001C is a control, not white space", "\u001ca"),
        parsed("U+001F last is not trimmed", "a\u001f"),
        parsed("the index is that of the trimmed text", "  \u3000ab\tc "),
        parsed("the index counts characters, not bytes", emoji + "\u00e9\u6ce8\u0007"),
        parsed("the first of two counts", "ab\u0001\u0000"),
        parsed("the 255th of 255", "a" * 254 + "\u0007"),
        parsed("too long comes before a control", "\u0007" + "a" * 255),
        # The letter of I-6: C1 controls are not among those it refuses.
        parsed("next line inside", "a\u0085b"),
        parsed("U+0080 and U+009F", "\u0080\u009f"),
        parsed("U+009B inside", "a\u009bb"),
        parsed("line separator inside", "a\u2028b"),
    ]
    return {"cases": cases}


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    stale = []
    for name, content in (("minting", minting()), ("canonical", canonical()), ("keys", keys())):
        for cases in content.values():
            names = [case["name"] for case in cases]
            assert len(set(names)) == len(names), f"{name}: two cases have one name"
        # ASCII: what is invisible, or looks like something else, stays readable.
        data = (json.dumps(content, indent=2, ensure_ascii=True) + "\n").encode("ascii")
        path = FOLDER / f"{name}.json"
        if not check:
            path.write_bytes(data)
        elif not path.exists() or path.read_bytes() != data:
            stale.append(path.name)
    if stale:
        sys.exit(f"not what make.py writes: {', '.join(stale)}")


if __name__ == "__main__":
    main()
