//! What a run of a script costs in the language itself, with a host that replies at once.
//!
//!     cargo bench -p mantissa-scripting --bench calls [-- all|NAME [RUNS]]
//!
//! Prints ns for a run. Counting instructions is steadier: run the program under
//! `valgrind --tool=callgrind` with two numbers of RUNS, and divide the difference.

use std::hint::black_box;
use std::time::Instant;

use mantissa_protocol::{Args, OwnedArgs, Protocol, Reply};
use mantissa_scripting::{CallError, Ending, Host, Language, LogLevel, Lua51};

const RUNS: u64 = 100_000;

/// Name, text, keys, arguments.
type Case = (&'static str, &'static str, &'static [&'static [u8]], &'static [&'static [u8]]);

const CASES: &[Case] = &[
    ("empty", "return 1", &[], &[]),
    ("get", "return redis.call('get', KEYS[1])", &[b"key:000000000001"], &[]),
    (
        "ten-incr",
        "local n for i = 1, 10 do n = redis.call('incr', KEYS[1]) end return n",
        &[b"key:000000000001"],
        &[],
    ),
    ("set", "return redis.call('set', KEYS[1], ARGV[1])", &[b"key:000000000001"], &[b"value"]),
    ("pcall", "return redis.pcall('fail')", &[], &[]),
    (
        "cjson",
        "local t = cjson.decode(ARGV[1]) t.count = t.count + 1 return cjson.encode(t)",
        &[],
        &[br#"{"id":12345,"name":"a name of some length","tags":["one","two","three"],
            "count":7,"nested":{"x":1.5,"y":-2,"on":true}}"#],
    ),
    ("loop", "local sum = 0 for i = 1, 1000 do sum = sum + i % 7 end return sum", &[], &[]),
    (
        "strings",
        "local t = {} for i = 1, 100 do t[#t + 1] = string.format('%d:%s', i, 'x') end \
         return table.concat(t, ',')",
        &[],
        &[],
    ),
    ("hgetall", "local t = redis.call('hgetall', KEYS[1]) return #t", &[b"key:000000000001"], &[]),
];

struct Server {
    last_tick: Instant,
    protocol: Protocol,
}

impl Host for Server {
    fn call(&mut self, args: Args<'_>, reply: &mut Reply) -> Result<(), CallError> {
        reply.set_protocol(self.protocol);
        match args.at(0) {
            b"get" => reply.bulk(b"a value of some bytes"),
            b"incr" => reply.integer(12345),
            b"hgetall" => {
                reply.map(20);
                (0..40).for_each(|_| reply.bulk(b"field or value"));
            }
            b"fail" => return Err(CallError { text: b"ERR no such command".to_vec(), counted: true }),
            _ => reply.ok(),
        }
        Ok(())
    }

    fn tick(&mut self) -> bool {
        self.last_tick = Instant::now();
        true
    }

    fn last_tick(&self) -> Instant {
        self.last_tick
    }

    fn is_aborted(&self) -> bool {
        false
    }

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    fn set_logs(&mut self, _logs: bool) {}

    fn may_run(&mut self, _args: Args<'_>) -> Option<bool> {
        Some(true)
    }

    fn log(&mut self, _level: LogLevel, _line: &[u8]) {}
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let wanted = words.first().map_or("all", String::as_str);
    let runs = words.get(1).map_or(RUNS, |word| word.parse().expect("RUNS is a number"));
    for (name, text, keys, arguments) in CASES.iter().filter(|(name, ..)| wanted == "all" || *name == wanted)
    {
        let mut machine = Lua51 { redis_version: "8.2.3" }.machine().expect("there is memory");
        let code = machine.compile_script(text.as_bytes()).expect("it compiles");
        let (keys, arguments) = (OwnedArgs::from_slices(keys), OwnedArgs::from_slices(arguments));
        let mut reply = Reply::new(Protocol::Resp2);
        let start = Instant::now();
        for _ in 0..runs {
            reply.truncate(0);
            let mut host = Server { last_tick: Instant::now(), protocol: Protocol::Resp2 };
            let (keys, arguments) = (black_box(keys.as_args()), arguments.as_args());
            let ending = machine.run(&code, keys, arguments, &mut host, &mut reply);
            assert!(matches!(ending, Ending::Returned { .. }), "{ending:?}");
        }
        println!("{name:10} {:8.0} ns", start.elapsed().as_nanos() as f64 / runs as f64);
    }
}
