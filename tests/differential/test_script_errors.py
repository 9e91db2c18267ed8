"""What the functions that scripts call say to wrong arguments, beside redis-server: every function with every
kind of value, and malformed patterns and replacements."""

import itertools
import re

import pytest

from support.seeds import generator

VALUES = (
    "nil true 1 -1 0 1.5 'abc' '5' '' {} {1,2,3} print tostring 1e100 2^31 -2^31 '%' {1,nil,3,'x'} "
    "function(...)return(...)end coroutine.create(function()end) cjson.null"
).split(" ")
FEW = "nil true 1 -1 'abc' {1,2,3} tostring 1.5".split()
FUNCTIONS = {
    "string.": "byte char find format gmatch gfind gsub len lower match rep reverse sub upper",
    "table.": "concat foreach foreachi getn insert maxn remove setn sort",
    "math.": "abs ceil floor fmod frexp ldexp max min modf pow random sqrt tan",
    "cjson.": "encode decode encode_sparse_array encode_max_depth decode_max_depth encode_number_precision "
    "encode_keep_buffer encode_invalid_numbers decode_invalid_numbers",
    "cmsgpack.": "pack unpack unpack_one unpack_limit",
    "struct.": "pack unpack size",
    "bit.": "tobit bnot band bor bxor lshift rshift arshift rol ror bswap tohex",
    "coroutine.": "create resume status wrap",
    "redis.": "call log sha1hex error_reply status_reply setresp acl_check_cmd",
    "": "assert error getmetatable ipairs loadstring next pairs rawequal rawget rawset select setmetatable "
    "tonumber tostring type unpack xpcall",
}
PATTERNS = (
    "[ [a [^ [] []] [^] [^]] [a- [a-] [% [%a [%] % a% %b %bx %bxy %f %fa %f[ %f[a %f[a] ( ) (() ()) ((a) (a)) "
    "() %1 %2 (a)%1 (a)%2 (%1) %0 * + - ? ^* ^ $ ^$ a** a-+ [[:alpha:]] %g %Z [z-a] [%a-z] [a-%%] x* (x*) ()() "
    "(.)(.) %b() a\\0b [\\0] %z %% [-a] [a-z-9] .- ^a* ^(a)$ [%w_]+ (%w+)=(%w+) %s*$ (.-)%s"
).split(" ")
TEXTS = ["", "a", "abc]", "a=b, c=d", "(a(b)c)", "a%b", "a\\0b"]
REPLACEMENTS = ["''", "'x'", "'%0'", "'%1'", "'%2'", "'%9'", "'%'", "'%a'", "'a%'", "'%1%0'", "5"] + (
    "nil true print {} {a='x'} {a=true} {a=false} {a={}} function()end function()return{}end "
    "function()return(true)end function()return(5)end function()error('boom')end"
).split(" ")
LIMITS = ["", ",0", ",1", ",-1", ",'1'", ",'x'", ",nil", ",{}", ",1.9", ",2^31", ",2^32+1", ",0/0", ",1e300"]
BATCH = 500


def calls_of(library):
    """Calls of the functions of a library with one, two and three arguments."""
    for name in FUNCTIONS[library].split():
        yield f"{library}{name}()"
        lists = [*((value,) for value in VALUES), *itertools.product(FEW, FEW + ["'%'", "2^31", "{}"])]
        lists += itertools.product(["'abc'", "{1,2,3}"], FEW, FEW)
        for values in lists:
            yield f"{library}{name}({','.join(values)})"


def calls_with_patterns():
    """Calls with each pattern, with some of the texts, replacements and limits."""
    choose = generator("script errors")
    for pattern, text in itertools.product(PATTERNS, TEXTS):
        start = choose.choice([-5, -1, 0, 1, 2, 10, "nil", "'1e10'", "-1e300"])
        yield f"string.find('{text}','{pattern}',{start})"
        yield f"string.match('{text}','{pattern}')"
        yield f"string.gmatch('{text}','{pattern}')()"
        for replacement in choose.sample(REPLACEMENTS, 5):
            yield f"string.gsub('{text}','{pattern}',{replacement}{choose.choice(LIMITS)})"


def without_addresses(raw):
    return re.sub(rb"builtin: [0-9a-f]+|0x[0-9a-f]+", b"ADDRESS", raw)


@pytest.mark.parametrize("library", [*FUNCTIONS, "patterns"], ids=lambda name: name.strip(".") or "base")
def test_errors(start_server, library):
    calls = list(calls_with_patterns() if library == "patterns" else calls_of(library))
    scripts = [f"return {{{call}}}" for call in calls]
    scripts += [f"return {call}" for call in calls]
    scripts += [f"\n\nlocal result = {call}" for call in calls]
    scripts += [f"local function f() return {{{call}}} end return {{pcall(f)}}" for call in calls]
    subject, oracle = start_server("subject", workers=1).connect(), start_server("oracle").connect()
    different = []
    for first in range(0, len(scripts), BATCH):
        batch = scripts[first : first + BATCH]
        requests = [("EVAL", script, 0) for script in batch]
        pairs = zip(batch, subject.pipeline(requests), oracle.pipeline(requests))
        raws = ((script, without_addresses(left.raw), without_addresses(right.raw)) for script, left, right in pairs)
        different += [f"{script}\n  {left}\n  {right}" for script, left, right in raws if left != right]
    assert not different, f"{len(different)} of {len(scripts)}:\n" + "\n".join(different[:10])
