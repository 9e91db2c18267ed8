//! The keys among any arguments of any command: every position names an argument.
#![no_main]

use std::sync::LazyLock;

use mantissa_commands::{FAMILIES, Registry, find_keys, key_flags};
use mantissa_protocol::OwnedArgs;

static REGISTRY: LazyLock<Registry<()>> = LazyLock::new(|| {
    let mut registry = Registry::default();
    FAMILIES.iter().for_each(|family| registry.add(family, |_| ()));
    registry
});

/// Words that key specifications and the code behind them look for.
const KEYWORDS: [&[u8]; 12] = [
    b"STORE",
    b"STOREDIST",
    b"KEYS",
    b"STREAMS",
    b"WEIGHTS",
    b"COUNT",
    b"GET",
    b"BY",
    b"2",
    b"-1",
    b"9999999999",
    b"",
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&number, data)) = data.split_first() else { return };
    let commands: Vec<_> =
        REGISTRY.iter().flat_map(|command| std::iter::once(command).chain(&command.subcommands)).collect();
    let command = commands[usize::from(number) % commands.len()];
    let mut words: Vec<&[u8]> = command.name.split('|').map(str::as_bytes).collect();
    // A word is a keyword, or what follows up to the next zero.
    for word in data.split(|byte| *byte == 0) {
        match word {
            [index, rest @ ..] if *index >= 0xf0 => {
                words.push(KEYWORDS[usize::from(*index - 0xf0) % KEYWORDS.len()]);
                words.extend((!rest.is_empty()).then_some(rest));
            }
            _ => words.push(word),
        }
    }
    let args = OwnedArgs::from_slices(&words);
    let args = args.as_args();
    for position in find_keys(command.info, args).unwrap_or_default() {
        assert!(position.index > 0 && position.index < args.len(), "{}: {position:?}", command.name);
        let _ = key_flags(command.info, &position, args);
    }
});
